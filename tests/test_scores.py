"""Scores that unbalanced data need, and class weights: against scikit-learn's, by hand, on both engines."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from federation_small import SMALL, own_data
from sklearn.metrics import log_loss
from sklearn.utils.class_weight import compute_class_weight

import amsfl
from amsfl.core import UserError
from amsfl.data.dataset import Dataset
from amsfl.data.weights import class_weights
from amsfl.engines import losses


def unbalanced(rows: int = 120, **changes: Any) -> Dataset:
    """A tenth is 'yes', all of it at the second of two sites; 'never' has no row at all."""
    rng = np.random.default_rng(0)
    y = (np.arange(rows) % 10 == 0).astype(np.int32)
    x = np.stack([y + rng.normal(0, 0.7, rows), rng.normal(size=rows)], 1).astype(np.float32)
    held = {"holdout": (x[:40].copy(), y[:40])}
    sites = np.where(y == 1, 1, np.arange(rows) % 2).astype(np.int32)
    data = Dataset("mine", x, y, held, ("no", "yes", "never"), ("a", "b"), sites, ("north", "south"))
    return data._replace(**changes)


def test_balanced_weights_are_scikit_learns_and_a_row_counts_one_on_average() -> None:
    y = np.array([0] * 9 + [1], np.int32)
    assert class_weights("balanced", y, ("a", "b")) == pytest.approx((10 / 18, 10 / 2))
    expected = compute_class_weight("balanced", classes=np.array([0, 1]), y=y)
    assert class_weights("balanced", y, ("a", "b")) == pytest.approx(tuple(expected))
    assert class_weights("balanced", y, ("a", "b", "never")) == pytest.approx((*expected, 0))
    given = class_weights("b=3", y, ("a", "b"))
    assert given == pytest.approx((10 / 12, 30 / 12)) and class_weights("", y, ("a", "b")) is None
    assert given is not None and np.mean(np.array(given)[y]) == pytest.approx(1)
    for wrong, why in (("c=3", "no class 'c'"), ("b", "NAME=NUMBER"), ("b=0", "above 0"), ("b=x", "above 0")):
        with pytest.raises(UserError, match=why):
            class_weights(wrong, y, ("a", "b"))
    with pytest.raises(UserError, match="numbers are predicted"):
        class_weights("balanced", np.zeros(3, np.float32), ())


def test_the_weighted_loss_is_the_mean_over_rows() -> None:
    rng = np.random.default_rng(0)
    logits, y, weights = rng.normal(size=(50, 3)), rng.integers(0, 3, 50), (0.5, 2.0, 1.0)
    got = losses.weighted(weights)(jnp.asarray(logits), jnp.asarray(y)).mean()
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    each = np.array(weights)[y]
    expected = log_loss(y, chances, sample_weight=each) * each.mean()
    assert float(got) == pytest.approx(expected, rel=1e-5)


def test_engines_agree_with_weights_and_a_class_absent_at_a_client() -> None:
    settings = SMALL | {"class_weights": "balanced", "precision": "float32"}
    loop, lanes = (amsfl.run(dataset=unbalanced(), **settings | {"engine": e}) for e in ("loop", "jax"))
    np.testing.assert_allclose(loop.params, lanes.params, atol=2e-6)
    for name, value in loop.summary.metrics["holdout"].items():
        assert lanes.summary.metrics["holdout"][name] == pytest.approx(value, abs=1e-5), name
    plain = amsfl.run(dataset=unbalanced(), **settings | {"class_weights": ""})
    found = [each.summary.metrics["holdout"]["recall"] for each in (loop, plain)]
    assert found[0][1] > found[1][1] and found[0][2] is None  # the rare class is found more often
    alike = [amsfl.run(dataset=own_data(), **SMALL | {"class_weights": text}) for text in ("balanced", "")]
    np.testing.assert_allclose(alike[0].params, alike[1].params, atol=1e-6)  # balanced already
    with pytest.raises(UserError, match="no class 'jes'"):
        amsfl.run(dataset=unbalanced(), **SMALL | {"class_weights": "jes=3"})
