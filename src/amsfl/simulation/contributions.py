"""The ledger of contributions in a simulation: entered after every round, stated at the end.

Rows to score by are the server's hold-out, or so many of it: nobody trains on them, so to every client they
are rows of others.
"""

from typing import Any

import numpy as np

from amsfl import worth
from amsfl.core import Verdict, score
from amsfl.core.records import Json
from amsfl.engines.evaluate import outputs, score_rows
from amsfl.record.schema import Array
from amsfl.simulation.components import client_labels
from amsfl.simulation.plan_round import TrialPlan
from amsfl.simulation.server_move import RoundResult
from amsfl.simulation.setup import RunSetup
from amsfl.simulation.trial import TrialState

OWN_ROWS = 256  # of a client that holds none back, at most


def follow(setup: RunSetup, trial: TrialState, plan: TrialPlan, result: RoundResult) -> None:
    """After a round: its uploads into the trial's ledger."""
    index, own = trial.index, trial.ledger
    verdict = trial.memory.judge.verdict if setup.judges else Verdict.NONE
    if own is None:
        own = worth.open_ledger(setup.task.shards.weights[index], setup.task.dim)
    own, trial.best_ledger = worth.judged(own, trial.best_ledger, verdict)
    if verdict in (Verdict.NONE, Verdict.BETTER):  # else the server took nothing of this round
        jobs = plan.jobs
        # a rule does not say how much each counts
        counts = np.array(result.mix) if result.mix else setup.weights[index, jobs["client"]]
        uploads, path = result.deltas, jobs["lr"] * jobs["steps"]
        assert uploads is not None  # engines keep them where there is a ledger
        own = worth.enter(own, jobs["client"], counts, uploads, path, trial.vectors.step)
    trial.ledger = own


def state(setup: RunSetup, trial: TrialState, model: Array) -> Json:
    """The statement at the end of a trial, for its summary; {} without a ledger."""
    own = trial.ledger
    if own is None or setup.row_scores is None or not np.isfinite(model).all():
        return {}
    row_scores, first = setup.row_scores, np.asarray(setup.task.start()[trial.index])
    clients = len(own.weights)

    def scores(members: Array) -> Array:
        return row_scores(worth.coalition_models(own, model, first, members))  # type: ignore[no-any-return]

    alone = worth.coalition_models(own, model, first, np.eye(clients, dtype=bool))
    rows = [_own_rows(setup, trial.index, who, np.stack([mine, model])) for who, mine in enumerate(alone)]
    names = client_labels(setup.configs[trial.index], setup.data, clients)
    title = score("", setup.data.classes).title
    return worth.statement(title, names, scores, worth.twins(own), rows)


def _own_rows(setup: RunSetup, trial: int, who: int, models: Array) -> Any:
    """Scores of a client's own rows by models: of those that it holds back, or else those it trains on."""
    shards = setup.task.shards
    held, size = int(shards.held[trial, who]), int(shards.size[trial, who])
    begin = int(shards.start[trial, who]) + (size if held else 0)
    mine = shards.order[trial, begin : begin + (held or min(size, OWN_ROWS))]
    x, y = np.asarray(setup.task.x)[mine], np.asarray(setup.task.y)[mine]
    forward = outputs(setup.task._replace(evals={"own": (x, y)}))
    predicted = np.stack([forward(np.asarray(each, setup.task.dtype), "own") for each in models])
    return score_rows(setup.task.classes, predicted, y, y)
