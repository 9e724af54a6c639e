"""The ledger of contributions in a simulation: entered after every round, looked at now and then.

Rows to score by are the server's hold-out, or so many of it: nobody trains on them, so to every client they
are rows of others.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from amsfl.core import Verdict, score
from amsfl.core.records import Json
from amsfl.engines import State
from amsfl.engines.outputs import outputs, score_rows
from amsfl.record.schema import Array
from amsfl.simulation.components import client_labels
from amsfl.simulation.plan_round import RoundPlan
from amsfl.simulation.round_record import RoundResult, mix_of
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.trial import TrialState
from amsfl.worth import ledger, looks
from amsfl.worth.statement import OwnRows, make_statement, related

SHUFFLES = 8  # of a client's labels, for what chance alone would tell


def follow(
    setup: RunSetup,
    state: State,
    trials: list[TrialState],
    plan: RoundPlan,
    result: RoundResult,
    scores: Mapping[int, Json],
) -> None:
    """After a round: its uploads into every trial's ledger, and where it is due, a look at it."""
    models: Any = None
    moves = np.asarray(state.step)
    for trial in trials:
        _enter(setup, moves[trial.index], trial, plan, result)
        trial.looked = {}
        if looks.is_due(trial.round, trial.status != "running"):
            models = setup.engine.models_to_host(setup.engine.models(state)) if models is None else models
            own = scores.get(trial.index, {}).get("holdout", {})
            trial.looked = _look(setup, trial, np.asarray(models[trial.index]), own)


def state(setup: RunSetup, trial: TrialState, model: Array) -> dict[str, Any]:
    """The statement at the end of a trial, for its summary; {} without a ledger."""
    own = ledger.scored(trial.ledger, trial.best_ledger, trial.memory.judge.left)
    if own is None or setup.row_scores is None or not np.isfinite(model).all():
        return {}
    task, row_scores = setup.task, setup.row_scores
    first = np.asarray(task.start()[trial.index])
    clients = len(own.weights)

    def scores(members: Array) -> Array:
        return row_scores(ledger.coalition_models(own, model, first, members))

    alone = ledger.coalition_models(own, model, first, np.eye(clients, dtype=bool))
    rows = [_own_rows(setup, trial.index, who, np.stack([mine, model])) for who, mine in enumerate(alone)]
    names = client_labels(setup.configs[trial.index], setup.data, clients)
    title = score("", setup.data.classes).title
    return make_statement(title, names, scores, ledger.twins(own), rows).plain()


def _enter(setup: RunSetup, move: Array, trial: TrialState, plan: RoundPlan, result: RoundResult) -> None:
    index, own = trial.index, trial.ledger
    verdict = trial.memory.judge.verdict if setup.judges else Verdict.NONE
    if own is None:
        own = ledger.open_ledger(setup.task.shards.weights[index], setup.task.dim)
    own, trial.best_ledger = ledger.judged(own, trial.best_ledger, verdict)
    if verdict in (Verdict.NONE, Verdict.BETTER):  # else the server took nothing of this round
        jobs = plan[index].move.jobs
        shares = setup.weights[index, jobs["client"]]
        mix = mix_of(setup.method, shares, jobs["steps"])
        counts = np.array(mix) if mix else shares  # a rule does not say how much each counts
        uploads, path = result.by_trial[index].uploads, jobs["lr"] * jobs["steps"]
        assert uploads is not None  # engines keep them where there is a ledger
        parts = ledger.RoundParts(jobs["client"], counts, uploads, path)
        own = ledger.enter(own, parts, move)
    trial.ledger = own


def _look(setup: RunSetup, trial: TrialState, model: Array, holdout: Json) -> Json:
    """By few rows, until the run ends."""
    own = ledger.scored(trial.ledger, trial.best_ledger, trial.memory.judge.left)
    row_scores = setup.row_scores
    assert own is not None and row_scores is not None
    whole = score("", setup.data.classes).of(holdout)  # by all rows, where somebody looked
    return looks.look(own, model, partial(row_scores, few=trial.status == "running"), whole)


def _own_rows(setup: RunSetup, trial: int, who: int, models: Array) -> OwnRows:
    """A client's own rows by two models: those that it holds back, or if it does not, those it trains on."""
    shards = setup.task.shards
    held = int(shards.held[trial, who])
    begin = int(shards.start[trial, who]) + (int(shards.size[trial, who]) if held else 0)
    mine = shards.order[trial, begin : begin + (held or min(int(shards.size[trial, who]), 256))]
    x, y = np.asarray(setup.task.x)[mine], np.asarray(setup.task.y)[mine]
    forward, classes = outputs(setup.task._replace(evals={"own": (x, y)})), setup.task.classes
    predicted = np.stack([forward(np.asarray(each, setup.task.dtype), "own") for each in models])
    alone, together = score_rows(classes, predicted, y, y)
    if len(np.unique(y)) == 1:
        return OwnRows(alone, together)
    order = np.random.default_rng(0)
    others = [y[order.permutation(len(y))] for _ in range(SHUFFLES)]
    if not classes:
        return OwnRows(
            alone, together, together, np.mean([score_rows(0, predicted[1:], z, y)[0] for z in others], 0)
        )
    best = predicted[1].argmax(-1)
    return OwnRows(alone, together, related(best, y), np.mean([related(best, other) for other in others], 0))
