"""Whether records may be held against each other: the same data, splits, target, speeds and end."""

from collections.abc import Iterable, Mapping
from typing import Any

from amsfl.report.measure import about
from amsfl.report.measure.read import Series, Source
from amsfl.report.measure.text import short, shown

# settings that make another question of it; nobody wins across them
WORLD = {
    "label": "label column",
    "client_column": "client column",
    "task": "task",
    "binary": "classes",
    "clients": "number of clients",
    "profile": "client speeds",
}
CHOICES = {"model": "model", "cohort": "clients a round", "batch": "rows a step", "precision": "precision"}


def differences(sources: list[Source], target: float | None) -> list[str]:
    """What makes them no comparison, as in `data: digits; nslkdd`; empty where they are one.

    `target` is one given for all: what they were aimed at themselves does not matter then.
    """
    series = [one for source in sources for one in source.series if one.trials]
    data = [about.data(source) for source in sources]
    found = [
        *_differing("data", (entry.name for entry in data)),
        *_differing("rows judged on", (_rows(entry.eval_rows) for entry in data)),
        *_differing("classes", (", ".join(entry.classes) for entry in data)),
    ]
    if target is None:
        found += _differing("target", (one.settings.get("target") for one in series))
    found += _differing("score", (trial.summary.score for one in series for trial in one.trials[:1]))
    for key, title in WORLD.items():
        found += _differing(title, (one.settings.get(key) for one in series))
    found += _differing("when they end", (_end(one.settings) for one in series))
    found += _differing("partition", (about.partition(source) for source in sources))
    if not set.intersection(*({trial.seed for trial in one.trials} for one in series)):
        found.append("seeds: no trial of one has the partition and first model of a trial of every other")
    return found


def choices(series: list[Series]) -> list[str]:
    """What else differs, and is a choice rather than another question."""
    found = []
    for key, title in CHOICES.items():
        found += _differing(title, (one.settings.get(key) for one in series))
    return [f"Not everything is the same for all: {'. '.join(found)}."] if found else []


def _end(settings: Mapping[str, Any]) -> str:
    """As in `after 100 virtual seconds or at 89%`."""
    seconds, rounds, target = (settings.get(key) for key in ("seconds", "rounds", "target"))
    ends = [f"after {seconds:g} virtual seconds"] if seconds else []
    ends += [f"after {rounds} rounds"] if rounds else []
    told = settings.get("score") or "accuracy"
    goal = f"{100 * target:g}%" if target and told == "accuracy" else f"{told} {target}"
    ends += [f"at {goal}"] if target and settings.get("stop_at_target") else []
    return " or ".join(ends) or "as it is"


def _rows(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{split} {count}" for split, count in rows.items())


def _differing(title: str, values: Iterable[object]) -> list[str]:
    """Nothing said (None, '') differs from nothing."""
    known = list(dict.fromkeys(str(value) for value in values if value not in (None, "")))
    return [f"{title}: {'; '.join(short(shown(value)) for value in known)}"] if len(known) > 1 else []
