"""NSL-KDD: two text files, found or fetched, checked by SHA-256, parsed and encoded by the schema.

Tavallaee, Bagheri, Lu, Ghorbani, "A Detailed Analysis of the KDD CUP 99 Data Set", IEEE CISDA 2009,
doi 10.1109/CISDA.2009.5356528. The files are not part of this package.

41 raw columns become 122 numbers in [0, 1], and nothing is fitted: a federated client cannot see the ranges
of the others, so the vocabularies and ranges are written down here. They are those of the KDD Cup 1999 data
from which NSL-KDD was drawn.
"""

import gzip
import hashlib
import io
import os
import zlib
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np
import numpy.typing as npt

from amsfl.core import UserError
from amsfl.data.dataset import Dataset, FloatArray, IntArray, hold_out
from amsfl.data.recipe import ColumnRecipe, Recipe
from amsfl.record.disk import make_folder, user_cache, write_atomically

MIRROR = "https://raw.githubusercontent.com/defcom17/NSL_KDD/master/"
SHA256 = {  # of the uncompressed file
    "KDDTrain+.txt": "1b86d2f957b33082081bba410fe129b475efebcc13c9014c3f447c8271aadf95",
    "KDDTest+.txt": "fa46b0935342616aa83b7c2578db355b6a7aaabbc492248172c7a1e8b7ab8f84",
}
VARIABLE = "AMSFL_DATA_DIR"  # of the environment: where the files lie
TIMEOUT = 5  # seconds to connect, and between bytes: offline must not mean waiting
Words = npt.NDArray[np.str_]

# LOG and LINEAR hold the largest value of a column; all others are fractions or flags, from 0 to 1.
_COLUMNS = (
    "duration protocol_type service flag src_bytes dst_bytes land wrong_fragment urgent hot "
    "num_failed_logins logged_in num_compromised root_shell su_attempted num_root num_file_creations "
    "num_shells num_access_files num_outbound_cmds is_host_login is_guest_login count srv_count "
    "serror_rate srv_serror_rate rerror_rate srv_rerror_rate same_srv_rate diff_srv_rate "
    "srv_diff_host_rate dst_host_count dst_host_srv_count dst_host_same_srv_rate dst_host_diff_srv_rate "
    "dst_host_same_src_port_rate dst_host_srv_diff_host_rate dst_host_serror_rate "
    "dst_host_srv_serror_rate dst_host_rerror_rate dst_host_srv_rerror_rate"
)
LOG = {
    "duration": 58_329,
    "src_bytes": 1_379_963_888,
    "dst_bytes": 1_309_937_401,
    "hot": 101,
    "num_compromised": 7_479,
    "num_root": 7_468,
    "num_file_creations": 100,
    "num_shells": 5,
    "num_access_files": 9,
    "count": 511,
    "srv_count": 511,
}
LINEAR = {
    "wrong_fragment": 3,
    "urgent": 14,
    "num_failed_logins": 5,
    "su_attempted": 2,
    "dst_host_count": 255,
    "dst_host_srv_count": 255,
}
_VOCABULARY = {
    "protocol_type": "icmp tcp udp",
    "service": (
        "IRC X11 Z39_50 aol auth bgp courier csnet_ns ctf daytime discard domain domain_u echo eco_i ecr_i "
        "efs exec finger ftp ftp_data gopher harvest hostnames http http_2784 http_443 http_8001 imap4 "
        "iso_tsap klogin kshell ldap link login mtp name netbios_dgm netbios_ns netbios_ssn netstat nnsp "
        "nntp ntp_u other pm_dump pop_2 pop_3 printer private red_i remote_job rje shell smtp sql_net ssh "
        "sunrpc supdup systat telnet tftp_u tim_i time urh_i urp_i uucp uucp_path vmnet whois"
    ),
    "flag": "OTH REJ RSTO RSTOS0 RSTR S0 S1 S2 S3 SF SH",
}
COLUMNS = tuple(_COLUMNS.split())
VOCABULARY = {name: tuple(words.split()) for name, words in _VOCABULARY.items()}
NUMERIC = tuple(name for name in COLUMNS if name not in VOCABULARY)
TOPS = dict.fromkeys(NUMERIC, 1) | LOG | LINEAR
FEATURES = (*NUMERIC, *(f"{name}={word}" for name, words in VOCABULARY.items() for word in words))

# Attack families as Tavallaee et al. 2009 (doi 10.1109/CISDA.2009.5356528) group them.
ATTACKS = {
    "normal": "normal",
    "dos": "back land neptune pod smurf teardrop apache2 udpstorm processtable worm mailbomb",
    "probe": "satan ipsweep nmap portsweep mscan saint",
    "r2l": (
        "guess_passwd ftp_write imap phf multihop warezmaster warezclient spy xlock xsnoop snmpguess "
        "snmpgetattack httptunnel sendmail named"
    ),
    "u2r": "buffer_overflow loadmodule rootkit perl sqlattack xterm ps",
}
CLASSES = tuple(ATTACKS)


class RawTraffic(NamedTuple):
    """Raw records, as the files hold them."""

    numeric: FloatArray  # [rows, 38], columns of NUMERIC
    words: Words  # [rows, 3], columns of VOCABULARY
    attack: Words  # [rows], 'normal' or an attack's name


class Unavailable(UserError):
    """Nothing on this machine, and the mirror cannot be reached."""


def load_nslkdd(folder: str, holdout: float, seed: int) -> Dataset:
    """A hold-out of KDDTrain+ and the official KDDTest+, side by side."""
    pool, test = (parse(checked(path, name)) for name, path in files(folder).items())
    return traffic_data("nslkdd", pool, test, holdout, seed)


def files(folder: str = "") -> dict[str, Path]:
    """Both files by name: from the folder the user named, else the cache, else the mirror."""
    named = folder or os.environ.get(VARIABLE)
    if not named:
        return {name: _find(user_cache(), name) or download(name) for name in SHA256}
    paths = {name: _find(Path(named).expanduser(), name) for name in SHA256}
    missing = [name for name, path in paths.items() if path is None]
    if missing:
        whose = f"--data nslkdd:{folder}" if folder else VARIABLE
        raise UserError(
            f"{whose} names the folder {named!r}, which does not hold {' and '.join(missing)} (plain or "
            f".gz); put the files there, or leave it out to use the cache or download them."
        )
    return {name: path for name, path in paths.items() if path}


def find_location() -> str:
    """Where the files are, or how to get them, in a few words."""
    named = os.environ.get(VARIABLE)
    folder = Path(named).expanduser() if named else user_cache()
    if all(_find(folder, name) for name in SHA256):
        return f"found in {folder}"
    return f"not in {named}" if named else "downloaded on first use, or --data nslkdd:FOLDER"


def _find(folder: Path, name: str) -> Path | None:
    candidates = (folder / sub / (name + end) for sub in ("", "nslkdd") for end in ("", ".gz"))
    return next((path for path in candidates if path.is_file()), None)


def download(name: str) -> Path:
    """Fetch a file into the cache; it is checked before it gets its name there."""
    try:
        with urlopen(MIRROR + quote(name), timeout=TIMEOUT) as reply:
            content = reply.read()
        check_sum(MIRROR + name, name, content)
        path = user_cache() / name
        make_folder(path.parent)
        write_atomically(path, content)
    except (OSError, HTTPException, UserError) as error:
        raise Unavailable(
            f"{name} is not on this machine and could not be downloaded from {MIRROR} "
            f"({type(error).__name__}); pass a folder with KDDTrain+.txt and KDDTest+.txt "
            "(plain or .gz), as in --data nslkdd:FOLDER, or use --data nslkdd-synth."
        ) from error
    return path


def checked(path: Path, name: str) -> bytes:
    """The file's uncompressed content, if it is byte for byte the published one."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({error}); fetch it again from {MIRROR}.") from error
    check_sum(str(path), name, content)
    return content


def check_sum(where: str, name: str, content: bytes) -> None:
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256[name]:
        raise UserError(
            f"{where} is not the published {name}: SHA-256 of its uncompressed content is {digest}, "
            f"expected {SHA256[name]}; delete it and fetch it again from {MIRROR}."
        )


def parse(content: bytes) -> RawTraffic:
    """Rows of comma-separated text: 41 features, the attack's name, and a score that is not used.

    Not one cell is looked at: `checked` says that the text is the published one.
    """
    # The three words are columns 2 to 4, between the first number and the other 37.
    fields = [("first", "f4", 1), ("words", "U16", 3), ("rest", "f4", len(NUMERIC) - 1), ("attack", "U16")]
    text, columns = io.StringIO(content.decode("ascii")), range(len(COLUMNS) + 1)
    table = np.loadtxt(text, np.dtype(fields), delimiter=",", usecols=columns, comments=None, ndmin=1)
    return RawTraffic(np.concatenate([table["first"], table["rest"]], 1), table["words"], table["attack"])


def recipe() -> Recipe:
    """The same encoding as data, for tables of new rows whose columns have the schema's names."""
    numbers = [
        ColumnRecipe(name, "number", log=name in LOG, scale=scale, low=0.0, high=1.0)
        for name, top in TOPS.items()
        for scale in [float(np.log1p(top) if name in LOG else top)]
    ]
    words = [ColumnRecipe(name, "words", words=vocabulary) for name, vocabulary in VOCABULARY.items()]
    return Recipe((*numbers, *words), label="class")


def traffic_data(name: str, pool: RawTraffic, test: RawTraffic, holdout: float, seed: int) -> Dataset:
    """Real or made-up traffic: a hold-out of the pool, and the official test rows beside it."""
    evals = {"test": (encode(test), labels(test))}
    whole = Dataset(name, encode(pool), labels(pool), evals, CLASSES, FEATURES, recipe=recipe())
    return hold_out(whole, holdout, seed)


def encode(rows: RawTraffic) -> FloatArray:
    """The 122 features: numeric columns scaled into [0, 1], then the one-hot words (unknown: all zeros)."""
    x = np.zeros((len(rows.numeric), len(FEATURES)), np.float32)
    top = np.array(list(TOPS.values()), np.float32)
    heavy = [i for i, name in enumerate(NUMERIC) if name in LOG]
    scaled = rows.numeric / top
    scaled[:, heavy] = np.log1p(rows.numeric[:, heavy]) / np.log1p(top[heavy])
    np.clip(scaled, 0, 1, out=x[:, : len(NUMERIC)])
    start = len(NUMERIC)
    for words, vocabulary in zip(rows.words.T, VOCABULARY.values(), strict=True):
        x[:, start : start + len(vocabulary)] = words[:, None] == np.array(vocabulary)
        start += len(vocabulary)
    return x


def labels(rows: RawTraffic) -> IntArray:
    """Class of every row: normal, or one of four families of attacks."""
    family = {name: i for i, names in enumerate(ATTACKS.values()) for name in names.split()}
    return np.array([family[name] for name in rows.attack.tolist()], np.int32)
