"""Planners: who does how many steps, at which rate, from a memory that JSON can hold."""

import json

import numpy as np
import pytest

from amsfl import clock, combine, methods, planning
from amsfl.core import Reading, Verdict
from amsfl.core.algorithm import NUMBERS
from amsfl.planning.planner import (
    Decision,
    PlannerMemory,
    decide,
    learn,
    learns,
    planner_context,
    policy_of,
    start,
)
from amsfl.simulation import make_config

WEIGHTS = np.array([0.4, 0.1, 0.2, 0.2, 0.1])
COSTS = clock.Costs(np.array([0.01, 0.015, 0.02, 0.012, 0.03]), np.array([0.05, 0.05, 0.1, 0.05, 0.15]))
DEAR = clock.Costs(np.full(3, 0.001), np.full(3, 10.0))  # links so slow that all steps allowed are worth it
ALL = np.arange(5)


def reading(size: int = 5, seed: int = 0) -> Reading:
    """Plausible numbers: gradients shrink, uploads agree with the last global step, losses fall."""
    rng = np.random.default_rng(seed)
    square, ones = rng.uniform(1, 2, size), np.ones(size)
    held = (0.8 - 0.01 * seed) * ones
    along = rng.uniform(0.1, 0.3, size)
    return Reading(ones, square, -0.3 * square, 0.3 * square, held, ones, 0.01 * square, along)


def context_of(rule="", weights=WEIGHTS, rows=np.inf, costs=COSTS, **settings):
    config = make_config(settings)
    method = methods.make(config.method, config.options)
    policy = policy_of(config, method)
    return planner_context(config, method, policy, weights, costs, rows, rule=combine.make(rule))


def after(rounds: int, cohort=ALL, **settings):
    """A context, its memory after some rounds, and its next decision."""
    context = context_of(**settings)
    memory = start(context)
    for number in range(rounds):
        decision = decide(context, memory, number, cohort)
        memory = learn(context, memory, cohort, decision, reading(len(cohort), number))
    return context, memory, decide(context, memory, rounds, cohort)


@pytest.mark.parametrize("policy", planning.POLICIES.table)
@pytest.mark.parametrize("kind", ["sum", "makespan"])
def test_every_policy_plans_and_its_memory_survives_json(policy, kind):
    """The decision after a round trip through JSON is the same, to the bit; steps are whole, 1 at least."""
    cohort = np.array([0, 2, 3])
    context, memory, decision = after(3, cohort, policy=policy, clock=kind, seconds=50.0)
    back = PlannerMemory.load(json.loads(json.dumps(memory.dump(), allow_nan=False)))
    again = decide(context, back, 3, cohort)
    np.testing.assert_array_equal(again.steps, decision.steps)
    assert (again.lr, again.predicted_seconds) == (decision.lr, decision.predicted_seconds)
    assert decision.steps.shape == (3,) and decision.steps.dtype.kind == "i" and decision.steps.min() >= 1
    took = clock.round_seconds(COSTS, cohort, decision.steps)[kind]
    assert decision.predicted_seconds == pytest.approx(took)
    if planning.policy(policy).readings:
        assert decision.steps.max() <= NUMBERS.steps
        assert set(decision.explain) >= {"gain", "fading", "why", "weights"}


@pytest.mark.parametrize("policy", ["price", "fill"])
@pytest.mark.parametrize("kind", ["sum", "makespan"])
def test_decisions_keep_to_the_budget(policy, kind):
    for rounds in (0, 3):
        *_, decision = after(rounds, policy=policy, clock=kind, budget=1.2)
        assert clock.round_seconds(COSTS, ALL, decision.steps)[kind] <= 1.2 * (1 + 1e-6)


def test_rivals_are_told_what_the_run_knows():
    """fixed: --steps for all. fill without a budget: as long as a round of FedAvg with --steps."""
    *_, decision = after(0, method="fedavg", steps=7)
    assert decision.steps.tolist() == [7] * 5 and decision.lr == 0.05
    fedavg_round = clock.round_seconds(COSTS, ALL, [20] * 5)["sum"]
    *_, decision = after(0, method="fedavg", policy="fill", steps=20)
    assert fedavg_round - COSTS.step_seconds.max() <= decision.predicted_seconds <= fedavg_round * (1 + 1e-9)


def test_the_rate_is_the_methods_or_the_users():
    for name, own in (("amsfl", 0.5), ("amsfl-steps", 0.05), ("fedavg", 0.05)):
        assert after(0, method=name)[2].lr == own and after(0, method=name, lr=0.3)[2].lr == 0.3


def test_the_rate_cools_to_a_tenth_over_the_run():
    """1 - r/R by rounds; by seconds, those that its plans took; whichever is further."""
    context = context_of(method="amsfl", rounds=20)
    memory = start(context)
    rates = [decide(context, memory, r, ALL).lr for r in (0, 5, 10, 18, 19, 30)]
    assert rates == pytest.approx([0.5, 0.375, 0.25, 0.05, 0.05, 0.05])
    timed = context_of(method="amsfl", rounds=20, seconds=100.0)
    half = start(timed)._replace(planned_seconds=50.0)
    assert decide(timed, half, 5, ALL).lr == pytest.approx(0.25)
    decayed = after(3, method="amsfl-steps", lr=0.4, lr_decay=0.5)[2]
    assert decayed.lr == pytest.approx(0.05)  # no cooling but the user's own


def test_learning_adds_up_seconds_and_follows_the_judge():
    """Better, then worse by 20% twice: back with half of the rate. Not finite: a quarter."""
    context = context_of(method="amsfl")
    memory, done = start(context), Decision(np.full(5, 4), 0.5, 2.0, {})

    def learnt(memory, **fields):
        return learn(context, memory, ALL, done, reading()._replace(**fields))

    first = learnt(memory)
    assert (first.lr, first.planned_seconds, first.judge.verdict) == (0.5, 2.0, Verdict.BETTER)
    worse = reading().held_loss * np.array([1.2, 1.21, 1.2, 1.19, 1.2])
    twice = learnt(learnt(first, held_loss=worse), held_loss=worse)
    assert (twice.lr, twice.judge.verdict, twice.judge.passes) == (0.25, Verdict.BACK, 0.25)
    broken = learnt(first, loss=np.full(5, np.nan))
    assert (broken.lr, broken.judge.verdict) == (0.125, Verdict.BACK)
    np.testing.assert_array_equal(broken.estimates.gain, first.estimates.gain)
    fedavg = context_of(method="fedavg")
    assert learns(context.method, context.policy) and not learns(fedavg.method, fedavg.policy)


def test_a_client_that_counts_more_and_costs_less_gets_more():
    """Equal readings: ordered by weight per second of a step."""
    *_, decision = after(0, method="amsfl")
    ordered = decision.steps[np.argsort(-WEIGHTS / COSTS.step_seconds)]
    assert (np.diff(ordered) <= 0).all() and ordered[0] > ordered[-1]


@pytest.mark.parametrize(("passes", "most"), [(1.0, [7, 1, 64]), (0.5, [4, 1, 64]), (0.1, [1, 1, 64])])
def test_passes_over_rows_limit_planned_steps(passes, most):
    """2 passes over 100 rows in batches of 32 are 6.25 steps, begun ones counted; 1 at least, 64 at most."""
    third = np.full(3, 1 / 3)
    context = context_of("", third, np.array([100, 5, 100_000]), DEAR, method="amsfl", batch=32)
    memory = start(context)
    memory = memory._replace(judge=memory.judge._replace(passes=passes))
    assert decide(context, memory, 0, np.arange(3)).steps.tolist() == most
    told = context_of("", third, 5, DEAR, method="amsfl", policy="fixed")
    assert decide(told, start(told), 0, np.arange(3)).steps.tolist() == [20] * 3


def test_privacy_limits_steps_and_passes_do_not():
    """Noise keeps everybody from learning rows by heart; what epsilon allows is a promise."""
    context = context_of("", np.full(3, 1 / 3), 5, DEAR, method="amsfl")
    decision = decide(context, start(context), 0, np.arange(3), np.array([1, 30, 1000]))
    assert decision.steps.tolist() == [1, 30, 64] and decision.explain["why"] == ["epsilon", "epsilon", "cap"]


def test_under_a_rule_nobody_is_planned_half_as_many_again_as_the_mean():
    """One of eight says that its steps are worth a thousandfold."""
    size, costs = 8, clock.Costs(np.full(8, 0.01), np.full(8, 0.05))
    shares = {}
    for rule in ("", "median"):
        context = context_of(rule, np.full(size, 1 / size), costs=costs, method="amsfl", clock="sum")
        memory = start(context)
        gain = np.ones(size) + 1e3 * (np.arange(size) == 0)
        memory = memory._replace(estimates=planning.Estimates(gain, np.ones(size)))
        steps = decide(context, memory, 0, np.arange(size)).steps
        shares[rule] = steps[0] / steps.mean()
    assert shares[""] > 3 and shares["median"] <= 1.5
