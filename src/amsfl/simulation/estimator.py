"""`FederatedClassifier` and `FederatedRegressor`: scikit-learn estimators, each site's rows kept apart."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    check_random_state,
    validate_data,
)

from amsfl.core.records import Json
from amsfl.data import Dataset, LabelScale
from amsfl.data.column_options import ColumnOptions
from amsfl.data.federated_statistics import TrainingRows, mean_and_deviation
from amsfl.data.fit_recipe import fit
from amsfl.data.labels import label_scale, standardise
from amsfl.data.preprocessing import encode
from amsfl.data.raw_table import from_frame
from amsfl.data.recipe import Recipe
from amsfl.portable.network import Array
from amsfl.simulation.api import run


class _Federated(BaseEstimator):  # type: ignore[misc]
    """What both have in common: settings, sites, standardised features, the run."""

    recipe_: Recipe | None  # of frames with words, gaps or dates

    def __init__(
        self,
        method: str = "amsfl",
        model: str = "mlp",
        rounds: int = 30,
        clients: int = 5,
        lr: float | None = None,
        steps: int | None = None,
        batch: int | None = None,
        settings: Json | None = None,
        random_state: Any = 0,
    ):
        self.method, self.model = method, model
        self.rounds, self.clients = rounds, clients
        self.lr = lr
        self.steps = steps
        self.batch = batch
        self.settings = settings
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None, **unknown: Any) -> Self:
        """Train on every site's own rows.

        Args:
            X: Rows of features.
            y: Classes, or numbers in any unit.
            groups: Whose row each is, by name or number; without it rows are dealt to `clients` at random.
            **unknown: Nothing else is taken; rows have no weights.

        Returns:
            Itself.
        """
        _refuse(unknown)
        self.recipe_ = None
        if _needs_recipe(X):
            rows = self._read_rows(X, groups)
            y = column_or_1d(y)
            _check_whole(y, "answer in y; every row needs one: leave such rows out.")
        else:
            numeric = isinstance(self, RegressorMixin)
            rows, y = validate_data(self, X, y, dtype=np.float64, y_numeric=numeric)
        check_consistent_length(rows, y)
        return self._fit_rows(rows, y, *_sites(rows, groups))

    def _fit_rows(self, rows: Array, y: Array, sites: Array | None, names: Array) -> Self:
        raise NotImplementedError

    def _train(
        self,
        X: Array,
        y: Array,
        sites: Array | None,
        names: Array,
        classes: tuple[str, ...] = (),
        amount: LabelScale | None = None,
    ) -> Self:
        parts = _by_site(X, sites)
        moments = [mean_and_deviation([part[:, column] for part in parts]) for column in range(X.shape[1])]
        self.shift_ = np.array([mean for mean, _ in moments])
        self.scale_ = np.array([wide if wide > 1e-12 * abs(mean) else 1.0 for mean, wide in moments])
        rows = self._scaled(X).astype(np.float32)
        features = tuple(f"x{column}" for column in range(X.shape[1]))
        data = Dataset("table:array", rows, y, {"holdout": (rows, y)}, classes, features)
        data = data._replace(sites=sites, site_names=_different(names), amount=amount)
        own: Json = {"partition": "auto" if sites is not None else "iid", "eval_every": self.rounds}
        own |= {"batch": min(64, len(rows)), "details": False}
        if sites is None:
            own["clients"] = min(self.clients, len(rows))
        named = {"lr": self.lr, "steps": self.steps, "batch": self.batch}
        own |= {name: value for name, value in named.items() if value is not None}
        result = run(
            **own | (self.settings or {}),
            dataset=data,
            method=self.method,
            model=self.model,
            rounds=self.rounds,
            seed=int(check_random_state(self.random_state).randint(2**31)),
        )
        self.model_, self.summary_, self.rounds_ = result.model, result.summary, result.rounds
        return self

    def _read_rows(self, X: Any, groups: Any) -> Array:
        """Features of training rows with words, gaps or dates, by a recipe."""
        table = from_frame(_as_columns(X), "X")
        sites, names = _sites(np.empty(table.rows), groups)
        owners: dict[str, Array] = {"": np.arange(table.rows)}
        if sites is not None:
            owners = {str(name): np.flatnonzero(sites == place) for place, name in enumerate(names)}
        keep = ColumnOptions(keep=tuple(table.columns))  # whoever passes a column means it
        self.recipe_ = fit(table, "", None, TrainingRows(owners), keep)
        self.n_features_in_ = len(table.columns)
        self.feature_names_in_ = np.array(list(table.columns), object)
        return np.asarray(encode(self.recipe_, table), np.float64)

    def _encoded(self, X: Any) -> Array:
        check_is_fitted(self)
        if self.recipe_ is not None:
            return self._scaled(np.asarray(encode(self.recipe_, from_frame(_as_columns(X), "X")), np.float64))
        return self._scaled(validate_data(self, X, dtype=np.float64, reset=False))

    def _scaled(self, X: Array) -> Array:
        return np.asarray((X - self.shift_) / self.scale_)


class FederatedClassifier(ClassifierMixin, _Federated):  # type: ignore[misc]
    """A classifier that is trained where the rows are: `FederatedClassifier().fit(X, y, groups=site)`.

    `groups` says whose row it is; without it rows are dealt to `clients` at random. Features are standardised
    by sums that sites can share; words, gaps and dates of a data frame are read as in docs/tables.md.
    `settings` are further ones of docs/settings.md, as in {"profile": "wild"}.
    All rows are trained on; judge by others, as scikit-learn's cross_val_score does.
    """

    def _fit_rows(self, rows: Array, y: Array, sites: Array | None, names: Array) -> Self:
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("There is one class in y; a classifier needs two classes or more.")
        return self._train(rows, codes.astype(np.int32), sites, names, _different(self.classes_))

    def predict_proba(self, X: Any) -> Array:
        """How likely each class is.

        Args:
            X: Rows of features.

        Returns:
            Probabilities [rows, classes], in the order of `classes_`.
        """
        rows = self._encoded(X)  # says first if nothing is fitted
        return self.model_.predict_proba(rows)

    def predict(self, X: Any) -> Array:
        """Predict new rows.

        Args:
            X: Rows of features.

        Returns:
            Of every row its class, as `y` spelled it.
        """
        chances = self.predict_proba(X)  # says first if nothing is fitted
        return np.asarray(self.classes_[chances.argmax(axis=1)])


class FederatedRegressor(RegressorMixin, _Federated):  # type: ignore[misc]
    """The same for numbers: `FederatedRegressor().fit(X, y, groups=site)`, predictions in the units of y.

    y is standardised by sums over the sites, as features are; `settings={"loss": "absolute"}` minimises the
    absolute error in place of the squared one. `score` is R².
    """

    def _fit_rows(self, rows: Array, y: Array, sites: Array | None, names: Array) -> Self:
        amount = label_scale(_by_site(y.astype(np.float64), sites))
        return self._train(rows, standardise(y, amount), sites, names, amount=amount)

    def predict(self, X: Any) -> Array:
        """Predict new rows.

        Args:
            X: Rows of features.

        Returns:
            Of every row its number, in the units of y.
        """
        rows = self._encoded(X)
        return self.model_.predict(rows)


def _needs_recipe(X: Any) -> bool:
    """Whether rows have words, gaps, booleans or dates, which arrays of numbers do not."""
    if hasattr(X, "columns"):
        columns = from_frame(X, "X").columns.values()
        return any(cells.kind != "number" or cells.gaps.any() for cells in columns)
    kind = X.dtype.kind if isinstance(X, np.ndarray) and X.ndim == 2 else ""
    return kind in ("U", "S") or (kind == "O" and any(isinstance(cell, str) for cell in X.flat))


def _as_columns(X: Any) -> Any:
    return X if hasattr(X, "columns") else {f"x{place}": column for place, column in enumerate(X.T)}


def _refuse(unknown: Json) -> None:
    if "sample_weight" in unknown:
        raise ValueError(
            "sample_weight is not taken, since rows have no weights in federated training; weigh classes: "
            "settings={'class_weights': 'balanced'}."
        )
    if unknown:
        raise TypeError(f"fit has no parameter {next(iter(unknown))!r}; it takes X, y and groups.")


def _sites(X: Array, groups: Any) -> tuple[Array | None, Array]:
    """Of every row an index into the names of sites; None where rows are dealt at random."""
    if groups is None:
        return None, np.array([])
    check_consistent_length(X, groups)
    _check_whole(groups, "group; every row needs one, or leave groups out.")
    names, sites = np.unique(np.asarray(groups), return_inverse=True)
    return sites.astype(np.int32), names


def _check_whole(values: Any, what: str) -> None:
    for row, value in enumerate(values):
        if value is None or str(value) == "<NA>" or value != value:  # pandas' NA equals nothing, not even NA
            raise ValueError(f"Row {row} has no {what}")


def _by_site(values: Array, sites: Array | None) -> list[Array]:
    return [values] if sites is None else [values[sites == site] for site in np.unique(sites)]


def _different(values: Array) -> tuple[str, ...]:
    """Names of classes or sites; numbers where two would be spelled alike."""
    names = tuple(map(str, values))
    return names if len(set(names)) == len(names) else tuple(map(str, range(len(names))))
