"""The scikit-learn estimator: its own checks, and what groups mean."""

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from amsfl.federation.estimator import FederatedClassifier

# one client and a linear model: the checks are about the interface, and fit some sixty times
TINY = {"settings": {"engine": "loop", "steps": 5}, "rounds": 6, "clients": 1, "model": "softmax"}


@parametrize_with_checks([FederatedClassifier(method="fedavg", **TINY)])
def test_scikit_learn_takes_it_for_its_own(estimator: Any, check: Any) -> None:
    check(estimator)
