"""The one record every data source ends in: its split, scales of labels, and what it is taken for."""

from collections.abc import Sequence
from math import ceil, log10
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from amsfl.core import UserError, listed
from amsfl.data.recipe import NAMED, Recipe, plural

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.integer[Any]]
Mask = npt.NDArray[np.bool_]
Labels = npt.NDArray[Any]  # class numbers, or standardised numbers
Split = tuple[FloatArray, Labels]
STRATA = 10  # parts of a number's range, equal in rows: what classes are to labels
FLAT = 1e-12  # of the largest value: a deviation below it is rounding


Frame = Any  # a pandas or polars data frame, or a dict of columns


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
    features: tuple[str, ...] = ()  # names of the columns of x; of your own data they are numbered without
    sites: IntArray | None = None  # per training row, an index into site_names: a natural partition
    site_names: tuple[str, ...] = ()
    synthetic: bool = False
    note: str = ""  # one line to print with every output
    recipe: Recipe | None = None  # how raw rows become features; None: they are features already
    amount: LabelScale | None = None  # of numbers: how to come back to the user's own units


def split(y: Labels, holdout: float, seed: int, sites: IntArray | None = None) -> tuple[Mask, Mask]:
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


def mean_and_deviation(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """By sums that sites can add up; of values whose squares are beyond float64, too. (0, 0) without any."""
    if not len(values):
        return 0.0, 0.0
    size = float(np.abs(values).max()) or 1.0
    return float((values / size).mean()) * size, float((values / size).std()) * size


def label_scale(values: Labels) -> LabelScale:
    """Mean and deviation of the training rows' values; a constant keeps its unit."""
    mean, deviation = mean_and_deviation(np.asarray(values, np.float64))
    largest = float(np.abs(values).max(initial=0.0))
    return LabelScale(mean, deviation if deviation > FLAT * largest else 1.0)


def standardise(values: Labels, scale: LabelScale) -> Labels:
    """In units of the deviation; divided first, since numbers near 1e300 have no difference in float64."""
    return (np.asarray(values, np.float64) / scale.scale - scale.shift / scale.scale).astype(np.float32)


def class_weights(asked: str, y: IntArray, classes: Sequence[str]) -> tuple[float, ...] | None:
    """`balanced`: n / (classes that are there x rows of the class), from the counts of all sites together, so
    that a training row counts 1 on average; None for ''."""
    if not asked:
        return None
    if not classes:
        raise UserError("Class weights are of classes, and here numbers are predicted; leave them out.")
    counts = np.bincount(y, minlength=len(classes))
    weights = len(y) / ((counts > 0).sum() * np.maximum(counts, 1))
    return tuple(np.where(counts > 0, weights, 0.0).tolist())


def describe(data: Dataset) -> list[str]:
    """What data are taken for, in lines: before anything is trained on them."""
    held = {name: len(y) for name, (_, y) in data.evals.items()}
    held_as = {name: "held out to judge by" if name == "holdout" else f"the split {name!r}" for name in held}
    apart = ", ".join(f"{count:,} of them {held_as[name]}" for name, count in held.items())
    rows = f"{data.name}: {len(data.y) + sum(held.values()):,} rows, {apart}"
    recipe = data.recipe
    if recipe is None or not is_own_table(data):
        lines = [f"{rows}; {plural(len(data.features), 'feature')}", _describe_label(data, "")]
        return [*lines, _describe_clients(data, ""), *filter(None, [data.note])]
    by_read: dict[str, list[str]] = {}
    for column in recipe.columns:
        by_read.setdefault(column.read, []).append(column.name)
    become = f"{plural(len(recipe.columns), 'column')} become{'s' * (len(recipe.columns) == 1)}"
    lines = [f"{rows}; {become} {plural(len(data.features), 'number')}", _describe_label(data, recipe.label)]
    lines += [f"read as {read}: {listed(names, NAMED)}" for read, names in by_read.items()]
    if recipe.left_out:
        lines.append(f"left out: {listed(recipe.left_out, NAMED)}")
    return [*lines, _describe_clients(data, recipe.client), *recipe.remarks]


def is_own_table(data: Dataset) -> bool:
    """Whether it is a user's table, and no source by name."""
    return data.recipe is not None and data.name.startswith(("csv:", "table:"))


def _describe_clients(data: Dataset, column: str) -> str:
    """How rows are dealt to clients."""
    if data.sites is None:
        return "clients: no column names them, so rows are dealt by --partition dirichlet:0.5"
    rows = np.bincount(data.sites, minlength=len(data.site_names)).tolist()
    named = listed([f"{name} {n:,}" for name, n in zip(data.site_names, rows, strict=True)], NAMED)
    return f"clients{f' ({column})' * bool(column)}, training rows: {named}"


def _describe_label(data: Dataset, label: str) -> str:
    y = np.concatenate([data.y, *(y for _, y in data.evals.values())])
    of = f" ({label})" * bool(label)
    if data.amount is not None:
        values = y.astype(np.float64) * data.amount.scale + data.amount.shift
        low, high = values.min(), values.max()
        digits = 4 - ceil(log10(max(high - low, 1e-300)))  # float32 knows no more of y
        return (
            f"a number{of}: from {round(low, digits):.10g} to {round(high, digits):.10g}, mean "
            f"{data.amount.shift:.6g}, deviation {data.amount.scale:.6g} by sums over all sites; always "
            f"saying the mean would be off by {np.abs(y).mean() * data.amount.scale:.6g} on average (R² 0)"
        )
    counts = np.bincount(y, minlength=len(data.classes))
    shares = [f"{name} {n / len(y):.1%}" for name, n in zip(data.classes, counts, strict=True)]
    most = data.classes[int(counts.argmax())]
    return (
        f"classes{of}: {listed(shares, 20)}; always saying {most!r} would score {counts.max() / len(y):.3f}"
    )
