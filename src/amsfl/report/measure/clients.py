"""What each client did: its steps, and its drift."""

from collections.abc import Sequence

import numpy as np

from amsfl.report.measure.curves import Floats
from amsfl.report.measure.read import FinishedTrial, Series


def count(series: Series) -> int:
    """Clients on record, also those whose work was never used."""
    rounds = [each for trial in series.trials for each in trial.rounds]
    lost = (int(client) for each in rounds for client, *_ in each.dropped)
    return 1 + max((*(max(each.cohort, default=-1) for each in rounds), *lost), default=-1)


def plans(series: Series) -> bool:
    """Whether steps differ between clients or rounds: a policy chose them."""
    return len({step for trial in series.trials for record in trial.rounds for step in record.steps}) > 1


def steps(trials: Sequence[FinishedTrial], clients: int) -> Floats:
    """[client, round] mean steps over the trials; NaN where not asked, or half of the trials had ended."""
    longest = max(len(trial.rounds) for trial in trials)
    total, asked = np.zeros((2, clients, longest))
    running = np.zeros(longest)
    for trial in trials:
        running[: len(trial.rounds)] += 1
        for place, record in enumerate(trial.rounds):
            total[record.cohort, place] += record.steps
            asked[record.cohort, place] += 1
    asked[:, running < len(trials) / 2] = 0
    return np.where(asked > 0, total / np.maximum(asked, 1), np.nan)


def drift(series: Series, clock: str, edges: Floats) -> Floats:
    """[client, span] ||dg|| / ||g|| of a client's first minibatch over its local steps; median a span.

    A round belongs to the span in which it ends, edge included: the last round ends at the last edge.
    """
    rows = [
        (client, record.seconds[clock], (change / size) ** 0.5)
        for trial in series.trials
        for record in trial.rounds
        if record.readings.get("grad_sq")
        for client, change, size in zip(
            record.cohort, record.readings["diff_sq"], record.readings["grad_sq"], strict=True
        )
        if size and change is not None
    ]
    medians = np.full((count(series), len(edges) - 1), np.nan)
    if not rows:
        return medians
    clients, seconds, ratios = np.array(rows, float).T
    spans = np.clip(np.searchsorted(edges, seconds) - 1, 0, len(edges) - 2)
    cells = clients.astype(int) * medians.shape[1] + spans
    order = np.argsort(cells, kind="stable")
    names, starts = np.unique(cells[order], return_index=True)
    medians.flat[names] = [np.median(group) for group in np.split(ratios[order], starts[1:])]
    return medians
