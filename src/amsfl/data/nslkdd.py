"""NSL-KDD: two text files, found or fetched, checked by SHA-256, parsed and encoded by the schema.

Tavallaee, Bagheri, Lu, Ghorbani, "A Detailed Analysis of the KDD CUP 99 Data Set", IEEE CISDA 2009,
doi 10.1109/CISDA.2009.5356528. The files are not part of this package.
"""

import gzip
import hashlib
import io
import os
import zlib
from pathlib import Path
from urllib.parse import quote

import numpy as np

from amsfl.core import UserError
from amsfl.data.dataset import Dataset
from amsfl.data.nslkdd_schema import COLUMNS, NUMERIC, RawTraffic, traffic_data

MIRROR = "https://raw.githubusercontent.com/defcom17/NSL_KDD/master/"
SHA256 = {  # of the uncompressed file
    "KDDTrain+.txt": "1b86d2f957b33082081bba410fe129b475efebcc13c9014c3f447c8271aadf95",
    "KDDTest+.txt": "fa46b0935342616aa83b7c2578db355b6a7aaabbc492248172c7a1e8b7ab8f84",
}
TIMEOUT = (3.05, 20)  # seconds to connect, seconds between bytes: offline must not mean waiting


class Unavailable(UserError):
    """Nothing on this machine, and the mirror cannot be reached."""


def load_nslkdd(
    data_dir: str | None = None, binary: bool = False, holdout: float = 0.2, seed: int = 0
) -> Dataset:
    """A hold-out of KDDTrain+ and the official KDDTest+, side by side; five classes or two."""
    pool, test = (parse(checked(path, name)) for name, path in files(data_dir).items())
    return traffic_data("nslkdd", pool, test, binary, holdout, seed)


def files(data_dir: str | None = None) -> dict[str, Path]:
    """Both files by name: from the folder the user named, else the cache, else the mirror."""
    named = data_dir or os.environ.get("AMSFL_DATA_DIR")
    if not named:
        return {name: _find(cache(), name) or download(name) for name in SHA256}
    paths = {name: _find(Path(named).expanduser(), name) for name in SHA256}
    missing = [name for name, path in paths.items() if path is None]
    if missing:
        whose = "--data-dir" if data_dir else "AMSFL_DATA_DIR"
        raise UserError(
            f"{whose} is {named}, which does not hold {' and '.join(missing)} (plain or .gz); put the files "
            f"there, or leave {whose} out to use the cache or download them."
        )
    return {name: path for name, path in paths.items() if path}


def find_location(data_dir: str | None = None) -> str:
    """Where the files are, or how to get them, in a few words."""
    named = data_dir or os.environ.get("AMSFL_DATA_DIR")
    folder = Path(named).expanduser() if named else cache()
    if all(_find(folder, name) for name in SHA256):
        return f"found in {folder}"
    return f"not in {named}" if named else "downloaded on first use, or --data-dir DIR"


def cache() -> Path:
    """The user's cache folder for downloads."""
    import pooch

    return Path(pooch.os_cache("amsfl"))


def _find(folder: Path, name: str) -> Path | None:
    candidates = (folder / sub / (name + end) for sub in ("", "nslkdd") for end in ("", ".gz"))
    return next((path for path in candidates if path.is_file()), None)


def download(name: str) -> Path:
    """Fetch a file into the cache, checked before it gets its name there."""
    import pooch

    pooch.get_logger().setLevel("WARNING")
    try:
        fetch = pooch.HTTPDownloader(timeout=TIMEOUT)
        path = pooch.retrieve(MIRROR + quote(name), f"sha256:{SHA256[name]}", name, cache(), downloader=fetch)
    except (OSError, ValueError) as error:  # requests' errors are OSErrors; a wrong hash is a ValueError
        raise Unavailable(
            f"{name} is not on this machine and could not be downloaded from {MIRROR} "
            f"({type(error).__name__}); pass --data-dir DIR with KDDTrain+.txt and KDDTest+.txt "
            "(plain or .gz), or use --data nslkdd-synth."
        ) from error
    return Path(path)


def checked(path: Path, name: str) -> bytes:
    """The file's uncompressed content, if it is byte for byte the published one."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({error}); fetch it again from {MIRROR}.") from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256[name]:
        raise UserError(
            f"{path} is not the published {name}: SHA-256 of its uncompressed content is {digest}, "
            f"expected {SHA256[name]}; delete it and fetch it again from {MIRROR}."
        )
    return content


def parse(content: bytes) -> RawTraffic:
    """Rows of comma-separated text: 41 features, the attack's name, and a score that is not used.

    Not one cell is looked at: `checked` says that the text is the published one.
    """
    # The three words are columns 2 to 4, between the first number and the other 37.
    fields = [("first", "f4", 1), ("words", "U16", 3), ("rest", "f4", len(NUMERIC) - 1), ("attack", "U16")]
    text, columns = io.StringIO(content.decode("ascii")), range(len(COLUMNS) + 1)
    table = np.loadtxt(text, np.dtype(fields), delimiter=",", usecols=columns, comments=None, ndmin=1)
    return RawTraffic(np.concatenate([table["first"], table["rest"]], 1), table["words"], table["attack"])
