"""`FederatedClassifier` and `FederatedRegressor`: scikit-learn estimators, each site's rows kept apart."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
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
from amsfl.data.federated_statistics import TrainingRows, mean_and_deviation, median
from amsfl.data.fit_recipe import fit
from amsfl.data.labels import label_scale, standardise
from amsfl.data.preprocessing import encode
from amsfl.data.raw_table import from_frame
from amsfl.data.recipe import Recipe
from amsfl.portable.network import Array
from amsfl.simulation.api import run
from amsfl.simulation.estimator_input import (
    as_columns,
    by_site,
    different_names,
    needs_recipe,
    read_answers,
    refuse_twice,
    refuse_unknown,
    site_of_rows,
)


class _Federated(BaseEstimator):  # type: ignore[misc]
    """What both have in common: settings, sites, standardised features, the run."""

    recipe_: Recipe | None  # of frames with words, gaps or dates
    middle_: Array | None  # medians of a frame of numbers, for gaps of rows to come

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
        refuse_unknown(unknown)
        refuse_twice(self)
        numeric = isinstance(self, RegressorMixin)
        y = read_answers(y, numeric)
        self.recipe_ = self.middle_ = None
        if needs_recipe(X):
            rows = self._read_rows(X, groups)
        else:
            rows, y = validate_data(self, X, y, dtype=np.float64, y_numeric=numeric)
        check_consistent_length(rows, y)
        sites, names = site_of_rows(rows, groups)
        if self.recipe_ is None and hasattr(X, "columns"):
            self.middle_ = np.array([median(by_site(column, sites)) for column in rows.T])
        return self._fit_rows(rows, y, sites, names)

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
        parts = by_site(X, sites)
        moments = [mean_and_deviation([part[:, column] for part in parts]) for column in range(X.shape[1])]
        self.shift_ = np.array([mean for mean, _ in moments])
        self.scale_ = np.array([wide if wide > 1e-12 * abs(mean) else 1.0 for mean, wide in moments])
        rows = self._scaled(X).astype(np.float32)
        features = tuple(f"x{column}" for column in range(X.shape[1]))
        data = Dataset("table:array", rows, y, {"holdout": (rows, y)}, classes, features)
        data = data._replace(sites=sites, site_names=different_names(names), amount=amount)
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
        table = from_frame(as_columns(X), "X")
        sites, names = site_of_rows(np.empty(table.rows), groups)
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
            table = from_frame(as_columns(X, tuple(self.feature_names_in_)), "X")
            return self._scaled(np.asarray(encode(self.recipe_, table), np.float64))
        if self.middle_ is None:
            return self._scaled(validate_data(self, X, dtype=np.float64, reset=False))
        rows = validate_data(self, X, dtype=np.float64, reset=False, ensure_all_finite="allow-nan")
        return self._scaled(np.where(np.isnan(rows), self.middle_, rows))

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
        return self._train(rows, codes.astype(np.int32), sites, names, different_names(self.classes_))

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
        amount = label_scale(by_site(y.astype(np.float64), sites))
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
