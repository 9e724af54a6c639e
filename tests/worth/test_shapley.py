"""Shapley values against their definition, and by their axioms."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from amsfl.worth.shapley import EXACT, TOLERANCE, all_coalitions, estimate, shapley


def table_game(values):
    """The game whose coalitions have these rows of scores, in the order of `all_coalitions`."""
    players = int(np.log2(len(values)))
    return players, lambda members: values[members @ (1 << np.arange(players))]


def by_definition(values):
    """The mean over all orders of what each player adds to those before it."""
    players = int(np.log2(len(values)))
    added = np.zeros((players, values.shape[1]))
    orders = list(permutations(range(players)))
    for order in orders:
        mask = 0
        for who in order:
            added[who] += values[mask | 1 << who] - values[mask]
            mask |= 1 << who
    return added / len(orders)


scores = st.floats(-1, 1, allow_subnormal=False)
games = st.integers(1, 4).flatmap(lambda n: arrays(float, (2**n, 2), elements=scores))


def test_gloves():
    """One left glove, two right ones, a pair is worth 1: by hand 2/3, 1/6, 1/6."""
    worth = [[float(left and (a or b))] for left, a, b in all_coalitions(3)]
    assert shapley(*table_game(np.array(worth))).rows[:, 0] == pytest.approx([2 / 3, 1 / 6, 1 / 6])


@settings(max_examples=40, deadline=None)
@given(games)
def test_definition_and_efficiency(values):
    shares = shapley(*table_game(values)).rows
    np.testing.assert_allclose(shares, by_definition(values), atol=1e-12)
    np.testing.assert_allclose(shares.sum(0), values[-1] - values[0], atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4).flatmap(lambda n: st.tuples(*[arrays(float, (2**n, 2), elements=scores)] * 2)))
def test_additivity(two):
    a, b = (shapley(*table_game(values)).rows for values in two)
    np.testing.assert_allclose(shapley(*table_game(two[0] + two[1])).rows, a + b, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(arrays(float, (8, 2), elements=scores))
def test_symmetry_and_dummy(values):
    """Players 0 and 1 of four count alike in every coalition, player 3 changes nothing."""
    members = all_coalitions(4)
    kind = members[:, 0].astype(int) + members[:, 1] + 3 * members[:, 2]
    shares = shapley(*table_game(values[kind])).rows
    np.testing.assert_allclose(shares[0], shares[1], atol=1e-12)
    np.testing.assert_allclose(shares[3], 0, atol=1e-12)


def test_sampled_orders():
    """Where players only add up, any order gives the values; what truncation leaves out is small."""
    players = EXACT + 3
    own = np.linspace(0.01, 0.1, players)[:, None] * np.ones((1, 5))
    shares = shapley(players, lambda members: members @ own)
    np.testing.assert_allclose(shares.rows.sum(0), own.sum(0), atol=TOLERANCE)
    assert np.abs(shares.rows - own).max() < TOLERANCE
    assert (shares.error < TOLERANCE).all()


def test_interval_holds_the_mean_of_the_rows():
    rows = np.random.default_rng(0).normal(0.3, 1.0, (400, 100))
    assert 0.85 < np.mean([each.low < 0.3 < each.high for each in map(estimate, rows)]) < 0.95
