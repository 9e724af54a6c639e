"""One small counterexample, worked out by hand, for each printed claim that fails.

Two problems serve for nearly all: `bowl`, one client with F(w) = h w^2 / 2, and `tug`, two clients of
equal weight with F(w) = (w - 1)^2 / 2 and (w + 1)^2 / 2, so that w* = 0, taking 1 and T steps.
"""

import numpy as np
import pytest
from claims import CLAIMS
from claims.assumptions import ball_grad_bound, gda_error
from claims.claim import evaluate
from claims.problems import quadratic, tanh
from claims.recursion import residual
from claims.trace import double_drift, drift, grad_bound, record


def bowl(steps, lr, h=1.0, rounds=1):
    p = quadratic(np.full((1, 1, 1), h), np.zeros((1, 1)), np.ones(1))
    return record(p, np.array([1.0]), np.full((rounds, 1), steps), lr)


def tug(start, steps, lr, rounds=1):
    p = quadratic(np.ones((2, 1, 1)), np.array([[1.0], [-1.0]]), np.full(2, 0.5))
    return record(p, np.array([start]), np.tile(steps, (rounds, 1)), lr)


def named(where, form, name):
    (claim,) = [c for c in CLAIMS if c.where == where and c.form == form and name in (None, c.name)]
    return claim


def stands(trace, where, form, name=None):
    return evaluate([named(where, form, name)], trace)[0].holds


def sides(trace, where, form, name=None):
    lhs, rhs, _ = named(where, form, name).sides(trace)
    return float(np.ravel(lhs)[0]), float(np.ravel(rhs)[0])


def test_double_sum():
    """w goes 1, .9, .81, .729; dg = 0, -.1, -.19. Single sum -.29: 1 - .3 + .029 = .729. Double -.39."""
    trace = bowl(3, 0.1)
    assert drift(trace)[0, 0, 0] == pytest.approx(-0.29)
    assert double_drift(trace)[0, 0, 0] == pytest.approx(-0.39)
    assert trace.anchors[1, 0] == pytest.approx(1 - 0.1 * 3 + 0.1 * 0.29)
    assert stands(trace, "3.2, eq. for e_i", "printed") is False
    assert stands(trace, "A.1.7", "corrected")
    assert stands(bowl(2, 0.1), "3.2, eq. for e_i", "printed")  # the two sums part at t = 3


def test_a2_and_strong_convexity_exclude_each_other():
    """|F'(w)| = |w| passes any G; on the ball |w| <= 1 that no step leaves, G = 1."""
    trace = bowl(3, 0.1)
    assert stands(trace, "A2", "printed") is False
    assert stands(trace, "A2", "corrected")
    assert ball_grad_bound(trace) == pytest.approx(1.0)


def test_gda_error_on_a_run():
    trace = record(tanh(20.0), np.array([0.13]), np.array([[1]]), 1.0)
    assert gda_error(trace).max() > 1.5 * 0.5 * (trace.points[0, 1, 0, 0] - 0.13) ** 2
    assert stands(trace, "A3, Prop. 3.3", "printed") is False
    assert stands(trace, "A3, Prop. 3.3", "corrected", "GDA error")
    assert stands(trace, "A3, Prop. 3.3", "corrected", "GDA error, L alone")


def test_drift_accumulation_needs_the_step_size():
    """F = .05 w^2, eta = 5, t = 2: |Delta| = .1 * |.5 - 1| = .05; L G = .01, eta L G = .05, tight."""
    trace = bowl(2, 5.0, h=0.1)
    assert sides(trace, "A4", "printed") == pytest.approx((0.05, 0.01))
    assert sides(trace, "A4", "corrected", "drift accumulation") == pytest.approx((0.05, 0.05))
    assert stands(trace, "A4", "printed") is False
    assert stands(trace, "A4", "corrected", "drift accumulation")


def test_squared_error_without_the_cross_term():
    """(.9^2)^2 = .6561; without -2 eta <e, Delta> = +.02 one gets 1 - .4 + .01 * 1.9^2 = .6361."""
    trace = bowl(2, 0.1)
    assert trace.anchors[1, 0] ** 2 == pytest.approx(0.6561)
    assert sides(trace, "A.1.9", "printed")[0] == pytest.approx(0.02)
    assert stands(trace, "A.1.9", "printed") is False
    assert stands(trace, "A.2.1", "corrected")


def test_error_recursion_with_one_client():
    """L = G = 1, two steps of .1: .9^4 = .6561, printed 1 - .4 + .04 + .01 = .65, corrected .66."""
    trace = bowl(2, 0.1)
    assert sides(trace, "Thm 3.1", "printed") == pytest.approx((0.6561, 0.65))
    assert sides(trace, "Thm 3.1", "corrected") == pytest.approx((0.6561, 0.66))
    assert stands(trace, "Thm 3.1", "printed") is False


@pytest.mark.parametrize("many", [2, 5, 20])
def test_error_recursion_with_unequal_steps(many):
    """tug at w = -x: lhs - rhs = eta x (T - 1) + O(eta^2), so a small eta breaks it for any fixed G.

    G = 2 bounds the gradients on [-1, 1], which no run from there leaves.
    """
    trace = tug(-0.5, (1, many), 1e-4)
    lhs, rhs = sides(trace, "Thm 3.1", "printed")
    wider = float(residual(trace)[0]) * ((2.0 / float(grad_bound(trace))) ** 2 - 1)
    assert lhs - (rhs + wider) == pytest.approx(1e-4 * 0.5 * (many - 1), rel=0.1)
    assert stands(trace, "Thm 3.1", "corrected")


@pytest.mark.parametrize("x", [0.01, 0.5, 2.0])
def test_strong_convexity_step_with_unequal_steps(x):
    """<e, sum w t g_i> - mu E e^2 = -x (T - 1) / 2 for tug at -x: false for every x > 0 once T > 1."""
    trace = tug(-x, (1, 5), 0.01)
    least, gained = sides(trace, "A.2, below A.2.2", "printed")
    assert gained - least == pytest.approx(-2 * x)
    assert stands(trace, "A.2, below A.2.2", "printed") is False
    assert stands(trace, "A.2, below A.2.2", "corrected")
    assert stands(tug(-x, (5, 5), 0.01), "A.2, below A.2.2", "printed")


def test_no_theta_of_ones_own_choice():
    """One step of .01 on the bowl: .9801 against (1 - .9) + (1 + 1/.9) .0001 for theta = .9."""
    trace = bowl(1, 0.01)
    lhs, rhs = sides(trace, "Thm 3.2", "printed", "linearised, any theta")
    assert lhs == pytest.approx(0.9801)
    assert rhs == pytest.approx(0.1 + (1 + 1 / 0.9) * 1e-4)


def test_residual_of_unequal_steps_does_not_vanish_with_the_step_size():
    """tug with 1 and 5 steps settles near (1 - 5) / (1 + 5) = -2/3 however small eta is."""
    trace = tug(0.0, (1, 5), 0.01, rounds=400)
    assert trace.anchors[-1, 0] == pytest.approx(-2 / 3, abs=0.02)
    assert stands(trace, "Thm 3.2", "printed", "residual bound") is False
    assert stands(trace, "A.2, last line", "printed") is False
    assert stands(trace, "A.2.3", "printed") is False
    for where, name in (("Thm 3.2", "residual bound"), ("Thm 3.2", "residual bound, sharp"), ("A.2.3", None)):
        assert stands(trace, where, "corrected", name)
