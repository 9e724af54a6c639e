"""How far a trial has come: its last round, what its clients did so far, and its point on the curves."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from amsfl.core.scores import Score, recorded, usual
from amsfl.record import Manifest, RoundRecord


class Latest(NamedTuple):
    """A trial's last round, and what its clients have done since the first."""

    entry: str
    trial: int
    record: RoundRecord
    steps: dict[int, int]
    wall: float  # seconds on the clock of the wall, where the record has them


def next_latest(before: Latest | None, entry: str, trial: int, record: RoundRecord) -> Latest:
    steps = dict(before.steps) if before else {}
    for who, count in zip(record.cohort, record.steps, strict=False):
        steps[who] = steps.get(who, 0) + count
    spent = record.wall.get("seconds", 0.0) + (before.wall if before else 0.0)
    return Latest(entry, trial, record, steps, record.wall.get("elapsed", spent))


def judged_by(manifest: Manifest, record: RoundRecord) -> Score | None:
    """What the run goes by: the score that its settings name, else what is usual for what it predicts."""
    settings = manifest.settings
    name = str(settings.get("run", settings).get("score") or "")
    if name:
        return recorded(name, about(manifest).get("data", {}).get("classes") or ())
    return usual("", next(iter(record.metrics.values()), {}))


def values(record: RoundRecord, main: Score | None) -> dict[str, float]:
    """Every score of a round that is one number, by split and name; first those that the run goes by."""
    if main is None:
        return record.scores
    first = {
        f"{split}/{main.name}": value
        for split, found in record.metrics.items()
        if (value := main.of(found)) is not None and math.isfinite(value)
    }
    twice = {f"{split}/{main.key}" for split in record.metrics if main.place is None}
    return first | {key: value for key, value in record.scores.items() if key not in twice}


def event(manifest: Manifest, latest: Latest, found: Mapping[str, float]) -> dict[str, Any]:
    record = latest.record
    return {
        "series": list(manifest.methods).index(latest.entry),
        "trial": latest.trial,
        "at": {"time": moment(manifest, latest), "rounds": record.round, "wall": latest.wall},
        "scores": dict(found),
    }


def moment(manifest: Manifest, latest: Latest) -> float:
    """Virtual seconds by the run's clock; of real clients the seconds since the start."""
    if manifest.kind == "flower":
        return latest.wall
    return latest.record.seconds[clock(manifest)]


def clock(manifest: Manifest) -> str:
    settings = manifest.settings
    return str(settings.get("run", settings).get("clock", "sum"))


def about(manifest: Manifest) -> dict[str, Any]:
    """A run's record has it by itself, a study's among its settings."""
    return manifest.settings if manifest.kind == "study" else manifest.about
