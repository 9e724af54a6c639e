"""`FederatedClassifier` and `FederatedRegressor`: scikit-learn estimators, each site's rows kept apart."""

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import assert_all_finite, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from amsfl.core import Remark
from amsfl.core.records import Json
from amsfl.data import Dataset, LabelScale
from amsfl.data.dataset import label_scale, standardise
from amsfl.data.recipe import Recipe
from amsfl.portable.network import Array
from amsfl.simulation.api import run

CLIENTS = 5  # that rows are dealt to where no groups are given


class _Federated(BaseEstimator):  # type: ignore[misc]
    """What both have in common: settings, sites, standardised features, the run."""

    recipe_: Recipe | None  # of data frames

    def __init__(
        self,
        method: str = "amsfl",
        model: str = "mlp",
        rounds: int = 30,
        clients: int | None = None,
        lr: float | None = None,
        steps: int | None = None,
        batch: int | None = None,
        settings: Json | None = None,
        random_state: Any = 0,
    ):
        self.method, self.model, self.rounds = method, model, rounds
        self.clients = clients
        self.lr, self.steps, self.batch = lr, steps, batch
        self.settings = settings
        self.random_state = random_state

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Train on every site's own rows.

        Args:
            X: Rows of features.
            y: Classes, or numbers in any unit.
            groups: Whose row each is, by name or number; without it rows are dealt to `clients` at random.

        Returns:
            Itself.
        """
        numeric = isinstance(self, RegressorMixin)
        y = read_answers(y, numeric)
        self.recipe_ = None
        if hasattr(X, "columns"):  # a data frame
            rows = self._fit_recipe(X)
        else:
            values, y = validate_data(self, X, y, dtype=np.float64, y_numeric=numeric)
            self.shift_, wide = values.mean(axis=0), values.std(axis=0)  # sums, which sites can share
            self.scale_ = np.where(wide > 1e-12 * np.abs(self.shift_), wide, 1.0)
            rows = ((values - self.shift_) / self.scale_).astype(np.float32)
        check_consistent_length(rows, y)
        y, classes, amount = self._targets(y)
        sites, names = site_of_rows(rows, groups)
        features = tuple(f"x{column}" for column in range(rows.shape[1]))
        data = Dataset("table:array", rows, y, {"holdout": (rows, y)}, classes, features, sites)
        return self._train(data._replace(site_names=names, amount=amount))

    def _fit_recipe(self, X: Any) -> Array:
        from amsfl.data.features import encode, fit
        from amsfl.data.read_table import read_table

        table = read_table(X)
        keep = dict.fromkeys(table.frame, "keep")  # whoever passes a column means it
        self.recipe_ = fit(table, "", "", np.arange(len(table.frame)), keep)
        self.n_features_in_ = len(table.frame.columns)
        self.feature_names_in_ = np.array(list(table.frame), object)
        return encode(self.recipe_, table)

    def _targets(self, y: Array) -> tuple[Array, tuple[str, ...], LabelScale | None]:
        raise NotImplementedError

    def _train(self, data: Dataset) -> Self:
        sites, rows = data.sites is not None, len(data.y)
        clients = None if self.clients is None else min(self.clients, rows)
        named = {"lr": self.lr, "steps": self.steps, "batch": self.batch, "clients": clients}
        own: Json = {name: value for name, value in named.items() if value is not None}
        own |= {"method": self.method, "model": self.model, "rounds": self.rounds}
        own["seed"] = int(check_random_state(self.random_state).randint(2**31))
        usual: Json = {"partition": "auto" if sites else "iid", "details": "", "eval_every": self.rounds}
        usual |= {"batch": min(64, rows)} | ({} if sites else {"clients": min(CLIENTS, rows)})
        chosen = {name: usual[name] for name in usual.keys() - own} | (self.settings or {})
        try:
            with warnings.catch_warnings():  # a search over what has no effect would find a best value
                warnings.filterwarnings("error", ".*has no effect", Remark)
                result = run(dataset=data, **chosen, **own)  # nothing is said twice
        except Remark as remark:
            raise ValueError(str(remark)) from None
        self.model_, self.summary_, self.rounds_ = result.model, result.summary, result.rounds
        return self

    def _outputs(self, X: Any) -> Array:
        check_is_fitted(self)
        if self.recipe_ is None:
            rows = validate_data(self, X, dtype=np.float64, reset=False)
            return self.model_.outputs((rows - self.shift_) / self.scale_)
        from amsfl.data.features import encode
        from amsfl.data.read_table import read_rows

        return self.model_.outputs(encode(self.recipe_, read_rows(X, self.recipe_)))


class FederatedClassifier(ClassifierMixin, _Federated):  # type: ignore[misc]
    """A classifier that is trained where the rows are: `FederatedClassifier().fit(X, y, groups=site)`.

    `groups` says whose row it is; without it rows are dealt to `clients` (5) at random. Features are
    standardised by sums that sites can share; data frames are read as tables are (docs/tables.md).
    `settings` are further ones of docs/settings.md, as in {"profile": "wild"}.
    All rows are trained on; judge by others, as scikit-learn's cross_val_score does.
    """

    def _targets(self, y: Array) -> tuple[Array, tuple[str, ...], LabelScale | None]:
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("There is one class in y; a classifier needs two classes or more.")
        return codes.astype(np.int32), tuple(map(str, self.classes_)), None

    def predict_proba(self, X: Any) -> Array:
        """Probabilities [rows, classes], in the order of `classes_`."""
        outputs = self._outputs(X)  # says first if nothing is fitted
        return self.model_.chances(outputs)

    def predict(self, X: Any) -> Array:
        """Of every row its class, as `y` spelled it."""
        chances = self.predict_proba(X)  # says first if nothing is fitted
        return np.asarray(self.classes_[chances.argmax(axis=1)])


class FederatedRegressor(RegressorMixin, _Federated):  # type: ignore[misc]
    """The same for numbers: `FederatedRegressor().fit(X, y, groups=site)`, predictions in the units of y.

    y is standardised by sums over the sites, as features are; `settings={"loss": "absolute"}` minimises the
    absolute error in place of the squared one. `score` is R².
    """

    def _targets(self, y: Array) -> tuple[Array, tuple[str, ...], LabelScale | None]:
        amount = label_scale(y)
        return standardise(y, amount), (), amount

    def predict(self, X: Any) -> Array:
        """Of every row its number, in the units of y."""
        outputs = self._outputs(X)  # says first if nothing is fitted
        return self.model_.named(outputs)


def site_of_rows(rows: Array, groups: Any) -> tuple[Array | None, tuple[str, ...]]:
    """Of every row an index into the names of sites; None where rows are dealt at random."""
    if groups is None:
        return None, ()
    check_consistent_length(rows, groups)
    values = np.asarray(groups)
    if values.size != len(values):
        raise ValueError(f"groups is one name or number a row; it has shape {values.shape}.")
    check_whole(values.ravel(), "group; every row needs one, or leave groups out.")
    names, sites = np.unique(values.ravel(), return_inverse=True)
    return sites.astype(np.int32), tuple(map(str, names))


def read_answers(y: Any, numeric: bool) -> Array:
    """One answer a row: numbers, or classes of one type."""
    values: Array = column_or_1d(y, warn=True)
    check_whole(values, "answer in y; every row needs one: leave such rows out.")
    assert_all_finite(values, input_name="y")
    types = " and ".join(sorted({type(value).__name__.rstrip("_") for value in values}))
    if not numeric and (values.dtype != object or types == "str"):
        return values
    plain = np.array(values.tolist())
    if plain.dtype.kind in "biuf" and values.dtype.kind not in "mM":
        return plain.astype(np.float64) if numeric else plain
    hint = "classes are all numbers or all text, as in y.astype(str)."
    if numeric:  # numpy would count dates in their own unit, whichever it is
        hint = "a regressor predicts numbers; of dates give days: (y - y.min()) / np.timedelta64(1, 'D')."
    raise ValueError(f"y holds {types}, and {hint}")


def check_whole(values: Any, what: str) -> None:
    for row, value in enumerate(values):
        if value is None or str(value) == "<NA>" or value != value:  # pandas' NA equals nothing, not even NA
            raise ValueError(f"Row {row} has no {what}")
