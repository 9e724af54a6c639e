"""The rules that do not look at worth: Algorithm 1 to the letter, fixed, fill, and the rivals'."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_schedule_oracle import best, certified, problems

from amsfl.core import UserError
from amsfl.schedule import (
    Problem,
    Resource,
    adacomm,
    decaying,
    fill,
    fixed,
    policy,
    printed,
    problem,
    speed,
    wang,
    within,
)

pytestmark = pytest.mark.filterwarnings("error")


def algorithm_1(w, c, b, budget, alpha, beta) -> tuple[list[int], float]:
    """The paper's pseudo-code, line by line."""
    t = [1] * len(w)
    total = sum(ci + bi for ci, bi in zip(c, b, strict=True))
    while total < budget:
        delta = [(alpha * w[i] + beta * w[i] * (2 * t[i] - 1) / 2) / c[i] for i in range(len(w))]
        j = min(range(len(w)), key=delta.__getitem__)
        t[j] += 1
        total += c[j]
    return t, total


@settings(max_examples=100, deadline=None)
@given(problems(kind="sum", budget=True, resources=0), st.floats(0.01, 5), st.floats(0.01, 5))
def test_printed_is_algorithm_1(p: Problem, alpha: float, beta: float) -> None:
    if (p.weights == 0).any():
        return  # a client of no weight costs nothing in the paper's objective and would get every step
    expected, total = algorithm_1(
        p.weights.tolist(), p.step_seconds.tolist(), p.comm_seconds.tolist(), p.budget, alpha, beta
    )
    plan = printed(alpha, beta)(p)
    assert plan.steps.tolist() == expected
    assert plan.seconds == pytest.approx(total)
    # It stops at the first step that reaches the budget, which usually goes over it.
    assert p.budget <= plan.seconds + 1e-12
    assert plan.seconds < p.budget + p.step_seconds.max()


def test_printed_feeds_the_slowest_client() -> None:
    # The perverse case: equal weights, the slower the more steps, and 0.5 s over. alpha = beta = 1.
    p = problem([0.2] * 5, [0.5, 1, 2, 4, 8], budget=200.0)
    plan = printed()(p)
    assert plan.steps.tolist() == [1, 2, 5, 9, 19]
    assert plan.seconds == 200.5
    assert not within(p, plan.steps)
    # What the scheduler does with the same numbers: the faster, the more.
    steps = policy("greedy")(p).steps
    assert (np.diff(steps) <= 0).all() and steps[0] > steps[-1]


def test_printed_feeds_the_least_important_client() -> None:
    p = problem([0.6, 0.396, 0.002, 0.002], 0.1, budget=5.0, gain=1.0, drift=0.05)
    plan = printed()(p)
    assert plan.steps[2:].sum() > 0.9 * plan.steps.sum()
    assert policy("greedy")(p).steps[0] > policy("greedy")(p).steps[2]


def test_printed_and_fill_need_a_budget() -> None:
    p = problem([1.0], [1.0])
    for rule in (printed(), fill()):
        with pytest.raises(UserError, match="--budget"):
            rule(p)


@pytest.mark.parametrize("name", ["fixed", "fill", "speed", "printed"])
@settings(max_examples=30, deadline=None)
@given(p=problems(budget=True))
def test_every_rule_carries_the_bound_on_the_optimum(name: str, p: Problem) -> None:
    plan = policy(name)(p)
    assert certified(p, plan) >= best(p) * (1 - 1e-9)
    if within(p, plan.steps) and (plan.steps <= p.t_max).all():  # Algorithm 1 knows no t_max
        assert plan.objective <= plan.bound * (1 + 1e-9)


def test_fixed_keeps_t_max_and_says_so() -> None:
    p = problem([1.0, 1.0], [1.0, 1.0], t_max=[5, 50])
    plan = fixed(20)(p)
    assert plan.steps.tolist() == [5, 20]
    assert plan.why == ("cap", "fixed")


def test_fill_deadline() -> None:
    # floor((2 - b)/c): 19, 9 and, for the slow one, 1.
    p = problem([1.0] * 3, [0.1, 0.2, 1.5], [0.1, 0.2, 0.1], kind="makespan", budget=2.0, drift=1.0)
    assert fill()(p).steps.tolist() == [19, 9, 1]
    capped = replace(p, t_max=np.array([10, 10, 10]))
    assert fill()(capped).steps.tolist() == [10, 9, 1]


@settings(max_examples=60, deadline=None)
@given(p=problems(budget=True))
def test_fill_uses_one_deadline_and_cannot_use_a_later_one(p: Problem) -> None:
    plan = fill()(p)
    assert within(p, plan.steps)
    # The next client to finish a step would break a limit.
    ends = p.step_seconds * (plan.steps + 1) + p.comm_seconds
    open_ = np.flatnonzero(plan.steps < p.t_max)
    if open_.size:
        soonest = ends[open_].min() * (1 + 1e-9)
        more = np.clip((soonest - p.comm_seconds) / p.step_seconds + 1e-9, plan.steps, p.t_max).astype(int)
        assert not within(p, more)


def test_speed_lets_everyone_finish_with_the_fastest() -> None:
    # The fastest does 100 steps in 1 s; 50 and 20 steps fit the others; 0.1 s a step would be 10, so 20.
    p = problem([1.0] * 4, [0.01, 0.02, 0.05, 0.1])
    assert speed(100)(p).steps.tolist() == [100, 50, 20, 20]
    assert speed(100, least=1)(p).steps.tolist() == [100, 50, 20, 10]
    tight = replace(p, kind="makespan", budget=0.5)
    assert speed(100)(tight).steps.tolist() == [50, 25, 10, 5]


@settings(max_examples=60, deadline=None)
@given(p=problems(budget=True))
def test_speed_keeps_the_budget(p: Problem) -> None:
    assert within(p, speed(5)(p).steps)


def test_adacomm() -> None:
    p = problem([1.0], [1.0])
    assert adacomm(20, 2.0, 2.0)(p).steps[0] == 20
    assert adacomm(20, 2.0, 0.5)(p).steps[0] == 10  # sqrt(1/4)
    assert adacomm(20, 2.0, 0.5, previous=10)(p).steps[0] == 5  # not smaller by itself: halve
    assert adacomm(20, 2.0, 0.0)(p).steps[0] == 1
    with pytest.raises(UserError, match="loss0"):
        adacomm(20, 0.0, 1.0)(p)


def test_decaying() -> None:
    p = problem([1.0], [1.0])
    steps = [int(decaying(20, r)(p).steps[0]) for r in (1, 8, 27, 64, 10**6)]
    assert steps == [20, 10, 7, 5, 1]  # 20/1, /2, /3 rounded up, /4, /100 rounded up
    assert decaying(20, loss0=8.0, loss=1.0)(p).steps[0] == 10


def test_wang_against_the_formula() -> None:
    p = problem([0.5, 0.5], [0.02, 0.05], [0.5, 0.3], kind="makespan")
    lr, rho, beta, delta, left, phi = 0.05, 0.4, 2.0, 0.7, 100.0, 0.025

    def objective(tau: int) -> float:
        total = left * tau / max(0.02 * tau + 0.5, 0.05 * tau + 0.3)
        h = delta / beta * ((lr * beta + 1) ** tau - 1) - lr * delta * tau
        first = 1 / (2 * lr * phi * total)
        return first + math.sqrt(first**2 + rho * h / (lr * phi * tau)) + rho * h

    expected = min(range(1, 101), key=objective)
    assert 1 < expected < 100
    assert wang(lr, rho, beta, delta, left)(p).steps.tolist() == [expected] * 2
    # Homogeneous clients (no divergence): nothing speaks against long rounds but the search's end.
    assert wang(lr, rho, beta, 0.0, left)(p).steps.tolist() == [100, 100]
    # More divergence, fewer steps; and a round's budget holds.
    assert wang(lr, rho, beta, 10 * delta, left)(p).steps[0] < expected
    assert within(replace(p, budget=0.6), wang(lr, rho, beta, 0.0, left)(replace(p, budget=0.6)).steps)


def test_unknown_policies_and_settings_are_explained() -> None:
    with pytest.raises(UserError, match="did you mean 'greedy'"):
        policy("gredy")
    with pytest.raises(UserError, match="did you mean 'steps'"):
        policy("fixed", step=3)
    with pytest.raises(UserError, match="needs lr, rho"):
        policy("wang")(problem([1.0], [1.0]))
    with pytest.raises(UserError, match="from 1 to 1,000,000 for steps, not 0"):
        policy("fixed", steps=0)


def test_rules_respect_resources_too() -> None:
    joules = Resource("joules", np.array([1.0, 1.0]), np.zeros(2), 12.0)
    p = problem([1.0, 1.0], [0.1, 0.2], kind="makespan", budget=2.0, resources=[joules])
    assert fill()(p).steps.tolist() == [8, 4]  # 20 and 10 by time, a later deadline would need a 13th joule
