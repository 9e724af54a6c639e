"""How clients spent their time: shares of it, the age of their work, and a map of the first trial."""

from typing import NamedTuple

import numpy as np

from amsfl.record.timeline import AWAY, LOST, STALE, WORKED, Span, spans
from amsfl.record.timeline import has_times as round_has_times
from amsfl.report.measure import clients as each_client
from amsfl.report.measure.read import FinishedTrial, Series
from amsfl.report.measure.stats import Estimate, estimate

KINDS = (WORKED, STALE, LOST, AWAY)  # in a map 1, 2, 3, 4; 0 is waiting
ROUNDS = 30  # of a map: more cannot be distinguished
TimeMap = np.ndarray[tuple[int, int], np.dtype[np.int8]]


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
    return bool(rounds) and all(round_has_times(each) for each in rounds)


def client_spans(series: Series, trial: FinishedTrial, clock: str) -> list[Span]:
    count = int(series.settings.get("clients") or 0)
    everyone = series.settings.get("cohort") in (None, count)
    return spans(trial.rounds, max(count, each_client.count(series)) if everyone else 0, clock)


def shares(series: Series, clock: str) -> TimeShares:
    count = max(int(series.settings.get("clients") or 0), each_client.count(series))
    rows, oldest = [], 0
    for trial in series.trials:
        end = trial.rounds[-1].seconds[clock]
        spent = dict.fromkeys(KINDS, 0.0)
        for span in client_spans(series, trial, clock):
            spent[span.kind] += max(min(span.end, end) - max(span.begin, 0.0), 0.0)
        parts = {kind: 100 * seconds / (count * end) for kind, seconds in spent.items()}
        ages = [age for each in trial.rounds for age in each.staleness]
        oldest = max([oldest, *ages])
        waiting = max(100 - sum(parts.values()), 0.0)
        staleness = float(np.mean(ages)) if ages else 0.0
        rows.append((parts[WORKED] + parts[STALE], parts[LOST], parts[AWAY], waiting, staleness))
    columns = zip(TimeShares._fields, zip(*rows, strict=True), strict=False)
    return TimeShares(oldest=oldest, **{name: estimate(column, 0.0) for name, column in columns})


def took_part(series: Series) -> list[int]:
    """Clients of the rounds that a map shows."""
    return sorted({client for each in series.trials[0].rounds[:ROUNDS] for client in each.cohort})


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
