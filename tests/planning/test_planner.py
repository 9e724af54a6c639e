"""Planners: who does how many steps, from a memory that JSON can hold."""

import json

import numpy as np
import pytest

from amsfl import clock, combine, drift, methods, planning
from amsfl.core import Reading, UserError
from amsfl.planning.planner import PlannerMemory, planner, policy_of
from amsfl.settings.definitions import PLANNED_STEPS_AT_MOST
from amsfl.simulation import make_config

WEIGHTS = np.array([0.4, 0.1, 0.2, 0.2, 0.1])
COSTS = clock.Costs(np.array([0.01, 0.015, 0.02, 0.012, 0.03]), np.array([0.05, 0.05, 0.1, 0.05, 0.15]))
ALL = np.arange(5)


def reading(size: int = 5, seed: int = 0) -> Reading:
    """Plausible numbers: gradients agree with the last global step and shrink along it."""
    rng = np.random.default_rng(seed)
    square = rng.uniform(1, 2, size)
    return Reading(
        rng.uniform(0.5, 1, size),
        square,
        0.3 * square,
        0.01 * square,
        -0.3 * square,
        -0.1 * square,
        -rng.uniform(0.5, 1, size),
        rng.uniform(0.1, 0.3, size),
        rng.uniform(0.1, 0.3, size),
        np.full(size, 0.8 - 0.01 * seed),
        np.ones(size),
        np.zeros(size),
        rng.uniform(0.2, 0.4, size),
    )


def made_for(settings, weights=WEIGHTS):
    config = make_config(settings)
    method = methods.make(config.method, config.options)
    return planner(config, method, policy_of(config, method), weights)


def after(rounds: int, cohort=ALL, **settings):
    """A planner, its memory after some rounds, and its next decision."""
    made = made_for(settings)
    memory = made.start()
    for number in range(rounds):
        decision = made.decide(memory, number, cohort, COSTS)
        memory = made.learn(memory, cohort, decision, reading(len(cohort), number))
    return made, memory, made.decide(memory, rounds, cohort, COSTS)


@pytest.mark.parametrize(
    ("settings", "policy"),
    [
        ({"method": "fedavg"}, "fixed"),
        ({"method": "scaffold"}, "fixed"),
        ({"method": "amsfl"}, "price"),
        ({"method": "amsfl-steps"}, "price"),
        ({"method": "amsfl-paper"}, "printed"),
        ({"method": "fedavg", "policy": "speed"}, "speed"),
        ({"method": "amsfl", "policy": "fixed"}, "fixed"),
    ],
)
def test_who_chooses_the_steps(settings, policy):
    config = make_config(settings)
    assert policy_of(config, methods.make(config.method)).name == policy


@pytest.mark.parametrize("policy", planning.names())
@pytest.mark.parametrize("kind", ["sum", "makespan"])
def test_every_policy_plans_and_its_memory_survives_json(policy, kind):
    """The decision after a round trip through JSON is the same, to the bit; steps are whole, 1 at least."""
    cohort = np.array([0, 2, 3])
    made, memory, decision = after(3, cohort, policy=policy, clock=kind, seconds=50.0)
    back = PlannerMemory.load(json.loads(json.dumps(memory.dump(), allow_nan=False)))
    again = made.decide(back, 3, cohort, COSTS)
    np.testing.assert_array_equal(again.steps, decision.steps)
    assert (again.lr, again.predicted_seconds) == (decision.lr, decision.predicted_seconds)
    assert decision.steps.shape == (3,) and decision.steps.dtype.kind == "i" and decision.steps.min() >= 1
    took = clock.round_seconds(COSTS, cohort, decision.steps)[kind]
    assert decision.predicted_seconds == pytest.approx(took)
    if planning.policy(policy).readings:
        assert decision.steps.max() <= PLANNED_STEPS_AT_MOST
        assert set(decision.explain) >= {"gain", "fading", "why", "weights"}


@pytest.mark.parametrize("policy", ["price", "fill"])
@pytest.mark.parametrize("kind", ["sum", "makespan"])
def test_decisions_keep_to_the_budget(policy, kind):
    for rounds in (0, 3):
        *_, decision = after(rounds, policy=policy, clock=kind, budget=1.2)
        assert clock.round_seconds(COSTS, ALL, decision.steps)[kind] <= 1.2 * (1 + 1e-6)


def test_a_budget_below_one_step_each_is_a_sentence():
    with pytest.raises(UserError, match="one step"):
        after(0, method="amsfl", budget=0.1)


def test_rivals_are_told_what_the_run_knows():
    """fixed: --steps for all. fill without a budget: as long as a round of FedAvg with --steps."""
    *_, decision = after(0, method="fedavg", steps=7)
    assert decision.steps.tolist() == [7] * 5 and decision.lr == 0.05
    fedavg_round = clock.round_seconds(COSTS, ALL, [20] * 5)["sum"]
    *_, decision = after(0, method="fedavg", policy="fill", steps=20)
    assert fedavg_round - COSTS.step_seconds.max() <= decision.predicted_seconds <= fedavg_round * (1 + 1e-9)


def test_the_users_own_policy_options_go_first():
    *_, decision = after(0, method="fedavg", policy="fixed", policy_options={"steps": 3})
    assert decision.steps.tolist() == [3] * 5
    with pytest.raises(UserError, match=r"no setting 'stps' \(did you mean 'steps'\?\)"):
        after(0, method="fedavg", policy="fixed", policy_options={"stps": 3})


def test_only_amsfl_in_full_sets_its_own_learning_rate():
    _, memory, decision = after(3, method="amsfl", lr=0.05)
    expected = drift.opened(drift.Rate(), reading(5, 0), WEIGHTS).lr
    assert memory.rate.lr == pytest.approx(expected) and decision.lr == memory.rate.lr != 0.05
    for name in ("amsfl-steps", "amsfl-paper"):
        *_, decision = after(3, method=name, lr=0.05)
        assert decision.lr == 0.05


def test_a_client_that_counts_more_and_costs_less_gets_more():
    """Equal readings: ordered by weight per second of a step."""
    made = made_for({"method": "amsfl"})
    steps = made.decide(made.start(), 0, ALL, COSTS).steps
    value = WEIGHTS / COSTS.step_seconds
    assert all(a >= b for a, b in zip(steps[np.argsort(-value)], steps[np.argsort(-value)][1:], strict=False))
    assert steps[0] > steps[4]


def test_without_polyak_strides_the_learning_rate_is_the_user_s():
    """No cap, "not known yet", is for clients that measure their own first stride."""
    weights = np.full(3, 1 / 3)
    for options, expected in (({}, None), ({"polyak": 0.0}, 0.3)):
        plan = made_for({"method": "amsfl", "lr": 0.3, "options": options}, weights)
        costs = clock.Costs(np.full(3, 0.01), np.full(3, 0.1))
        assert plan.decide(plan.start(), 0, np.arange(3), costs).lr == expected


def test_nobody_passes_over_its_rows_more_than_ten_times():
    """100, 5 and 100,000 rows in batches of 32: at most 10 * 100 / 32 = 31 steps, 2, and T_MAX.

    A policy without readings does as it is told.
    """
    rows, weights, cohort = np.array([100, 5, 100_000]), np.array([0.3, 0.3, 0.4]), np.arange(3)
    dear = clock.Costs(np.full(3, 0.001), np.full(3, 10.0))
    for name, most in (("price", [31, 2, PLANNED_STEPS_AT_MOST]), ("fixed", [20, 20, 20])):
        config = make_config({"method": "amsfl", "batch": 32, "policy": name})
        method = methods.make("amsfl")
        made = planner(config, method, policy_of(config, method), weights, rows)
        assert made.decide(made.start(), 0, cohort, dear).steps.tolist() == most


@pytest.mark.parametrize(("rule", "branched", "steps"), [("", 0, 3), ("median", 0, 31), ("median", 7, 3)])
def test_a_rule_does_not_let_clients_cut_passes_by_lies(rule, branched, steps):
    """A tenth of 31 steps where the judge says so. Under a rule some may lie to it: in a branch alone."""
    config = make_config({"method": "amsfl", "batch": 32})
    method = methods.make("amsfl")._replace(combine=combine.make(rule))
    made = planner(config, method, policy_of(config, method), np.full(3, 1 / 3), np.full(3, 100))
    memory = made.start()
    memory = memory._replace(judge=memory.judge._replace(passes=0.1, branched=branched))
    dear = clock.Costs(np.full(3, 0.001), np.full(3, 10.0))
    assert made.decide(memory, 0, np.arange(3), dear).steps.tolist() == [steps] * 3
