"""Curves of several trials brought onto one axis."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from amsfl.report.measure.read import Series, Trial

Floats = np.ndarray[Any, np.dtype[np.float64]]


def over_time(trial: Trial, split: str, clock: str, times: Floats) -> Floats:
    """Accuracy at given times: the last evaluation's, NaN before the first and after the trial's end."""
    rows = [r for r in trial.rounds if r["metrics"].get(split, {}).get("accuracy") is not None]
    if not rows:
        return np.full(len(times), np.nan)
    seconds = np.array([row["seconds"][clock] for row in rows])
    scores = np.array([row["metrics"][split]["accuracy"] for row in rows], float)
    place = np.searchsorted(seconds, times, side="right") - 1
    return np.where((place >= 0) & (times <= seconds[-1]), scores[np.maximum(place, 0)], np.nan)


def band(rows: Sequence[Floats], share: float = 0.5) -> tuple[Floats, Floats, Floats]:
    """Lower quartile, median, upper quartile over trials; NaN where fewer than `share` of them are."""
    stack = np.array(rows)
    there = np.isfinite(stack).sum(0) >= max(1.0, share * len(stack))
    low, middle, high = np.full((3, stack.shape[1]), np.nan)
    if there.any():
        low[there], middle[there], high[there] = np.nanpercentile(stack[:, there], [25, 50, 75], axis=0)
    return low, middle, high


def middle(rows: Sequence[Floats], share: float = 0.5) -> Floats:
    """Mean over trials; NaN where fewer than `share` of them are."""
    stack = np.array(rows)
    count = np.isfinite(stack).sum(0)
    total = np.nansum(stack, axis=0)
    return np.where(count >= max(1.0, share * len(stack)), total / np.maximum(count, 1), np.nan)


def clients(series: Series) -> int:
    return 1 + max((who for t in series.trials for r in t.rounds for who in r["cohort"]), default=-1)


def steps(series: Series, client: int) -> list[Floats]:
    """One row a trial: this client's steps by round, NaN where it was not asked or the trial had ended."""
    longest = max(len(trial.rounds) for trial in series.trials)
    rows = np.full((len(series.trials), longest), np.nan)
    for row, trial in zip(rows, series.trials, strict=True):
        for place, record in enumerate(trial.rounds):
            if client in record["cohort"]:
                row[place] = record["steps"][record["cohort"].index(client)]
    return list(rows)


def plans(series: Series) -> bool:
    """Whether steps differ between clients or rounds: somebody chose them."""
    return len({step for trial in series.trials for record in trial.rounds for step in record["steps"]}) > 1


def drift(series: Series, client: int, clock: str, edges: Floats) -> Floats:
    """||dg|| / ||g|| of a client's first minibatch over its local steps; median a bin."""
    seconds, values = [], []
    for trial in series.trials:
        for record in trial.rounds:
            found = record["readings"]
            if client in record["cohort"] and found.get("grad_sq"):
                place = record["cohort"].index(client)
                change, size = found["diff_sq"][place], found["grad_sq"][place]
                if size and change is not None:
                    seconds.append(record["seconds"][clock])
                    values.append((change / size) ** 0.5)
    which = np.digitize(seconds, edges) - 1
    known = np.array(values)
    return np.array(
        [np.median(known[which == b]) if (which == b).any() else np.nan for b in range(len(edges) - 1)]
    )
