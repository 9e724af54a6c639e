"""What each client did: the steps it was given, and how far they made it drift."""

from collections.abc import Sequence

import numpy as np

from amsfl.report.measure.curves import Floats
from amsfl.report.measure.read import Series, Trial


def count(series: Series) -> int:
    """Clients that are on record, also those whose work was never of use."""
    rounds = [each for trial in series.trials for each in trial.rounds]
    lost = (int(who) for each in rounds for who, *_ in each.dropped)
    return 1 + max((*(who for each in rounds for who in each.cohort), *lost), default=-1)


def plans(series: Series) -> bool:
    """Whether steps differ between clients or rounds: somebody chose them."""
    return len({step for trial in series.trials for record in trial.rounds for step in record.steps}) > 1


def steps(trials: Sequence[Trial], clients: int) -> Floats:
    """[client, round] mean steps over the trials; NaN where it was not asked, or half of them had ended."""
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
    """[client, span] ||dg|| / ||g|| of a client's first minibatch over its local steps; median a span."""
    rows = [
        (who, record.seconds[clock], (change / size) ** 0.5)
        for trial in series.trials
        for record in trial.rounds
        if record.readings.get("grad_sq")
        for who, change, size in zip(
            record.cohort, record.readings["diff_sq"], record.readings["grad_sq"], strict=True
        )
        if size and change is not None
    ]
    spans, clients = len(edges) - 1, count(series)
    found = np.full((clients, spans), np.nan)
    if not rows:
        return found
    who, seconds, values = np.array(rows, float).T
    span = np.digitize(seconds, edges) - 1
    inside = (span >= 0) & (span < spans)
    key = (who * spans + span)[inside].astype(int)
    order = np.argsort(key, kind="stable")
    names, starts = np.unique(key[order], return_index=True)
    for name, group in zip(names, np.split(values[inside][order], starts[1:]), strict=True):
        found[name // spans, name % spans] = np.median(group)
    return found
