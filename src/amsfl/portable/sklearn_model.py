"""The model as a scikit-learn estimator of raw rows, which `clone`, pipelines and scorers take.

    from model import load
    load().predict("new.csv")  # or raw columns: a DataFrame or an array

This file is copied into an export: it needs amsfl, numpy and scikit-learn.
"""

from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from amsfl import portable
from amsfl.portable.network import Array

FLAGS = {word: word.lower() == "true" for word in ("False", "FALSE", "false", "True", "TRUE", "true")}


def as_values(names: tuple[str, ...]) -> Array:
    """Classes as a data frame holds them: whole numbers, numbers, True and False where all are, else text."""
    for read in (int, float, FLAGS.__getitem__):
        with suppress(ValueError, KeyError, OverflowError):
            values = [read(name) for name in names]
            pairs = zip(names, values, strict=True)
            alike = all(name in FLAGS or name in (str(each), f"{each:g}") for name, each in pairs)
            if alike and len(set(values)) == len(names):
                return np.array(values)
    return np.array(names)


class _Portable(BaseEstimator):  # type: ignore[misc]
    """Trained already: `fit` loads it and looks at no rows. Rows are raw columns: a table or an array."""

    def __init__(self, folder: str = ".", which: str = "auto"):
        self.folder = folder
        self.which = which

    def fit(self, X: Any = None, y: Any = None) -> Self:
        self.model_ = portable.load(self.folder, self.which)
        return self


class PortableClassifier(ClassifierMixin, _Portable):  # type: ignore[misc]
    """A model of classes."""

    def fit(self, X: Any = None, y: Any = None) -> Self:
        super().fit()
        self.classes_ = as_values(self.model_.classes)
        return self

    def predict(self, X: Any) -> Array:
        return np.asarray(self.classes_[self.decision_function(X).argmax(axis=1)])

    def predict_proba(self, X: Any) -> Array:
        return self.model_.predict_proba(X)

    def decision_function(self, X: Any) -> Array:
        """The logits, one column a class."""
        return self.model_.logits(X)


class PortableRegressor(RegressorMixin, _Portable):  # type: ignore[misc]
    """A model of numbers, which it predicts in their own units."""

    def predict(self, X: Any) -> Array:
        return self.model_.predict(X)


def load(folder: str | Path = Path(__file__).parent) -> _Portable:
    """The trained estimator, ready to be asked."""
    kind = PortableClassifier if portable.load(folder).classes else PortableRegressor
    return kind(str(folder)).fit()
