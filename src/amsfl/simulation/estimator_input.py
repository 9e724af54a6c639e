"""What a scikit-learn estimator is handed: rows, groups and parameters, checked and split by site."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.validation import check_consistent_length

from amsfl.core.records import Json
from amsfl.data.raw_table import from_frame
from amsfl.portable.network import Array


def needs_recipe(X: Any) -> bool:
    """Whether rows have words, gaps, booleans or dates, which arrays of numbers do not."""
    X = np.array(X, object) if isinstance(X, list) else X
    if hasattr(X, "columns"):
        columns = from_frame(X, "X").columns.values()
        return any(cells.kind != "number" or cells.gaps.any() for cells in columns)
    kind = X.dtype.kind if isinstance(X, np.ndarray) and X.ndim == 2 else ""
    return kind in ("U", "S") or (kind == "O" and any(isinstance(cell, str) for cell in X.flat))


def as_columns(X: Any, names: Sequence[str] = ()) -> Any:
    """Columns by name; those of an array or a list are called as in training, by their place."""
    if hasattr(X, "columns") or isinstance(X, Mapping):
        return X
    rows = np.array(X, object) if isinstance(X, list) else X
    if rows.ndim != 2 or (len(names) and rows.shape[1] != len(names)):
        raise ValueError(f"X has shape {rows.shape}; the model takes [rows, {len(names)}], or a data frame.")
    called = names if len(names) else [f"x{place}" for place in range(rows.shape[1])]
    return dict(zip(called, rows.T, strict=True))


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
    if not isinstance(estimator.settings or {}, Mapping):
        raise ValueError(f"settings is a dict, as in {{'profile': 'wild'}}, and not {estimator.settings!r}.")
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
    values = np.asarray(groups)
    if values.size != len(values):
        raise ValueError(f"groups is one name or number a row; it has shape {values.shape}.")
    values = values.ravel()
    check_whole(values, "group; every row needs one, or leave groups out.")
    try:
        names, sites = np.unique(values, return_inverse=True)
    except TypeError:  # names beside numbers have no order
        names, sites = np.unique(values.astype(str), return_inverse=True)
    return sites.astype(np.int32), names


def read_answers(y: Any, numeric: bool) -> Array:
    """One answer a row: numbers, or classes of one type."""
    values: Array = column_or_1d(y, warn=True)
    check_whole(values, "answer in y; every row needs one: leave such rows out.")
    assert_all_finite(values, input_name="y")
    if numeric:
        return _as_numbers(values)
    if values.dtype != object or _types(values) == "str":
        return values
    plain = np.array(values.tolist())
    if plain.dtype.kind in "biuf":
        return plain
    raise ValueError(f"y holds {_types(values)}; classes are all numbers or all text, as in y.astype(str).")


def _as_numbers(values: Array) -> Array:
    try:
        if values.dtype.kind not in "mM":  # numpy would count dates in their own unit, whichever it is
            return values.astype(np.float64)
    except (TypeError, ValueError):
        pass
    raise ValueError(
        f"y holds {_types(values)}, and a regressor predicts numbers; of dates give days, as in "
        "(y - y.min()) / np.timedelta64(1, 'D')."
    )


def _types(values: Array) -> str:
    return " and ".join(sorted({type(value).__name__.rstrip("_") for value in values}))


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
