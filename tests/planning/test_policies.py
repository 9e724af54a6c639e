"""Rules that do not look at worth: Algorithm 1 to the letter, fixed, fill, speed; problems in words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_price import problems

from amsfl.core import UserError
from amsfl.planning import Problem, fill, policy, printed, problem, speed

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


@given(problems(clock="sum", budget=True), st.floats(0.01, 5), st.floats(0.01, 5))
def test_printed_is_algorithm_1(p: Problem, alpha: float, beta: float) -> None:
    if (p.weights == 0).any():
        return  # a client of no weight costs nothing in the paper's objective and would get every step
    expected, total = algorithm_1(
        p.weights.tolist(), p.step_seconds.tolist(), p.comm_seconds.tolist(), p.budget, alpha, beta
    )
    plan = printed(alpha, beta)(p)
    assert plan.steps.tolist() == expected and plan.seconds == pytest.approx(total)
    # It stops at the first step that reaches the budget, which usually goes over it.
    assert p.budget - 1e-12 <= plan.seconds < p.budget + p.step_seconds.max()


def test_printed_feeds_the_slowest_and_the_least_important() -> None:
    """The perverse case: equal weights, the slower the more steps, and 0.5 s over. alpha = beta = 1."""
    p = problem([0.2] * 5, [0.5, 1, 2, 4, 8], budget=200.0)
    plan = printed()(p)
    assert plan.steps.tolist() == [1, 2, 5, 9, 19] and plan.seconds == 200.5 and not p.fits(plan.steps)
    steps = policy("price")(p).steps  # the faster, the more
    assert (np.diff(steps) <= 0).all() and steps[0] > steps[-1]
    light = printed()(problem([0.6, 0.396, 0.002, 0.002], 0.1, budget=5.0))
    assert light.steps[2:].sum() > 0.9 * light.steps.sum()


def test_fill_by_hand() -> None:
    """floor((2 - b)/c): 19, 9 and, for the slow one, 1."""
    p = problem([1.0] * 3, [0.1, 0.2, 1.5], [0.1, 0.2, 0.1], clock="makespan", budget=2.0)
    assert fill()(p).steps.tolist() == [19, 9, 1]
    assert fill()(p._replace(most=np.array([10, 10, 10]))).steps.tolist() == [10, 9, 1]


@given(p=problems(budget=True))
def test_fill_and_speed_keep_the_budget_and_fill_cannot_use_a_later_deadline(p: Problem) -> None:
    assert p.fits(speed(5)(p).steps)
    steps = fill()(p).steps
    assert p.fits(steps)
    ends = p.step_seconds * (steps + 1) + p.comm_seconds
    if (steps < p.most).any():  # the next client to finish a step would break the limit
        soonest = ends[steps < p.most].min() * (1 + 1e-9)
        more = np.clip((soonest - p.comm_seconds) / p.step_seconds + 1e-9, steps, p.most).astype(int)
        assert not p.fits(more)


def test_speed_lets_everyone_finish_with_the_fastest() -> None:
    """The fastest does 100 steps in 1 s; 50 and 20 steps fit the others; 0.1 s a step would be 10, so 20."""
    p = problem([1.0] * 4, [0.01, 0.02, 0.05, 0.1])
    assert speed(100)(p).steps.tolist() == [100, 50, 20, 20]
    assert policy("speed:100/1")(p).steps.tolist() == [100, 50, 20, 10]
    assert speed(100)(p._replace(clock="makespan", budget=0.5)).steps.tolist() == [50, 25, 10, 5]


def test_unknown_policies_and_settings_are_explained() -> None:
    with pytest.raises(UserError, match="did you mean 'price'"):
        policy("prize")
    with pytest.raises(UserError, match="did you mean 'steps'"):
        policy("fixed", step=3)
    for rule in (printed(), fill()):
        with pytest.raises(UserError, match="--budget"):
            rule(problem([1.0], [1.0]))


def fails(match: str, *args, **kwargs) -> None:
    with pytest.raises(UserError, match=match):
        problem(*args, **kwargs)


def test_a_budget_too_small_names_the_shortfall_and_whom_to_drop() -> None:
    step = [0.1, 0.1, 0.1, 0.1, 0.9, 0.1, 0.1, 0.7, 0.9]
    fails(
        r"^Budget 2 s is below one step per client \(3.1 s\); raise --budget or drop clients 4, 8\.$",
        np.ones(9), step, budget=2.0,
    )  # fmt: skip
    # Dropping exactly these makes the rest feasible.
    rest = [s for i, s in enumerate(step) if i not in (4, 8)]
    assert problem(np.ones(7), rest, budget=2.0).budget == 2.0
    fails(
        r"Budget 1 s is below one step per client \(1.6 s\); raise --budget or drop client Rome\.",
        [1, 1], [0.1, 0.6], [0.1, 1.0], budget=1.0, clock="makespan", clients=["Oslo", "Rome"],
    )  # fmt: skip
    fails("no client alone fits; raise --budget", [1.0], [2.0], budget=1.0)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"gain": [1.0, np.nan]}, "Client b has gain nan"),
        ({"fading": [-1.0, 1.0]}, "Client a has fading -1"),
        ({"comm_seconds": [0.0, np.inf]}, "Client b has comm_seconds inf"),
        ({"step_seconds": [1.0, 0.0]}, "Client b has step_seconds 0, but it must be a finite number above 0"),
        ({"weights": [-0.1, 1.0]}, "Client a has weight -0.1"),
        ({"fading": [1.0, 1.0, 1.0]}, "names for 3 clients"),
        ({"most": 0.5}, "The most steps of a client are 0; give a number from 1 to 100,000"),
        ({"clock": "total"}, "Unknown clock 'total'"),
        ({"budget": np.nan}, "budget is nan"),
        ({"clients": ["a"]}, "1 client names for 2 clients"),
    ],
)
def test_mistakes_name_client_and_column(columns: dict, sentence: str) -> None:
    good = {"weights": [1.0, 1.0], "step_seconds": [1.0, 1.0], "clients": ["a", "b"]}
    fails(sentence, **(good | columns))
    fails("no clients", [], [], [], [], [])


@given(problems())
def test_why_says_what_stopped_each_client(p: Problem) -> None:
    plan = policy("price")(p)
    following = p.step_worth(plan.steps) / p.step_seconds
    for step, most, why, worth in zip(plan.steps, p.most, plan.why, following, strict=True):
        assert (why == "cap") == (step == most)
        if why == "rate" and p.clock == "sum":
            assert worth <= p.worth(plan.steps) / plan.seconds * (1 + 1e-9)
