"""What each client did: its steps, its drift, and how it spent its time."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from amsfl.record import timeline
from amsfl.record.timeline import AWAY, LOST, STALE, WORKED, Span
from amsfl.report.measure.curves import Floats
from amsfl.report.measure.read import FinishedTrial, Series
from amsfl.report.measure.stats import Estimate, estimate

KINDS = (WORKED, STALE, LOST, AWAY)  # in a map 1, 2, 3, 4; 0 is waiting
ROUNDS = 30  # of a map: more cannot be distinguished
TimeMap = np.ndarray[tuple[int, int], np.dtype[np.int8]]


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


class TimeShares(NamedTuple):
    """Over trials, in percent of all clients' time; and the age of their work in moves of the server."""

    working: Estimate | None
    lost: Estimate | None
    away: Estimate | None
    waiting: Estimate | None
    staleness: Estimate | None
    oldest: int


def has_times(series: Series) -> bool:
    rounds = [each for trial in series.trials for each in trial.rounds]
    return bool(rounds) and all(timeline.has_times(each) for each in rounds)


def client_spans(series: Series, trial: FinishedTrial, clock: str) -> list[Span]:
    clients = int(series.settings.get("clients") or 0)
    everyone = series.settings.get("cohort") in (None, clients)
    return timeline.spans(trial.rounds, max(clients, count(series)) if everyone else 0, clock)


def shares(series: Series, clock: str) -> TimeShares:
    clients = max(int(series.settings.get("clients") or 0), count(series))
    rows, oldest = [], 0
    for trial in series.trials:
        end = trial.rounds[-1].seconds[clock]
        spent = dict.fromkeys(KINDS, 0.0)
        for span in client_spans(series, trial, clock):
            spent[span.kind] += max(min(span.end, end) - max(span.begin, 0.0), 0.0)
        parts = {kind: 100 * seconds / (clients * end) for kind, seconds in spent.items()}
        ages = [age for each in trial.rounds for age in each.staleness]
        oldest = max([oldest, *ages])
        waiting = max(100 - sum(parts.values()), 0.0)
        staleness = float(np.mean(ages)) if ages else 0.0
        rows.append((parts[WORKED] + parts[STALE], parts[LOST], parts[AWAY], waiting, staleness))
    columns = zip(TimeShares._fields, zip(*rows, strict=True), strict=False)
    return TimeShares(oldest=oldest, **{name: estimate(column, 0.0) for name, column in columns})


def time_map(series: Series, clock: str, clients: list[int], columns: int) -> tuple[TimeMap, float]:
    """[client, column] what these did in the first trial's first rounds, and the seconds that those took."""
    trial = series.trials[0]
    end = trial.rounds[:ROUNDS][-1].seconds[clock]
    kinds = np.zeros((len(clients), columns), np.int8)
    rows = {client: row for row, client in enumerate(clients)}
    for span in client_spans(series, trial, clock):
        if span.client in rows and span.begin < end and span.end > span.begin:
            begin = int(columns * span.begin / end)
            stop = round(columns * min(span.end, end) / end) - 1  # a gap to the client's next work
            kinds[rows[span.client], begin : max(begin + 1, stop)] = 1 + KINDS.index(span.kind)
    return kinds, end
