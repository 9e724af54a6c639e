"""Which columns a model goes by: the score that is lost where one is shuffled among rows of one owner."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from amsfl.data.recipe import Recipe
from amsfl.portable.network import Array

REPEATS = 5  # shuffles of a column


class Importance(NamedTuple):
    """The score that is lost without a column."""

    column: str
    lost: float
    deviation: float  # over the shuffles
    score: str  # accuracy, AUC or r2


def column_spans(recipe: Recipe) -> dict[str, slice]:
    """Which features each raw column became."""
    ends = np.cumsum([len(column.features) for column in recipe.columns]).tolist()
    starts = [0, *ends]
    return {
        column.name: slice(start, end)
        for column, start, end in zip(recipe.columns, starts, ends, strict=False)
    }


def permutation_importance(
    name: str,
    score: Callable[[Array], float],
    x: Array,
    spans: Mapping[str, slice],
    owners: Array,
    repeats: int = REPEATS,
    seed: int = 0,
) -> list[Importance]:
    """Of every raw column, the most important first.

    A column's features are moved together, which is the same as moving its raw cells; rows change places with
    rows of their own owner alone, so no row leaves its client for it.
    """
    before, importances = score(x), []
    for column, span in spans.items():
        rng = np.random.default_rng([seed, *column.encode()])
        moved, lost = x.copy(), []
        for _ in range(repeats):
            moved[:, span] = x[_shuffle_within(owners, rng), span]
            lost.append(before - score(moved))
        importances.append(Importance(column, float(np.mean(lost)), float(np.std(lost)), name))
    return sorted(importances, key=lambda each: -each.lost)


def _shuffle_within(owners: Array, rng: np.random.Generator) -> Array:
    order = np.argsort(owners, kind="stable")
    shuffled = np.empty_like(order)
    shuffled[order] = order[np.lexsort((rng.random(len(order)), owners[order]))]
    return shuffled
