"""What a scikit-learn estimator is handed: rows, groups and parameters, checked and split by site."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length

from amsfl.core.records import Json
from amsfl.data.raw_table import from_frame
from amsfl.portable.network import Array


def needs_recipe(X: Any) -> bool:
    """Whether rows have words, gaps, booleans or dates, which arrays of numbers do not."""
    if hasattr(X, "columns"):
        columns = from_frame(X, "X").columns.values()
        return any(cells.kind != "number" or cells.gaps.any() for cells in columns)
    kind = X.dtype.kind if isinstance(X, np.ndarray) and X.ndim == 2 else ""
    return kind in ("U", "S") or (kind == "O" and any(isinstance(cell, str) for cell in X.flat))


def as_columns(X: Any) -> Any:
    return X if hasattr(X, "columns") else {f"x{place}": column for place, column in enumerate(X.T)}


def refuse_unknown(unknown: Json) -> None:
    if "sample_weight" in unknown:
        raise ValueError(
            "sample_weight is not taken, since rows have no weights in federated training; weigh classes: "
            "settings={'class_weights': 'balanced'}."
        )
    if unknown:
        raise TypeError(f"fit has no parameter {next(iter(unknown))!r}; it takes X, y and groups.")


def refuse_twice(estimator: BaseEstimator) -> None:
    """A search over a parameter would find nothing where `settings` has its value, too."""
    given = {name for name, value in estimator.get_params(deep=False).items() if value is not None}
    for name in estimator.settings or {}:
        own = "random_state" if name == "seed" else name
        if own in given | {"random_state"}:
            raise ValueError(
                f"settings has {name!r}, which is said by the parameter {own}; write "
                f"{type(estimator).__name__}({own}=...) and leave it out of settings."
            )


def site_of_rows(X: Array, groups: Any) -> tuple[Array | None, Array]:
    """Of every row an index into the names of sites; None where rows are dealt at random."""
    if groups is None:
        return None, np.array([])
    check_consistent_length(X, groups)
    check_whole(groups, "group; every row needs one, or leave groups out.")
    names, sites = np.unique(np.asarray(groups), return_inverse=True)
    return sites.astype(np.int32), names


def check_whole(values: Any, what: str) -> None:
    for row, value in enumerate(values):
        if value is None or str(value) == "<NA>" or value != value:  # pandas' NA equals nothing, not even NA
            raise ValueError(f"Row {row} has no {what}")


def by_site(values: Array, sites: Array | None) -> list[Array]:
    return [values] if sites is None else [values[sites == site] for site in np.unique(sites)]


def different_names(values: Array) -> tuple[str, ...]:
    """Names of classes or sites; numbers where two would be spelled alike."""
    names = tuple(map(str, values))
    return names if len(set(names)) == len(names) else tuple(map(str, range(len(names))))
