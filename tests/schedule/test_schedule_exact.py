"""`exact` against exhaustive search: the same optimum, with and without budgets and resources."""

import numpy as np
import pytest
from hypothesis import given, settings
from test_schedule_oracle import best, problems, random_problem, score

from amsfl.schedule import Problem, policy, problem, within

exact, price = policy("exact"), policy("price")

pytestmark = pytest.mark.filterwarnings("error")


def holds(p: Problem) -> None:
    plan, optimum = exact(p), best(p)
    assert within(p, plan.steps)
    assert (plan.steps >= 1).all() and (plan.steps <= p.t_max).all()
    assert score(p, plan) == pytest.approx(optimum, rel=1e-9, abs=1e-12)
    assert plan.gap <= 1e-9 * max(plan.bound, 1e-3)


@settings(max_examples=60, deadline=None)
@given(problems(kind="sum", budget=True, resources=0))
def test_sum_budget(p: Problem) -> None:
    holds(p)


@settings(max_examples=40, deadline=None)
@given(problems(kind="makespan", budget=True))
def test_makespan_budget(p: Problem) -> None:
    holds(p)


@settings(max_examples=60, deadline=None)
@given(problems(budget=True, resources=2))
def test_several_resources(p: Problem) -> None:
    holds(p)


@settings(max_examples=80, deadline=None)
@given(problems(budget=False))
def test_no_budget_maximises_gain_per_second(p: Problem) -> None:
    holds(p)


@pytest.mark.slow
def test_five_thousand_random_problems() -> None:
    rng = np.random.default_rng(20250521)
    for _ in range(5000):
        holds(random_problem(rng))


def test_improves_on_price_where_there_is_something_to_improve() -> None:
    # Worth per second 1.0, 0.9, 0.9; room 2 s after the first steps. By price the first client's 1.1 s
    # fit and nothing else does (1.1); the other two fill the 2 s exactly (1.8).
    p = problem([1.0] * 3, [1.1, 1.0, 1.0], gain=[1.1, 0.9, 0.9], drift=0.0, t_max=2, budget=5.1)
    assert price(p).steps.tolist() == [2, 1, 1]
    assert exact(p).steps.tolist() == [1, 2, 2]
    assert exact(p).objective == pytest.approx(2.9 + 1.8)


def test_a_hundred_clients() -> None:
    rng = np.random.default_rng(3)
    n = 100
    p = problem(
        rng.dirichlet(np.ones(n)), rng.lognormal(-4, 1, n), rng.uniform(0, 0.1, n), rng.lognormal(0, 1, n),
        rng.lognormal(-2, 1, n), budget=60.0,
    )  # fmt: skip
    plan, close = exact(p), price(p)
    assert within(p, plan.steps)
    assert close.objective <= plan.objective * (1 + 1e-12) <= plan.bound * (1 + 2e-12)
    assert plan.bound <= close.bound * (1 + 1e-12)
    assert plan.gap <= 1e-9 * plan.bound
