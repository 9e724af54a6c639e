"""Theorem 3.4's formula is not the answer to its problem, and the objective that replaces it is exact."""

import numpy as np
import pytest
from claims.allocation import objective, printed_allocation, quadratic_allocation, step_worth
from claims.problems import average, quadratic, spread
from claims.random_problems import random_logistic, random_quadratics, random_trace
from claims.trace import record
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

positive = st.floats(0.1, 10.0)


@settings(max_examples=100, deadline=None)
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


def test_against_a_solver():
    a, c, budget = np.array([0.3, 0.5, 0.2]), np.array([1.0, 4.0, 2.0]), 10.0
    found = minimize(
        lambda t: np.sum(a * t**2),
        np.ones(3),
        bounds=[(0, None)] * 3,
        constraints={"type": "eq", "fun": lambda t: np.sum(c * t) - budget},
    ).x
    np.testing.assert_allclose(quadratic_allocation(a, c, np.array(budget)), found, rtol=1e-4)


def test_printed_allocation_is_not_optimal():
    """a = 1, c = (1, 4), S = 10: t = (10, 40)/17 costs 100/17; the printed (10/3, 5/3) costs 125/9."""
    a, c, budget = np.ones(2), np.array([1.0, 4.0]), np.array(10.0)
    np.testing.assert_allclose(quadratic_allocation(a, c, budget), [10 / 17, 40 / 17])
    np.testing.assert_allclose(printed_allocation(a, c, budget), [10 / 3, 5 / 3])
    assert np.sum(printed_allocation(a, c, budget) ** 2) == pytest.approx(125 / 9)
    assert np.sum(quadratic_allocation(a, c, budget) ** 2) == pytest.approx(100 / 17)


@settings(max_examples=100, deadline=None)
@given(st.lists(positive, min_size=2, max_size=6), positive)
def test_printed_exponent_belongs_to_an_error_that_falls_with_steps(seconds, budget):
    """min sum 1/t_i with sum c_i t_i = S has t ~ c^(-1/2): the formula fits a gain, not a cost."""
    c = np.array(seconds)
    t = printed_allocation(np.ones_like(c), c, np.array(budget))
    rate = 1 / t**2 / c
    np.testing.assert_allclose(rate, rate[0])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=4), positive, positive)
def test_the_printed_problem_is_solved_by_one_step_each(clients, alpha, beta):
    """alpha sum w t + beta sum w t(t-1)/2 over t in {1..4}^n: every client's best is 1, whatever S."""
    w = np.array(clients)[:, 0]
    grid = np.array(np.meshgrid(*[range(1, 5)] * len(w))).reshape(len(w), -1).T
    cost = np.sum(alpha * w * grid + beta * w * grid * (grid - 1) / 2, axis=-1)
    assert np.all(grid[np.argmin(cost)] == 1)


@settings(max_examples=100, deadline=None)
@given(positive, positive, positive, positive, st.floats(0, 10))
def test_printed_stationary_point_is_below_one_step(alpha, beta, w, c, price):
    """The appendix's t = 1/2 - (alpha w + lambda c) / (beta w): with lambda >= 0, as KKT asks, t < 1/2."""
    t = 0.5 - (alpha * w + price * c) / (beta * w)
    assert alpha * w + beta * w * (2 * t - 1) / 2 + price * c == pytest.approx(0, abs=1e-9)
    assert t < 0.5


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


def round_bowls(pace, many, seed):
    """Clients with H_i = h I, whose gradient keeps the part 1 - eta h = 1 - pace at every step."""
    rng = np.random.default_rng(seed)
    h = 2.0
    p = quadratic(np.tile(h * np.eye(3), (2, 1, 1)), rng.normal(size=(2, 3)), np.array([0.3, 0.7]))
    return record(p, rng.normal(size=3), np.full((1, 2), many), pace / h)


@settings(max_examples=50, deadline=None)
@given(st.floats(0.01, 0.8), st.integers(2, 10), st.integers(0, 2**32 - 1))
def test_curves_on_round_bowls(pace, many, seed):
    """g_s = (1 - eta h)^s g, so the geometric curve through the first and the last gradient is exact."""
    worth = step_worth(round_bowls(pace, many, seed))[0]
    a, s = worth[0], np.arange(many + 1)[:, None]
    rho = (worth[many] / a) ** (1 / many)
    np.testing.assert_allclose(rho, 1 - pace, rtol=1e-4)
    np.testing.assert_allclose(worth, a * rho**s, atol=1e-10, rtol=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.floats(0.01, 0.8), st.integers(2, 10), st.integers(0, 2**32 - 1))
def test_the_linear_curve_is_a_secant(pace, many, seed):
    """Through the same two readings: above the geometric curve between them, below it beyond.

    So the steps that were read are predicted to be worth more than they were, those beyond less, and none
    from t / (1 - rho^t) on. The tangent at 0, d = -a ln rho, is below everywhere.
    """
    trace = round_bowls(pace, many, seed)
    read = step_worth(trace)[0, : many + 1]
    side = np.sign(read[0])  # a client that pulls the other way has all its worths below zero
    a, rho = np.abs(read[0]), 1 - pace
    slope = (a - np.abs(read[many])) / many  # the readings' d
    s = np.arange(4 * many)[:, None]
    curve, line = a * rho**s, a - slope * s
    between, beyond = (s[:, 0] > 0) & (s[:, 0] < many), s[:, 0] > many
    tiny = 1e-9 * a
    np.testing.assert_allclose(line[[0, many]], curve[[0, many]], atol=1e-9)
    assert np.all(line[between] > curve[between])
    assert np.all(line[beyond] < curve[beyond])
    assert np.all(a * (1 + np.log(rho) * s) <= curve + tiny)
    none = s > many / (1 - rho**many)
    assert np.all(np.where(none, line, -1.0) < tiny)
    done = np.sum(side * read[:many], axis=0)
    assert np.all(np.sum(line[:many], axis=0) >= done - tiny)
