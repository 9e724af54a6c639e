"""From a table to a case's Dataset: a random hold-out, scaled features, labels as the case says."""

import zlib
from functools import partial

import numpy as np

from amsfl.data import Dataset, load

from .cases import BY_NAME, ROWS, Case
from .known_sources import KNOWN_SETS
from .new_sources import NEW_SETS
from .tables import Table

TEST = 1500  # rows of the hold-out, at most
NOISE_SEED = 5


def case_data(case: Case) -> Dataset:
    """What the case runs on."""
    if case.data == "nslkdd":
        data = load("nslkdd")
        x, y = data.evals["holdout"]
        return data._replace(name=case.name, evals={"holdout": (x[:5000], y[:5000])})
    return apply_case(read_set(case.data, (KNOWN_SETS | NEW_SETS)[case.data]()), case)


def read_set(name: str, table: Table) -> Dataset:
    """A table as a Dataset: at most ROWS + TEST rows of it, the order drawn by the set's name."""
    classes, y = np.unique(np.asarray(table.y).astype(str), return_inverse=True)
    order = np.random.default_rng(zlib.crc32(name.encode())).permutation(len(y))[: ROWS + TEST]
    x, y = np.asarray(table.x, float)[order], y[order].astype(np.int32)
    pool = len(y) - min(TEST, len(y) // 5)
    if table.scaled:
        deviation = x[:pool].std(0)
        x = np.clip((x - x[:pool].mean(0)) / np.where(deviation > 1e-9, deviation, 1), -8, 8)
    x = x.astype(np.float32)
    site_names, sites = (), None
    if table.sites is not None:
        site_names, sites = np.unique(np.asarray(table.sites).astype(str)[order][:pool], return_inverse=True)
    return Dataset(
        name=name,
        x=x[:pool],
        y=y[:pool],
        evals={"holdout": (x[pool:], y[pool:])},
        classes=tuple(classes.tolist()),
        features=tuple(f"x{place}" for place in range(x.shape[1])),
        sites=sites,
        site_names=tuple(map(str, site_names)),
    )


def apply_case(data: Dataset, case: Case) -> Dataset:
    """The first rows of the pool, labels as the case says."""
    data = data._replace(
        name=case.name,
        x=data.x[: case.rows],
        y=data.y[: case.rows],
        sites=None if data.sites is None else data.sites[: case.rows],
    )
    return with_wrong_labels(data, case.labels)


def with_wrong_labels(data: Dataset, labels: str) -> Dataset:
    """`random:P` or `pair:P` on the training pool; '' leaves all true."""
    how, _, share = labels.partition(":")
    rng, classes = np.random.default_rng(NOISE_SEED), len(data.classes)
    wrong = rng.random(len(data.y)) < float(share or 0)
    other = rng.integers(classes, size=len(wrong)) if how == "random" else (data.y + 1) % classes
    return data._replace(y=np.where(wrong, other, data.y).astype(np.int32))


def __getattr__(name: str) -> partial[Dataset]:
    """A case's data by its name, for `--data suite.data:routes` (PYTHONPATH=studies)."""
    if name not in BY_NAME:
        raise AttributeError(name)
    return partial(case_data, BY_NAME[name])
