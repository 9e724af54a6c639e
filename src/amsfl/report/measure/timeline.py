"""Where clients' time went: shares of it, how old work was, and a map of the first trial."""

from typing import NamedTuple

import numpy as np

from amsfl.record.timeline import AWAY, LOST, STALE, WORKED, Span, has_times, spans
from amsfl.report.measure import clients as each_client
from amsfl.report.measure.read import Series, Trial
from amsfl.report.measure.stats import Estimate, estimate

KINDS = (WORKED, STALE, LOST, AWAY)  # in a map 1, 2, 3, 4; 0 is waiting
ROUNDS = 30  # of a map: more cannot be told apart
Map = np.ndarray[tuple[int, int], np.dtype[np.int8]]


class Shares(NamedTuple):
    """Over trials, in percent of all clients' time; and how many moves of the server old work was."""

    working: Estimate | None
    lost: Estimate | None
    away: Estimate | None
    waiting: Estimate | None
    staleness: Estimate | None
    oldest: int


def known(series: Series) -> bool:
    return all(has_times(each) for trial in series.trials for each in trial.rounds) and bool(series.trials)


def of(series: Series, trial: Trial, clock: str) -> list[Span]:
    count = int(series.settings.get("clients") or 0)
    whole = series.settings.get("cohort") in (None, count)
    return spans(trial.rounds, max(count, each_client.count(series)) if whole else 0, clock)


def shares(series: Series, clock: str) -> Shares:
    count = max(int(series.settings.get("clients") or 0), each_client.count(series))
    columns: dict[str, list[float]] = {name: [] for name in Shares._fields[:-1]}
    oldest = 0
    for trial in series.trials:
        end = trial.rounds[-1].seconds[clock]
        spent = dict.fromkeys(KINDS, 0.0)
        for span in of(series, trial, clock):
            spent[span.kind] += max(min(span.end, end) - max(span.begin, 0.0), 0.0)
        parts = {kind: 100 * seconds / (count * end) for kind, seconds in spent.items()}
        columns["working"].append(parts[WORKED] + parts[STALE])
        columns["lost"].append(parts[LOST])
        columns["away"].append(parts[AWAY])
        columns["waiting"].append(max(100 - sum(parts.values()), 0.0))
        ages = [age for each in trial.rounds for age in each.staleness]
        columns["staleness"].append(float(np.mean(ages)) if ages else 0.0)
        oldest = max([oldest, *ages])
    found = {name: estimate(column, 0.0) for name, column in columns.items()}
    return Shares(
        found["working"], found["lost"], found["away"], found["waiting"], found["staleness"], oldest
    )


def painted(series: Series, clock: str, who: list[int], columns: int) -> tuple[Map, float]:
    """[client, column] what these did in the first trial's first rounds, and the seconds that those took."""
    trial = series.trials[0]
    end = trial.rounds[min(ROUNDS, len(trial.rounds)) - 1].seconds[clock]
    found = np.zeros((len(who), columns), np.int8)
    rows = {client: row for row, client in enumerate(who)}
    for span in of(series, trial, clock):
        if span.client in rows and span.begin < end and span.end > span.begin:
            first = int(columns * span.begin / end)
            last = round(columns * min(span.end, end) / end)
            last = max(first + 1, last - 1)  # a gap to what the same client does next
            found[rows[span.client], first:last] = 1 + KINDS.index(span.kind)
    return found, end
