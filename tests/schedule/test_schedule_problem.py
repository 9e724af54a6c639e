"""A Problem is checked when it is built, and a plan explains itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from test_schedule_oracle import problems

from amsfl.core import UserError
from amsfl.schedule import Problem, Resource, fixed, policy, problem, rate, summary, table

exact, price = policy("exact"), policy("price")

pytestmark = pytest.mark.filterwarnings("error")


def fails(match: str, *args, **kwargs) -> None:
    with pytest.raises(UserError, match=match):
        problem(*args, **kwargs)


def test_a_sum_budget_too_small_names_the_shortfall_and_whom_to_drop() -> None:
    step = [0.1, 0.1, 0.1, 0.1, 0.9, 0.1, 0.1, 0.7, 0.9]
    fails(
        r"^Budget 2 s is below one step per client \(3.1 s\); raise --budget or drop clients 4, 8\.$",
        np.ones(9), step, budget=2.0,
    )  # fmt: skip
    # Dropping exactly these makes the rest feasible.
    rest = [s for i, s in enumerate(step) if i not in (4, 8)]
    assert problem(np.ones(7), rest, budget=2.0).budget == 2.0


def test_a_deadline_too_short_names_the_late_clients() -> None:
    fails(
        r"Budget 1 s is below one step per client \(1.6 s\); raise --budget or drop client Rome\.",
        [1, 1], [0.1, 0.6], [0.1, 1.0], budget=1.0, kind="makespan", clients=["Oslo", "Rome"],
    )  # fmt: skip
    fails("no client alone fits; raise --budget", [1.0], [2.0], budget=1.0)


def test_a_resource_too_small_is_named() -> None:
    joules = Resource("joules", np.array([2.0, 5.0]), np.array([1.0, 1.0]), 8.0)
    fails(r"Limit 8 joules is below one step per client \(9 joules\); raise it or drop client 1",
          [1, 1], [1, 1], resources=[joules])  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"gain": [1.0, np.nan]}, "Client b has gain nan"),
        ({"drift": [-1.0, 1.0]}, "Client a has drift -1"),
        ({"comm_seconds": [0.0, np.inf]}, "Client b has comm_seconds inf"),
        ({"step_seconds": [1.0, 0.0]}, "Client b has step_seconds 0, but it must be a finite number above 0"),
        ({"weights": [-0.1, 1.0]}, "Client a has weight -0.1"),
        ({"drift": [1.0, 1.0, 1.0]}, "drift has 3 entries for 2 clients"),
        ({"t_max": 0}, "t_max"),
        ({"curve": "liner"}, "did you mean 'linear'"),
        ({"kind": "total"}, "Unknown kind 'total'"),
        ({"budget": np.nan}, "budget is nan"),
        ({"clients": ["a"]}, "1 client names for 2 clients"),
    ],
)
def test_mistakes_name_client_and_column(columns: dict, sentence: str) -> None:
    good = {"weights": [1.0, 1.0], "step_seconds": [1.0, 1.0], "clients": ["a", "b"]}
    fails(sentence, **(good | columns))


def test_no_clients() -> None:
    fails("no clients", [], [], [], [])


def test_a_budget_met_exactly_is_met() -> None:
    # 3 x 0.1 is a little more than 0.3 in binary.
    assert price(problem([1.0] * 3, 0.1, budget=0.3)).steps.tolist() == [1, 1, 1]
    assert price(problem([1.0], 0.1, budget=0.3)).steps.tolist() == [3]
    assert price(problem([1.0], 0.1, budget=0.3, kind="makespan")).steps.tolist() == [3]


def test_defaults_without_readings_make_sense() -> None:
    # Equal gain 1 and drift 0.05: worth reaches zero after 20 steps, budget or not.
    p = problem([1.0, 1.0], [0.01, 0.02], 1.0)
    assert p.gain.tolist() == [1.0, 1.0] and p.drift.tolist() == [0.05, 0.05]
    steps = price(p).steps
    assert 20 >= steps[0] >= steps[1] > 1


def test_worthless_clients_do_one_step() -> None:
    for curve in ("linear", "geometric"):
        p = problem([0.0, 1.0, 1.0], 1.0, 1.0, [1.0, 0.0, 1.0], [0.1, 0.1, 0.1], curve=curve, budget=50.0)
        plan = price(p)
        assert plan.steps[:2].tolist() == [1, 1]
        assert plan.steps[2] > 1
        assert plan.why[:2] == ("drift", "drift")


def test_extreme_numbers_stay_finite() -> None:
    for curve in ("linear", "geometric"):
        p = problem(
            [1e-300, 1.0, 1e300], [1e-9, 1.0, 1e9], 0.0, [1e-300, 1e300, 1e-12], [1e300, 1e-300, 1e-12],
            curve=curve,
        )  # fmt: skip
        plan = price(p)
        assert np.isfinite([plan.objective, plan.bound, plan.price, plan.seconds]).all()


@settings(max_examples=50, deadline=None)
@given(problems())
def test_the_table_adds_up_to_the_plan(p: Problem) -> None:
    plan = price(p)
    rows = table(p, plan)
    assert [r["client"] for r in rows] == list(p.clients)
    assert sum(r["worth"] for r in rows) == pytest.approx(plan.objective)
    total = sum if p.kind == "sum" else max
    assert total(r["seconds"] for r in rows) == pytest.approx(plan.seconds)
    for r in rows:
        if r["why"] == "drift":
            assert r["next_worth"] <= 1e-12
        elif r["why"] == "rate":
            assert p.budget is None
            if p.kind == "sum" and not p.resources:
                assert r["next_worth"] / r["step_seconds"] <= rate(p, plan.steps) * (1 + 1e-9)
        elif r["why"] == "cap":
            assert r["steps"] == p.t_max[rows.index(r)]


def test_the_summary_is_plain() -> None:
    p = problem([1.0, 1.0], [1.0, 2.0], gain=[10.0, 9.0], drift=[2.0, 3.0], budget=7.0)
    text = summary(p, price(p))
    assert text.startswith("2 clients take 6 steps in 7 s of the 7 s allowed, one client after another.")
    assert "No other plan can gain more than 2.6% on this one." in text  # bound 40 against 39
    assert "No other plan gains more." in summary(p, exact(p))
    assert "That is 32 s over the budget of 7 s." in summary(p, fixed(13)(p))
    joules = Resource("joules", np.ones(2), np.zeros(2), 9.0)
    free = problem([1.0, 1.0], [1.0, 2.0], resources=[joules])
    assert "joules: " in summary(free, price(free)) and "a second" in summary(free, price(free))
