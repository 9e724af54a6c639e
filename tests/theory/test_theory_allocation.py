"""Theorem 3.4's formula is not the answer to its problem, and the objective that replaces it is exact."""

import numpy as np
import pytest
from claims.allocation import objective, printed_allocation, quadratic_allocation
from claims.problems import average, spread
from claims.random_problems import random_logistic, random_quadratics, random_trace
from hypothesis import given
from hypothesis import strategies as st

positive = st.floats(0.1, 10.0)


@given(st.lists(st.tuples(positive, positive), min_size=2, max_size=6), positive, st.integers(0, 2**32 - 1))
def test_quadratic_allocation_is_the_optimum(clients, budget, seed):
    """No feasible direction improves it: convex objective, so 50 random allocations suffice as a check."""
    a, c = np.array(clients).T
    best = quadratic_allocation(a, c, np.array(budget))
    assert np.sum(c * best) == pytest.approx(budget)
    least = np.sum(a * best**2)
    other = np.random.default_rng(seed).dirichlet(np.ones(len(a)), 50) * budget / c
    assert np.all(np.sum(a * other**2, axis=-1) >= least * (1 - 1e-9))
    # multiplier: 2 a t / c is the same for all
    rate = 2 * a * best / c
    np.testing.assert_allclose(rate, rate[0])


def test_printed_allocation_is_not_optimal():
    """a = 1, c = (1, 4), S = 10: t = (10, 40)/17 costs 100/17; the printed (10/3, 5/3) costs 125/9."""
    a, c, budget = np.ones(2), np.array([1.0, 4.0]), np.array(10.0)
    np.testing.assert_allclose(quadratic_allocation(a, c, budget), [10 / 17, 40 / 17])
    np.testing.assert_allclose(printed_allocation(a, c, budget), [10 / 3, 5 / 3])
    assert np.sum(printed_allocation(a, c, budget) ** 2) == pytest.approx(125 / 9)
    assert np.sum(quadratic_allocation(a, c, budget) ** 2) == pytest.approx(100 / 17)


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=4), positive, positive)
def test_the_printed_problem_is_solved_by_one_step_each(clients, alpha, beta):
    """alpha sum w t + beta sum w t(t-1)/2 over t in {1..4}^n: every client's best is 1, whatever S."""
    w = np.array(clients)[:, 0]
    grid = np.array(np.meshgrid(*[range(1, 5)] * len(w))).reshape(len(w), -1).T
    cost = np.sum(alpha * w * grid + beta * w * grid * (grid - 1) / 2, axis=-1)
    assert np.all(grid[np.argmin(cost)] == 1)


@pytest.mark.parametrize("maker", [random_quadratics, random_logistic])
def test_objective_is_first_order_progress(maker):
    """U(t) = <grad F(w), w - w+>, and |F(w) - F(w+) - U| <= L/2 |w+ - w|^2."""
    rng = np.random.default_rng(11)
    trace = random_trace(rng, maker(rng, 500), equal=False)
    p = trace.problem
    full = average(p.weights, trace.grads[:, 0])
    moved = trace.anchors[1:] - trace.anchors[:-1]
    np.testing.assert_allclose(objective(trace), -np.sum(full * moved, axis=-1), atol=1e-9, rtol=1e-6)
    clients = p.weights.shape[-1]
    value = np.stack([np.sum(p.weights * p.loss(spread(w, clients)), axis=-1) for w in trace.anchors])
    off = np.abs(value[:-1] - value[1:] - objective(trace))
    assert np.all(off <= p.smooth / 2 * np.sum(moved**2, axis=-1) + 1e-9 * (1 + np.abs(value[:-1])))
