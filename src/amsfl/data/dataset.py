"""The one record every data source ends in, and the split into a training pool and a hold-out."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from amsfl.core import UserError

if TYPE_CHECKING:
    from amsfl.data.recipe import Recipe

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.integer[Any]]
Labels = npt.NDArray[Any]  # class numbers, or standardised numbers
Split = tuple[FloatArray, Labels]
STRATA = 10  # parts of a number's range, equal in rows: what classes are to labels


class LabelScale(NamedTuple):
    """How a predicted number is standardised: y is (value - shift) / scale."""

    shift: float
    scale: float


class Dataset(NamedTuple):
    """A training pool (to be partitioned over clients) and the splits that every run is judged on."""

    name: str  # 'nslkdd', 'nslkdd-synth', 'digits', 'csv:heart.csv'
    x: FloatArray  # float32 [rows, features], the training pool
    y: Labels  # int32 [rows]; float32 where numbers are predicted
    evals: dict[str, Split]  # split name -> x, y; 'holdout' comes first, an official 'test' second
    classes: tuple[str, ...]  # () where numbers are predicted
    features: tuple[str, ...]  # names of the columns of x
    sites: IntArray | None = None  # per training row, an index into site_names: a natural partition
    site_names: tuple[str, ...] = ()
    synthetic: bool = False
    note: str = ""  # one line to print with every output
    recipe: "Recipe | None" = None  # how raw rows become features; None: they are features already
    amount: LabelScale | None = None  # of numbers: how to come back to the user's own units


def split(
    y: Labels, holdout: float, seed: int, sites: IntArray | None = None
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Masks of the training pool and the hold-out, stratified by class; numbers by tenths of their rows.

    Of few numbers parts are larger than tenths: each holds out a row, and all together no more than asked.

    Every class with at least two rows is in both; a class with one row is in the pool. With sites,
    one row of each is held out last, so that a small site still has something to train on.
    """
    if not 0 < holdout < 1:
        raise UserError(
            f"The hold-out is the fraction of rows to judge by, between 0 and 1; got {holdout:g}. Try 0.2."
        )
    y = strata(y, max(1, min(STRATA, int(holdout * len(y)))))
    rng = random_stream(seed, "split")
    order = rng.permutation(len(y))
    late = np.zeros(len(y), bool)
    if sites is not None:
        late[order[np.unique(sites[order], return_index=True)[1]]] = True
    order = order[np.lexsort((late[order], y[order]))]
    counts = np.bincount(y)
    rank = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    held = np.clip(np.rint(holdout * counts).astype(int), 1, np.maximum(counts - 1, 0))
    held[counts < 2] = 0
    test = np.zeros(len(y), bool)
    test[order[rank < np.repeat(held, counts)]] = True
    return ~test, test


def hold_out(whole: Dataset, holdout: float, seed: int) -> Dataset:
    """The data with a part of its training pool held out, before the splits that it is judged by already."""
    train, test = split(whole.y, holdout, seed)
    evals = {"holdout": (whole.x[test], whole.y[test])} | whole.evals
    return whole._replace(x=whole.x[train], y=whole.y[train], evals=evals)


def strata(y: Labels, parts: int = STRATA) -> IntArray:
    """Classes as they are; numbers by tenths of their rows, equal numbers always together."""
    if np.issubdtype(y.dtype, np.integer):
        return y
    edges = np.quantile(y, np.linspace(0, 1, parts + 1)[1:-1])
    return np.searchsorted(edges, y, side="right").astype(np.int32)


def random_stream(seed: int, name: str) -> np.random.Generator:
    """A random stream of its own per purpose: two uses of one seed must not see the same numbers."""
    if seed < 0:
        raise UserError(f"A seed is a whole number from 0 up; got {seed}.")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(name.encode())))
