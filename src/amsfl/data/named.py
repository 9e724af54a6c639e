"""Images by name: drawn as their authors draw them, or found on this machine; a table to try.

| name | what | from |
| --- | --- | --- |
| digits | 1,797 images of 8 x 8: UCI's handwritten digits, the test half | scikit-learn |
| fashion-mnist | images of clothes; the hold-out is its test set | a Debian package, or a folder of files |
"""

import gzip
import zlib
from collections.abc import Iterable
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from amsfl.core import UserError
from amsfl.data.dataset import Dataset, FloatArray, IntArray, hold_out, random_stream
from amsfl.data.recipe import ColumnRecipe, Recipe

FASHION_DIRS = ("/usr/share/datasets/fashion-mnist", "/usr/share/dataset-fashion-mnist")
FASHION = {  # sha256 of the files, unpacked: packers differ
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
CLOTHES = ("T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
GAPS = 0.04  # share of empty cells in the example's columns that may have them
COMES_BACK = 0.07
DIAGNOSES = 3_000
HOSPITALS = {"Oslo": 0.34, "Lyon": 0.24, "Graz": 0.17, "Porto": 0.12, "Turku": 0.08, "Ghent": 0.05}
WARDS = {  # and what they add to the risk
    "surgery": -1.0,
    "cardiology": 0.8,
    "oncology": 1.2,
    "geriatrics": 1.6,
    "neurology": 0.0,
    "general": -0.5,
}


def load_digits(argument: str, holdout: float, seed: int) -> Dataset:
    """Ten classes, 64 grey values scaled from the known range 0..16 to [0, 1].

    The file is read by itself: importing scikit-learn takes longer than many a run on it.
    """
    spec = find_spec("sklearn")
    assert spec is not None and spec.submodule_search_locations
    file = Path(spec.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"
    table = np.loadtxt(gzip.decompress(file.read_bytes()).decode().splitlines(), np.float32, delimiter=",")
    whole = Dataset("digits", table[:, :-1], table[:, -1].astype(np.int32), {}, tuple("0123456789"))
    return hold_out(_scaled_pixels(whole, 8, 16.0), holdout, seed)


def _scaled_pixels(data: Dataset, side: int, most: float) -> Dataset:
    """Images of whole numbers from 0 to `most` as features in [0, 1], and the recipe that does so."""
    names = tuple(f"pixel_{row}_{column}" for row in range(side) for column in range(side))
    recipe = Recipe(tuple(ColumnRecipe(name, "number", scale=most) for name in names), label="class")
    evals = {split: (x / np.float32(most), y) for split, (x, y) in data.evals.items()}
    return data._replace(x=data.x / np.float32(most), evals=evals, features=names, recipe=recipe)


def load_fashion(folder: str, holdout: float, seed: int) -> Dataset:
    """60,000 training images of 28 x 28 and 10,000 test images, grey values scaled to [0, 1]."""
    (x, y), test = (_images(folder, part) for part in ("train", "t10k"))
    return _scaled_pixels(Dataset("fashion-mnist", x, y, {"holdout": test}, CLOTHES), 28, 255.0)


def find_fashion(folder: str = "") -> str:
    """Where the images are, or how to get them."""
    path = find_packed("train-images-idx3-ubyte", [folder] if folder else FASHION_DIRS)
    return str(path.parent) if path else "apt install dataset-fashion-mnist, or --data fashion-mnist:FOLDER"


def _images(folder: str, part: str) -> tuple[FloatArray, IntArray]:
    parts = []
    for name, head in ((f"{part}-images-idx3-ubyte", 16), (f"{part}-labels-idx1-ubyte", 8)):
        path = find_packed(name, [folder] if folder else FASHION_DIRS)
        if path is None:
            raise UserError(
                f"{f'The folder {folder!r}' if folder else 'This machine'} does not hold Fashion-MNIST's "
                f"{name}: {find_fashion('?')}, with its authors' files."
            )
        parts.append(np.frombuffer(published(path, FASHION[name]), np.uint8, offset=head))
    return parts[0].reshape(-1, 784).astype(np.float32), parts[1].astype(np.int32)


def find_packed(name: str, folders: Iterable[str | Path]) -> Path | None:
    """A file, plain or .gz, in the first of these folders that has it."""
    paths = (Path(folder).expanduser() / (name + end) for folder in folders for end in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)


def published(path: Path, digest: str) -> bytes:
    """A file's content, unpacked, if it is byte for byte what its authors published."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({error}); fetch it again.") from error
    check_sum(str(path), content, digest)
    return content


def check_sum(where: str, content: bytes, digest: str) -> None:
    found = sha256(content).hexdigest()
    if found != digest:
        raise UserError(
            f"{where} is not what its authors published: SHA-256 of its unpacked content is {found}, "
            f"expected {digest}; delete it and fetch it again."
        )


def messy(rows: int = 20_000, new: int = 500) -> dict[str, bytes]:
    """A table as tables are, in two CSV files by name: visits.csv with its label, and new-visits.csv, later
    rows without one.

    Hospital visits that nobody made, with gaps, dates, an id and very many words. Who comes back within
    thirty days (7 in 100) depends on age, earlier visits, a laboratory value, the ward and the diagnosis. The
    six hospitals differ in size, in whom they treat and in how often patients return.
    """
    import pandas as pd  # here: slow to import, and data by name need none

    rng, count = random_stream(13, "messy"), rows + new
    site, ward = (
        rng.choice(6, count, p=p) for p in ([*HOSPITALS.values()], [0.25, 0.2, 0.1, 0.15, 0.1, 0.2])
    )
    age = np.clip(rng.normal(58 + 3 * site, 17), 18, 99)  # the smaller the hospital, the older its patients
    earlier = rng.poisson(np.exp((age - 60) / 40) * (0.6 + 0.2 * site))
    code = rng.permutation(np.arange(count) % min(DIAGNOSES, count // 6))
    creatinine = rng.lognormal(0.01 * (age - 60), 0.45)
    smoker = rng.random(count) < 0.25
    risk = (
        1.1 * np.minimum(earlier, 6)
        + 0.05 * (age - 60)
        + 1.5 * np.log(creatinine)
        + np.array([*WARDS.values()])[ward]
        + rng.normal(0, 0.8, DIAGNOSES)[code]
        + 0.6 * smoker
        + np.array([-0.6, 0.0, 0.3, -0.2, 0.6, 0.9])[site]
        + rng.logistic(0, 0.5, count)
    )
    admitted = pd.Timestamp("2023-01-01") + pd.to_timedelta(np.sort(rng.integers(0, 730, count)), "D")
    cells = {
        "admitted": admitted.strftime("%Y-%m-%d"),
        "born": (admitted - pd.to_timedelta((age * 365.25).astype(int), "D")).strftime("%d.%m.%Y"),
        "ward": np.array([*WARDS])[ward],
        "diagnosis": [f"{chr(ord('A') + each // 200)}{each % 200 // 5:02}.{each % 5}" for each in code],
        "pulse": rng.normal(78, 12, count).round(),
        "temperature": rng.normal(37.1, 0.6, count).round(1),
        "creatinine": creatinine.round(2),
        "earlier_visits": earlier,
        "smoker": np.where(smoker, "yes", "no"),
    }
    frame = pd.DataFrame(cells).mask(rng.random((count, len(cells))) < GAPS)
    frame.insert(0, "visit_id", 100_000 + np.arange(count))
    frame.insert(1, "hospital", np.array([*HOSPITALS])[site])
    returned = risk[:rows] >= np.quantile(risk[:rows], 1 - COMES_BACK)
    files = {
        "visits.csv": frame[:rows].assign(readmitted=np.where(returned, "yes", "no")),
        "new-visits.csv": frame[rows:],
    }
    return {name: each.to_csv(index=False, lineterminator="\n").encode() for name, each in files.items()}
