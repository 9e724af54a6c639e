"""The scikit-learn estimator: its own checks, and what groups mean."""

from typing import Any

import numpy as np
import pandas
import pytest
from sklearn.utils.estimator_checks import (
    check_estimators_nan_inf,
    check_fit_idempotent,
    check_n_features_in,
    check_set_params,
    parametrize_with_checks,
)

import amsfl
from amsfl.simulation.estimator import FederatedClassifier, FederatedRegressor

# one client and a linear model: the checks are about the interface, and fit some sixty times
TINY: dict[str, Any] = {"rounds": 4, "clients": 1, "model": "softmax", "method": "fedavg"}
TINY["settings"] = {"engine": "loop", "steps": 4, "lr": 0.5}


LINE = TINY | {"settings": {"engine": "loop", "steps": 4, "lr": 0.1}}
GROUPED = {"clients": None}  # where groups name them


@pytest.mark.slow
@parametrize_with_checks([FederatedClassifier(**TINY), FederatedRegressor(**LINE)])
def test_scikit_learn_takes_it_for_its_own(estimator: Any, check: Any) -> None:
    check(estimator)


def test_scikit_learns_checks_in_short() -> None:
    for estimator in (FederatedClassifier(**TINY), FederatedRegressor(**LINE)):
        for check in (check_fit_idempotent, check_n_features_in, check_estimators_nan_inf, check_set_params):
            check(type(estimator).__name__, estimator)


def test_groups_are_the_clients() -> None:
    """Each site's rows are its own: the record has the sites by name, and a site that is one row counts."""
    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, (90, 3))
    y = np.where(x[:, 0] > 3, "high", "low")
    site = np.array(["north"] * 60 + ["south"] * 29 + ["tiny"])
    fitted = amsfl.FederatedClassifier(**TINY | GROUPED).fit(x, y, groups=site)
    assert list(fitted.summary_.steps) == ["north", "south", "tiny"]
    assert fitted.classes_.tolist() == ["high", "low"] and fitted.score(x, y) > 0.8
    assert fitted.predict_proba(x).shape == (90, 2)
    np.testing.assert_allclose(fitted.shift_, x.mean(axis=0))
    np.testing.assert_allclose(fitted.scale_, x.std(axis=0))
    again = amsfl.FederatedClassifier(**TINY | GROUPED).fit(x, y, groups=site)
    np.testing.assert_array_equal(again.predict_proba(x), fitted.predict_proba(x))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        amsfl.FederatedClassifier(**TINY | GROUPED).fit(x, y, groups=site[:5])


def test_numbers_in_their_own_units() -> None:
    """Sites' sums give the mean and deviation of all rows; a line is found in the units of y."""
    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, (90, 3))
    y = 5_000 + 200 * x[:, 0] - 30 * x[:, 1]
    site = np.array(["north"] * 60 + ["south"] * 29 + ["tiny"])
    fitted = amsfl.FederatedRegressor(**LINE | GROUPED | {"rounds": 60}).fit(x, y, groups=site)
    amount = fitted.model_.amount
    assert amount == pytest.approx((y.mean(), y.std())) and list(fitted.summary_.steps) == [
        "north",
        "south",
        "tiny",
    ]
    np.testing.assert_allclose(fitted.predict(x), y, atol=0.05 * y.std())
    assert fitted.score(x, y) > 0.999


def test_names_beside_numbers_are_no_classes() -> None:
    """Answers of several types, or dates to regress on, are refused."""
    x = np.arange(12.0).reshape(12, 1)
    y = np.arange(12) > 5
    mixed = np.array([1, "Oslo", 2.5] * 4, object)
    names = np.array(["a", "b", "c"] * 4)
    fitted = FederatedClassifier(**TINY | GROUPED).fit(x, y.astype(object), groups=names)
    assert fitted.classes_.dtype == bool
    dates = np.array(["2024-01-31", "2025-01-31"] * 6, "datetime64[D]")
    assert fitted.fit(x, dates).classes_.tolist() == sorted(set(dates.tolist()))
    for wrong, said in ((mixed, "float and int and str"), (dates.astype(object), "date")):
        with pytest.raises(ValueError, match=f"y holds {said}"):
            fitted.fit(x, wrong)
    for wrong in (dates, dates.astype(object), mixed):
        with pytest.raises(ValueError, match=r"y holds.*predicts numbers"):
            FederatedRegressor(**LINE).fit(x, wrong)
    with pytest.raises(ValueError, match="Row 1 has no answer"):
        FederatedRegressor(**LINE).fit(x, [1.5, None] * 6)
    with pytest.raises(ValueError, match=r"groups.*\(12, 2\)"):
        fitted.fit(x, y, groups=[("a", 1)] * 12)
    assert list(fitted.fit(x, y, groups=names[:, None]).summary_.steps) == ["a", "b", "c"]


@pytest.mark.parametrize("twice", [{"rounds": 3}, {"seed": 3}, {"lr": 0.1}])
def test_a_parameter_is_not_said_twice(twice: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(twice))):
        FederatedClassifier(lr=0.5, settings=twice).fit([[0.0], [1.0]], [0, 1])


def test_the_first_gap_of_a_frame_of_numbers_is_the_training_rows_median() -> None:
    frame = pandas.DataFrame({"a": [0.0, 1.0, 5.0], "b": [2.0, 1.0, 0.0]})
    fitted = FederatedClassifier(**TINY).fit(frame, [0, 0, 1])
    gap = fitted.predict_proba(frame[:2].mask(frame[:2] == 0))  # the first row's a
    whole = fitted.predict_proba(frame[:2].replace({"a": {0.0: 1.0}}))
    np.testing.assert_array_equal(gap, whole)


def test_settings_are_parameters_that_can_be_searched() -> None:
    from sklearn.model_selection import GridSearchCV

    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    y = x[:, 0] > 0
    small = {"rounds": 3, "clients": 1, "model": "softmax", "method": "fedavg", "steps": 4}
    search = GridSearchCV(
        FederatedClassifier(**small, settings={"engine": "loop"}), {"lr": [1e-9, 0.5]}, cv=2
    ).fit(x, y)
    assert search.best_params_ == {"lr": 0.5} and search.best_score_ > 0.9


def test_frames_with_words_and_gaps() -> None:
    """A word tells the class; gaps and booleans are read, in training and in new rows."""
    words = ["red", "blue", None, "red"] * 20
    frame = pandas.DataFrame({"w": words, "n": [1.0, None, 3.0, 4.0] * 20, "flag": [True, False] * 40})
    y = np.array(["warm" if word == "red" else "cold" for word in words])
    fitted = FederatedClassifier(**TINY | GROUPED | {"rounds": 20}).fit(frame, y, groups=["a", "b"] * 40)
    assert fitted.score(frame, y) == 1
    new = pandas.DataFrame({"w": ["red", None], "n": [2.0, None], "flag": [1, 0]})
    assert fitted.predict(new).tolist() == ["warm", "cold"]
    with pytest.raises(ValueError, match="1d array"):
        fitted.fit(frame, np.c_[y, y])
    with pytest.raises(ValueError, match="Row 1 has no answer in y"):
        fitted.fit(frame, pandas.array([1, None] * 40, dtype="Int64"))
    with pytest.raises(ValueError, match="Row 2 has no answer in y"):
        fitted.fit(frame, [None if word is None else word for word in words])
