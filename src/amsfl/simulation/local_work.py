"""Do the planned work: the clients' local steps on the engine, and the server's move with their uploads.

Whole cohorts that began from the newest model go through the engine's own round, which sums as it goes.
Whatever else is under way is computed together and settled trial by trial (stale_work.py).
"""

from typing import Any, NamedTuple

import numpy as np

from amsfl.core import Reading
from amsfl.engines import Orders, State
from amsfl.planning.context import RoundReadings
from amsfl.planning.learning import learn
from amsfl.simulation import dispatch, stale_work
from amsfl.simulation.plan_round import RoundPlan, can_look_ahead
from amsfl.simulation.setup import RunSetup


class RoundResult(NamedTuple):
    """What a round came to besides the state; all but `deltas` by trial."""

    readings: dict[int, Reading]
    weighed: dict[int, dict[str, Any]]  # how much each of the cohort counts after each link of a rule
    deltas: Any = None  # of clients, where they are kept


def run_rounds(setup: RunSetup, state: State, plans: list[RoundPlan]) -> tuple[Any, list[RoundResult]]:
    """The states after each of the rounds, as the engine keeps several (`state_after`), and their results."""
    if can_look_ahead(setup):
        first = next(iter(plans[0].values())).version
        orders = [make_orders(setup, plan, first + nth) for nth, plan in enumerate(plans)]
        states, outcomes = setup.engine.span(state, orders, first, keep=setup.config.local_accuracy)
        return states, [_by_trial(outcome, plan) for outcome, plan in zip(outcomes, plans, strict=True)]
    state, result = _run_round(setup, state, plans[0])
    return state, [result]


def state_after(setup: RunSetup, states: Any, nth: int) -> State:
    """The state after one of the rounds of `run_rounds`."""
    return setup.engine.at(states, nth) if can_look_ahead(setup) else states


def _run_round(setup: RunSetup, state: State, plan: RoundPlan) -> tuple[State, RoundResult]:
    for index, each in plan.items():
        if len(each.after.queue.jobs) or len(each.after.queue.arrived):
            stale_work.remember(setup, state, index, each)
    whole = {index: each for index, each in plan.items() if each.move.whole}
    others = {index: each for index, each in plan.items() if index not in whole}
    result = RoundResult({}, {})
    if others:
        state = stale_work.on_host(state)
        stale_work.compute(setup, state, others)
        for index, each in others.items():
            result.readings[index], result.weighed[index] = stale_work.settle(setup, state, index, each)
    if whole:
        number = next(iter(whole.values())).version
        if isinstance(state.anchor, np.ndarray):
            state = setup.engine.from_host(state)
        orders = make_orders(setup, whole, number)
        state, outcome = setup.engine.round(state, orders, number, keep=setup.config.local_accuracy)
        own = _by_trial(outcome, whole)
        result = RoundResult(result.readings | own.readings, result.weighed | own.weighed, own.deltas)
    return state, result


def _by_trial(outcome: Any, plan: RoundPlan) -> RoundResult:
    """An engine's outcome, brought to the host once: a field of a trial at a time costs more than a round."""
    reading = Reading(*(np.asarray(part, float) for part in outcome.readings))
    counts = {name: np.asarray(part, float) for name, part in outcome.weighed.items()}
    return RoundResult(
        {index: Reading(*(part[index] for part in reading)) for index in plan},
        {index: {name: part[index] for name, part in counts.items()} for index in plan},
        outcome.deltas,
    )


def make_orders(setup: RunSetup, plan: RoundPlan, number: int) -> Orders:
    """Rectangular arrays over all trials; those that have ended get 0 steps and stand still."""
    shape = (len(setup.configs), setup.cohort)
    cohort, steps = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    lr, rate_known = np.ones(shape[0]), np.ones(shape[0])
    for index, each in plan.items():
        count, rate = len(each.cohort), each.decision.lr
        cohort[index, :count], steps[index, :count] = each.cohort, each.decision.steps
        lr[index], rate_known[index] = (each.decision.part, 0.0) if rate is None else (rate, 1.0)
    weights = np.take_along_axis(setup.weights, cohort, axis=1)
    orders = Orders(cohort, steps, lr, weights, rate_known)
    if setup.method.private_clients is not None:
        drawn = [dispatch.draw_by_chance(setup, seed, number) for seed in setup.task.seeds]
        present = np.stack([np.isin(who, some) for who, some in zip(cohort, drawn, strict=True)])
        orders = orders._replace(weights=weights * (present & (steps > 0)), largest=setup.weights.max(1))
    if not setup.attackers.attacks:
        return orders
    seeds = zip(setup.task.seeds, cohort, strict=True)
    words = np.stack([setup.attackers.words(seed, number, who) for seed, who in seeds])
    forging = setup.attackers.forging(number, np.arange(shape[0])[:, None], cohort)
    return orders._replace(attackers=forging, words=words)


def learn_from(setup: RunSetup, plan: RoundPlan, result: RoundResult) -> None:
    """Into every trial's memory what its round's readings say."""
    if setup.policy.constant and not setup.method.facts.own_rate and not setup.method.judges:
        return
    readings = [
        RoundReadings(
            each.after.memory, each.cohort, each.decision, _reported(setup, index, each.cohort, result)
        )
        for index, each in plan.items()
    ]
    memories = learn([setup.contexts[index] for index in plan], readings)
    for each, memory in zip(plan.values(), memories, strict=True):
        each.after.memory = memory


def follow_verdicts(setup: RunSetup, state: State, plan: RoundPlan) -> State:
    """The state after the judge's verdicts on a round that was learnt from."""
    verdicts = np.zeros(len(setup.configs), np.int32)
    for index, each in plan.items():
        verdicts[index] = each.after.memory.judge.verdict
    return setup.engine.revise(state, verdicts) if verdicts.any() else state


def _reported(setup: RunSetup, index: int, cohort: Any, result: RoundResult) -> Reading:
    """A trial's readings as its clients report them, attackers included."""
    return setup.attackers.report(index, cohort, result.readings[index])
