"""What `greedy` and `price` promise: limits kept, one step from the optimum, honest bounds, monotone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_schedule_oracle import best, certified, problems, random_problem, score

from amsfl.schedule import Problem, Resource, problem, within, worth
from amsfl.schedule import policy as named

exact, greedy, price = named("exact"), named("greedy"), named("price")

pytestmark = pytest.mark.filterwarnings("error")
QUICK = pytest.mark.parametrize("policy", [greedy, price])
ALL = pytest.mark.parametrize("policy", [greedy, price, exact])


def crowd(seed: int, n: int, **settings) -> Problem:
    """Too many clients and steps to try all plans."""
    rng = np.random.default_rng(seed)
    return problem(
        rng.dirichlet(np.ones(n)), rng.lognormal(-4, 1, n), rng.uniform(0, 0.1, n), rng.lognormal(0, 1, n),
        rng.lognormal(-2, 1, n), **settings,
    )  # fmt: skip


def with_budget(p: Problem, times: float) -> Problem:
    once = p.step_seconds + p.comm_seconds
    return replace(p, budget=float(once.sum() if p.kind == "sum" else once.max()) * times)


@QUICK
@settings(max_examples=80, deadline=None)
@given(p=problems())
def test_limits_are_kept_and_the_bound_is_one(policy, p: Problem) -> None:
    plan, optimum = policy(p), best(p)
    assert within(p, plan.steps)
    assert (plan.steps >= 1).all() and (plan.steps <= p.t_max).all()
    reached = score(p, plan)
    assert reached <= optimum * (1 + 1e-9)
    assert certified(p, plan) >= optimum * (1 - 1e-9)
    # The certified gap covers what is missing.
    missing = optimum - reached
    assert missing <= plan.gap / (1 if p.budget is not None else plan.seconds) + 1e-9 * optimum + 1e-15


@QUICK
@settings(max_examples=60, deadline=None)
@given(p=problems(kind="sum", budget=True, resources=0))
def test_within_one_step_of_the_optimum(policy, p: Problem) -> None:
    # The relaxed optimum is the plan up to the first step that did not fit, plus a piece of that step; and
    # that step is its client's next one in the final plan.
    plan = policy(p)
    assert best(p) - plan.objective <= max(0.0, float(worth(p, plan.steps).max())) + 1e-12


@QUICK
@settings(max_examples=60, deadline=None)
@given(p=problems(resources=0))
def test_optimal_without_a_budget_and_under_a_deadline(policy, p: Problem) -> None:
    p = p if p.kind == "makespan" else replace(p, budget=None)
    assert score(p, policy(p)) == pytest.approx(best(p), rel=1e-9, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from(["linear", "geometric"]), st.floats(1, 9))
def test_price_is_the_greedy_plan(seed: int, n: int, curve: str, times: float) -> None:
    for p in (
        with_budget(crowd(seed, n, curve=curve, t_max=60), times),
        crowd(seed, n, curve=curve, t_max=60),
        crowd(seed, n, curve=curve, kind="makespan", t_max=60),
    ):
        a, b = price(p), greedy(p)
        assert a.objective == pytest.approx(b.objective, rel=1e-12)
        assert a.seconds == pytest.approx(b.seconds, rel=1e-12)
        assert a.bound == pytest.approx(b.bound, rel=1e-9)


@ALL
@settings(max_examples=60, deadline=None)
@given(p=problems(budget=True, resources=0), more=st.floats(1.0, 2.0))
def test_more_budget_never_lowers_the_objective(policy, p: Problem, more: float) -> None:
    larger = replace(p, budget=p.budget * more)
    assert policy(larger).objective >= policy(p).objective - 1e-12


@settings(max_examples=40, deadline=None)
@given(p=problems(budget=True, resources=2), more=st.floats(1.0, 2.0))
def test_more_of_any_resource_never_lowers_the_optimum(p: Problem, more: float) -> None:
    # A theorem for `exact` only: with several limits the ranking of steps moves with them.
    first, second = p.resources
    larger = replace(p, resources=(first, replace(second, limit=second.limit * more)))
    assert exact(larger).objective >= exact(p).objective - 1e-9 * exact(p).objective


@ALL
@settings(max_examples=60, deadline=None)
@given(
    p=problems(resources=0),
    better=st.sampled_from(["step_seconds", "weights", "gain", "drift"]),
    share=st.floats(0.1, 0.95),
)
def test_cheaper_or_more_useful_clients_never_get_fewer_steps(
    policy, p: Problem, better: str, share: float
) -> None:
    # A twin of the first client, all else equal, is put beside it with one column made worse.
    index = np.array([0, *range(p.weights.size)])
    columns = ("weights", "step_seconds", "comm_seconds", "gain", "drift", "t_max")
    twin = {name: getattr(p, name)[index].copy() for name in columns}
    twin[better][1] *= share if better in ("weights", "gain") else 1 / share
    pair = replace(p, **twin, clients=tuple("abcdef"[: index.size]))
    if p.budget is not None:
        once = pair.step_seconds + pair.comm_seconds
        need = float(once.sum() if pair.kind == "sum" else once.max())
        pair = replace(pair, budget=max(p.budget, need * 1.3))
    steps = policy(pair).steps
    assert steps[0] >= steps[1]


@QUICK
def test_further_resources_bind_beside_the_seconds(policy) -> None:
    # One client, 1 s and 2 J a step, flat worth. 10 s allow 10 steps, 7 J only 3.
    joules = Resource("joules", np.array([2.0]), np.array([0.0]), 7.0)
    p = problem([1.0], [1.0], gain=1.0, drift=0.0, budget=10.0, resources=[joules])
    assert policy(p).steps.tolist() == [3]
    assert policy(replace(p, kind="makespan")).steps.tolist() == [3]
    assert policy(replace(p, budget=None, comm_seconds=np.array([1.0]))).steps.tolist() == [3]


def test_hand_made_plan_and_its_price() -> None:
    # Worth 10, 8, 6, 4, 2 at 1 s a step and 9, 6, 3 at 2 s; after the first steps 8, 6, 4, 2 and 3, 1.5 a
    # second. 7 s leave 4: three more for the first client, then the step of 3 a second needs 2 s, has 1.
    p = problem([1.0, 1.0], [1.0, 2.0], gain=[10.0, 9.0], drift=[2.0, 3.0], budget=7.0)
    plan = price(p)
    assert plan.steps.tolist() == [5, 1]  # the fifth step, worth 2, takes the last second
    assert plan.why == ("drift", "budget")
    assert plan.price == 3.0
    assert plan.bound == pytest.approx(10 + 8 + 6 + 4 + 9 + 3 * 1.0)
    assert plan.objective == 10 + 8 + 6 + 4 + 2 + 9
    assert greedy(p).steps.tolist() == [5, 1]
    assert exact(p).objective == 10 + 8 + 6 + 4 + 2 + 9


def test_why_a_client_stops() -> None:
    # Worth 4, 1 | flat 5, capped at 3 | 2, 1.5 ...; no budget, communication 1 s each.
    p = problem([1.0] * 3, [1.0] * 3, [1.0] * 3, [4.0, 5.0, 2.0], [4.0, 0.0, 0.5], t_max=[9, 3, 9])
    plan = price(p)
    assert plan.why == ("drift", "cap", "rate")
    assert plan.steps.tolist() == [1, 3, 1]
    assert plan.price == pytest.approx((4 + 15 + 2) / (5 + 3))


def test_a_hundred_thousand_clients() -> None:
    p = with_budget(crowd(1, 100_000, curve="geometric"), 3.0)
    plan = price(p)
    assert within(p, plan.steps)
    assert plan.gap <= 1e-6 * plan.objective
    free = price(replace(p, budget=None))
    assert free.gap <= 1e-12 * free.objective


@pytest.mark.slow
def test_five_thousand_random_problems() -> None:
    rng = np.random.default_rng(7)
    for _ in range(5000):
        p = random_problem(rng)
        optimum = best(p)
        for policy in (greedy, price):
            plan = policy(p)
            assert within(p, plan.steps) and (plan.steps >= 1).all()
            assert score(p, plan) <= optimum * (1 + 1e-9) + 1e-15
            assert certified(p, plan) >= optimum * (1 - 1e-9)
            if p.kind == "sum" and p.budget is not None and not p.resources:
                step = max(0.0, float(worth(p, plan.steps).max()))
                assert optimum - plan.objective <= step + 1e-12


def test_fair_puts_a_floor_under_the_plan():
    """A slow client that planning by worth leaves with few steps has half of the most."""
    asked = problem([1, 1, 1], [0.01, 0.01, 0.2], 1.0, [1, 1, 1], [0.05] * 3, kind="makespan")
    plain, fair = price(asked), named("fair", least=0.5)(asked)
    assert plain.steps.min() < 0.5 * plain.steps.max()
    assert fair.steps.min() >= 0.5 * plain.steps.max() and (fair.steps >= plain.steps).all()
    tight = replace(asked, budget=plain.seconds)
    assert within(tight, named("fair")(tight).steps)
    assert (named("fair", least=0.0)(asked).steps == plain.steps).all()
