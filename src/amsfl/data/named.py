"""Data by name: drawn as their authors draw them, made up, or found on this machine; a table to try.

| name | what | from |
| --- | --- | --- |
| digits | 1,797 images of 8 x 8: UCI's handwritten digits, the test half | scikit-learn |
| fashion-mnist | images of clothes; the hold-out is its test set | a Debian package, or a folder of files |
| images-synth | coarse patterns, moved about and covered with noise | made up from a fixed seed |
| texts-synth | words of a row's own class among common ones by Zipf's law | made up from a fixed seed |
"""

import csv
import gzip
import io
from datetime import date
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from amsfl.core import UserError
from amsfl.data.dataset import Dataset, FloatArray, IntArray, hold_out, random_stream
from amsfl.data.recipe import ColumnRecipe, Recipe

SIDE, KINDS = 28, 10  # of made-up images
PLACES, WORDS, TOPICS = 32, 8192, 4  # of made-up texts; token 0 fills rows up
OWN, OFTEN = 200, 0.25  # words of a class, and how often a word is one of them
IMAGES, TEXTS = 12_500, 12_500  # rows
MADE_UP = 1998  # the seed of images and texts
FASHION_DIRS = ("/usr/share/datasets/fashion-mnist", "/usr/share/dataset-fashion-mnist")
FASHION = {  # sha256 of the files, unpacked: packers differ
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
CLOTHES = ("T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
NOTE = "Synthetic data ({}): generated from a fixed seed."
VISITS, NEW = 20_000, 500
GAPS = 0.04  # share of empty cells in the columns that may have them
COMES_BACK = 0.07
DIAGNOSES = 3_000
HOSPITALS = {"Oslo": 0.34, "Lyon": 0.24, "Graz": 0.17, "Porto": 0.12, "Turku": 0.08, "Ghent": 0.05}
WARDS = ("surgery", "cardiology", "oncology", "geriatrics", "neurology", "general")
WARD_RISK = np.array([-0.8, 0.6, 0.9, 1.2, 0.0, -0.4])
WHOLE = ("visit_id", "hospital")  # columns without gaps
LABEL = "readmitted"


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
    x, y = _images(folder, "train")
    data = Dataset("fashion-mnist", x, y, {"holdout": _images(folder, "t10k")}, CLOTHES)
    return _scaled_pixels(data, 28, 255.0)


def find_fashion(folder: str = "") -> str:
    """Where the images are, or how to get them."""
    for place in [folder] if folder else FASHION_DIRS:
        if any((Path(place).expanduser() / f"train-images-idx3-ubyte{end}").is_file() for end in ("", ".gz")):
            return str(Path(place).expanduser())
    return "apt install dataset-fashion-mnist, or --data fashion-mnist:FOLDER"


def _images(folder: str, part: str) -> tuple[FloatArray, IntArray]:
    x = np.frombuffer(_idx(folder, f"{part}-images-idx3-ubyte"), np.uint8, offset=16).reshape(-1, 784)
    y = np.frombuffer(_idx(folder, f"{part}-labels-idx1-ubyte"), np.uint8, offset=8)
    return x.astype(np.float32), y.astype(np.int32)


def _idx(folder: str, name: str) -> bytes:
    """A file of Fashion-MNIST, packed or not, if it is the one that its authors published."""
    home = Path(find_fashion(folder))
    paths = [path for path in (home / name, home / f"{name}.gz") if path.is_file()]
    if not paths:
        where = f"The folder {folder!r}" if folder else "This machine"
        raise UserError(
            f"{where} does not hold Fashion-MNIST's {name}; install the Debian package "
            "dataset-fashion-mnist, or pass a folder of its authors' files: --data fashion-mnist:FOLDER."
        )
    content = paths[0].read_bytes()
    content = gzip.decompress(content) if paths[0].suffix == ".gz" else content
    if sha256(content).hexdigest() != FASHION[name]:
        raise UserError(f"{str(paths[0])!r} is not what Fashion-MNIST's authors published; fetch it again.")
    return content


def load_images(argument: str = "", holdout: float = 0.2, seed: int = 0, rows: int = IMAGES) -> Dataset:
    """28 x 28 grey values of mean 0 and deviation about 1."""
    rng = random_stream(MADE_UP, "images")
    coarse = rng.normal(size=(KINDS, SIDE // 4, SIDE // 4))
    patterns = np.kron(coarse, np.ones((4, 4)))
    y = rng.integers(0, KINDS, rows).astype(np.int32)
    x = rng.normal(size=(rows, SIDE, SIDE))
    down, right = rng.integers(-3, 4, (2, rows))
    for row in range(rows):
        x[row] += np.roll(patterns[y[row]], (down[row], right[row]), (0, 1))
    flat = (x / 2**0.5).reshape(rows, -1).astype(np.float32)
    names = tuple(f"pixel_{row}_{col}" for row in range(SIDE) for col in range(SIDE))
    classes = tuple(map(str, range(KINDS)))
    note = NOTE.format("images-synth")
    whole = Dataset("images-synth", flat, y, {}, classes, names, synthetic=True, note=note)
    return hold_out(whole, holdout, seed)


def load_texts(argument: str = "", holdout: float = 0.2, seed: int = 0, rows: int = TEXTS) -> Dataset:
    """Rows of 32 token numbers below 8,192; a quarter of the words of a row speak of its class."""
    rng = random_stream(MADE_UP, "texts")
    y = rng.integers(0, TOPICS, rows).astype(np.int32)
    common = 1 + rng.zipf(1.2, (rows, PLACES)) % (WORDS - 1)
    own = rng.choice(np.arange(100, WORDS), (TOPICS, OWN), replace=False)
    topical = own[y[:, None], rng.integers(0, OWN, (rows, PLACES))]
    x = np.where(rng.random((rows, PLACES)) < OFTEN, topical, common)
    x[np.arange(PLACES) >= rng.integers(8, PLACES + 1, rows)[:, None]] = 0
    names = tuple(f"token_{place}" for place in range(PLACES))
    classes = tuple(f"topic_{kind}" for kind in range(TOPICS))
    note = NOTE.format("texts-synth")
    whole = Dataset("texts-synth", x.astype(np.float32), y, {}, classes, names, synthetic=True, note=note)
    return hold_out(whole, holdout, seed)


def messy(rows: int = VISITS, new: int = NEW, seed: int = 13) -> dict[str, bytes]:
    """A table as tables are, in two CSV files by name: visits.csv with its label, and new-visits.csv, later
    rows without one.

    Hospital visits that nobody made, with gaps, dates, an id and very many words. Who comes back within
    thirty days (7 in 100) depends on age, earlier visits, a laboratory value, the ward and the diagnosis. The
    six hospitals differ in size, in whom they treat and in how often patients return.
    """
    if rows < 100 or new < 1:
        raise UserError(f"The example has 100 rows or more and 1 new row or more; got {rows} and {new}.")
    columns, risk = _visits(rows + new, random_stream(seed, "messy"))
    returned = risk[:rows] >= np.quantile(risk[:rows], 1 - COMES_BACK)
    labels = np.where(returned, "yes", "no").tolist()
    old = {name: cells[:rows] for name, cells in columns.items()} | {LABEL: labels}
    later = {name: cells[rows:] for name, cells in columns.items()}
    return {"visits.csv": _csv(old), "new-visits.csv": _csv(later)}


def _visits(count: int, rng: np.random.Generator) -> tuple[dict[str, list[str]], npt.NDArray[np.float64]]:
    """The columns as text, and every visit's risk."""
    site = rng.choice(len(HOSPITALS), count, p=list(HOSPITALS.values()))
    age = np.clip(rng.normal(58 + 3 * site, 17), 18, 99)  # the smaller the hospital, the older its patients
    earlier = rng.poisson(np.exp((age - 60) / 40) * (0.6 + 0.2 * site))
    ward = (rng.choice(len(WARDS), count, p=[0.25, 0.2, 0.1, 0.15, 0.1, 0.2]) + (site == 5)) % len(WARDS)
    # most visits go through all diagnoses there are, the others have what is common in their hospital
    distinct = min(DIAGNOSES, count // 6)
    every = rng.permutation(np.arange(count) % distinct)
    common = rng.zipf(1.3, count) % distinct * (1 + 7 * site) % distinct
    code = np.where(rng.random(count) < 0.85, every, common)
    creatinine = rng.lognormal(0.0 + 0.01 * (age - 60), 0.45)
    pulse = rng.normal(78, 12, count) + 4 * (creatinine > 2)
    smoker = rng.random(count) < 0.25
    logit = (
        1.1 * np.minimum(earlier, 6)
        + 0.05 * (age - 60)
        + 1.5 * np.log(creatinine)
        + 1.3 * WARD_RISK[ward]
        + rng.normal(0, 0.8, DIAGNOSES)[code]
        + 0.6 * smoker
        + 0.03 * (pulse - 78)
        + np.array([-0.6, 0.0, 0.3, -0.2, 0.6, 0.9])[site]
    )
    admitted = date(2023, 1, 1).toordinal() + np.sort(rng.integers(0, 730, count))
    born = admitted - (age * 365.25).astype(int)
    columns = {
        "visit_id": [str(100_000 + place) for place in range(count)],
        "hospital": [list(HOSPITALS)[place] for place in site],
        "admitted": [date.fromordinal(int(day)).isoformat() for day in admitted],
        "born": [date.fromordinal(int(day)).strftime("%d.%m.%Y") for day in born],
        "ward": [WARDS[place] for place in ward],
        "diagnosis": [_code(place) for place in code],
        "pulse": [f"{value:.0f}" for value in pulse],
        "temperature": [f"{value:.1f}" for value in rng.normal(37.1, 0.6, count)],
        "creatinine": [f"{value:.2f}" for value in creatinine],
        "earlier_visits": [str(value) for value in earlier],
        "smoker": ["yes" if value else "no" for value in smoker],
    }
    for name, cells in columns.items():
        if name not in WHOLE:
            for place in np.flatnonzero(rng.random(count) < GAPS):
                cells[place] = ""
    return columns, logit + rng.logistic(0, 0.5, count)


def _code(place: int) -> str:
    """A diagnosis as hospitals write them: a letter, two digits, a point and a digit."""
    letter, rest = divmod(int(place), 200)
    return f"{chr(ord('A') + letter)}{rest // 5:02}.{rest % 5}"


def _csv(columns: dict[str, list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns, *zip(*columns.values(), strict=True)])
    return text.getvalue().encode()
