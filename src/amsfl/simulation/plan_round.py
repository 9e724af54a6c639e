"""Plan the next round: who works, how many steps, when the server moves, and what that costs.

Nothing is computed here. Who arrives when follows from steps and speeds alone.
"""

from typing import NamedTuple

from amsfl import clock
from amsfl.planning import planner
from amsfl.planning.memory import Decision
from amsfl.privacy.mechanism import pace
from amsfl.record.schema import Array
from amsfl.settings.checks import private_settings
from amsfl.simulation import dispatch, event_queue
from amsfl.simulation.event_queue import ServerMove, all_equal, rate_of
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.trial import TrialState


class TrialPlan(NamedTuple):
    """One trial's round: what the server moves with, what was decided, what it takes and spends."""

    move: ServerMove
    decision: Decision
    seconds: dict[str, float]
    spent: dict[str, float]
    version: int  # how often the server had moved before

    @property
    def cohort(self) -> Array:
        return self.move.jobs["client"]


def plan_round(setup: RunSetup, trial: TrialState) -> TrialPlan:
    """The trial's next round; moves the trial to its end, as far as that is known before it is computed."""

    def invite(now: float) -> Array:
        return dispatch.invite(setup, trial, now, allowance(setup, trial))

    now = trial.seconds["makespan"]
    move = event_queue.next_move(trial.queue, now, trial.round, setup.end, invite)
    move = move._replace(whole=_is_whole(setup, move, trial.round))
    decided, seconds, spent = _decision(trial, move), _seconds(setup, trial, move), _spent(setup, trial, move)
    plan = TrialPlan(move, decided, seconds, spent, trial.round)
    _advance(setup, trial, plan)
    return plan


def decide_now(setup: RunSetup, trial: TrialState) -> Decision:
    """What it would do now, with the cohort that is drawn next."""
    allowed = allowance(setup, trial)
    cohort = dispatch.draw_clients(setup, trial, allowed)
    request = dispatch.plan_request(setup, trial, cohort, allowed)
    return planner.decide(setup.contexts[trial.index], request)


def _is_whole(setup: RunSetup, move: ServerMove, version: int) -> bool:
    """Whether the move takes one full cohort that has just begun from the newest model."""
    jobs = move.jobs
    fresh = (jobs["number"] == version) & (jobs["version"] == version)
    any_size = setup.method.private_clients is not None  # whose cohorts have no fixed size
    full = any_size or len(jobs) == setup.cohort
    return bool(full and fresh.all() and all_equal(jobs["lr"]))


def allowance(setup: RunSetup, trial: TrialState) -> Array | None:
    """The most steps of every client in the next round, by what privacy it has left; None: no such limit."""
    if setup.mechanism is None:
        return None
    config, share = setup.configs[trial.index], None
    if setup.policy.readings:  # who plans by worth is paced
        share = private_settings(config).share(trial.round, trial.seconds[config.clock])
    return pace(setup.ledgers[trial.index], trial.steps_begun, share)


def _decision(trial: TrialState, move: ServerMove) -> Decision:
    """The decisions for the clients that arrived, as one; some may have been made in earlier rounds."""
    reasons = dict(event_queue.reasons_of(trial.queue, move.jobs))
    lr, predicted = rate_of(move.jobs["lr"]), reasons.pop("predicted_seconds")
    if not move.whole:
        predicted = move.seconds - trial.seconds["makespan"]
    return Decision(move.jobs["steps"], lr, predicted, reasons)


def _seconds(setup: RunSetup, trial: TrialState, move: ServerMove) -> dict[str, float]:
    """This round's seconds by both clocks; by `sum`, clients' own seconds add up."""
    if move.whole and setup.conditions[trial.index] is None:
        return clock.round_seconds(setup.costs[trial.index], move.jobs["client"], move.jobs["steps"])
    work = event_queue.join_jobs(move.jobs, move.dropped)
    lasted = move.seconds - trial.seconds["makespan"]
    return {"sum": float((work["arrives"] - work["started"]).sum()), "makespan": lasted}


def _spent(setup: RunSetup, trial: TrialState, move: ServerMove) -> dict[str, float]:
    """This round's joules, megabytes and cost, lost work included."""
    used, lost = ((some["client"], some["steps"]) for some in (move.jobs, move.dropped))
    return clock.spent(setup.costs[trial.index].accounts, used, lost)


def _advance(setup: RunSetup, trial: TrialState, plan: TrialPlan) -> None:
    """Move the trial to the end of its round, as far as that is known before anything is computed."""
    trial.round += 1
    trial.spent = {name: trial.spent.get(name, 0.0) + each for name, each in plan.spent.items()}
    trial.seconds = {name: trial.seconds[name] + each for name, each in plan.seconds.items()}
    trial.seconds["makespan"] = plan.move.seconds  # the same, but for rounding
    jobs = plan.move.jobs
    for who, steps in zip(jobs["client"].tolist(), jobs["steps"].tolist(), strict=True):
        trial.steps[who] += steps
    if is_over(setup, trial):
        trial.status = "finished"
    event_queue.tidy(trial.queue, trial.round)


def is_over(setup: RunSetup, trial: TrialState) -> bool:
    """Whether rounds, seconds, another limit or spent privacy end a trial here."""
    config, ledger = setup.configs[trial.index], setup.ledgers[trial.index]
    if trial.round >= setup.last_rounds[trial.index] or clock.over_limit(
        config.joules, config.megabytes, trial.spent
    ):
        return True
    if config.seconds is not None and trial.seconds[config.clock] >= config.seconds:
        return True
    return setup.mechanism is not None and ledger.exhausted(ledger.units(trial.steps_begun, trial.round))
