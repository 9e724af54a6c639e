"""The scikit-learn estimator: its own checks, and what groups mean."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from amsfl.federation.estimator import FederatedClassifier

# one client and a linear model: a few compilations of a small program each, and the checks are about the interface
TINY = {"settings": {"engine": "loop", "steps": 5}, "rounds": 6, "clients": 1, "model": "softmax"}


@parametrize_with_checks([FederatedClassifier(method="fedavg", **TINY)])
def test_scikit_learn_takes_it_for_its_own(estimator: Any, check: Any) -> None:
    check(estimator)
