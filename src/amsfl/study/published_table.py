"""Tables that others published: their recipes as studies, one a case, and their numbers beside ours.

A table's file is a study's file (settings.py) with a list `differences`, a `source`, and a table for each of
its cases: its `title`, the `run` settings and `methods` that are its own, what was `published` (entry -> mean
and deviation, in percent), and `why` ours differ (entry -> a sentence).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import UserError, nearest
from amsfl.record import TrialRecord, folder, read_study
from amsfl.settings.parse import read_toml
from amsfl.study.settings import Study, study_of, with_changes

TABLES = {path.stem: path for path in sorted((Path(__file__).parent / "published").glob("*.toml"))}
APART = 2.0  # joint deviations from which a difference needs a reason
NEAR = 0.95  # of the reference's best accuracy: a best of many rounds is partly luck
Number = tuple[float, float]  # a mean and its deviation, in percent


class PublishedCase(NamedTuple):
    """One row of a published table."""

    title: str
    study: Study
    published: Mapping[str, Number]
    why: Mapping[str, str]


class PublishedTable(NamedTuple):
    name: str
    title: str
    source: str
    differences: Sequence[str]  # from how the others did it
    cases: dict[str, PublishedCase]

    def changed(
        self, cases: Sequence[str] | None, methods: list[str] | None, trials: int | None, settings: Any
    ) -> "PublishedTable":
        """Some of its cases, with what the command line says."""
        lines = next(iter(self.cases.values())).study.methods
        for what, names, known in (("case", cases, self.cases), ("method", methods, lines)):
            for name in names or ():
                if name not in known:
                    raise UserError(f"The table {self.name} has no {what} {name!r}{nearest(name, known)}.")
        chosen = {
            name: case._replace(study=with_changes(case.study, methods, trials, settings))
            for name, case in self.cases.items()
            if cases is None or name in cases
        }
        return self._replace(cases=chosen)


class ComparedCell(NamedTuple):
    """One method in one case: what others published, what we measured."""

    case: str
    entry: str
    published: Number | None
    ours: Number | None = None  # the best round of each trial; None: not run yet
    trials: int = 0
    rounds: int = 0
    seconds: float = float("nan")  # virtual ones
    whole: bool = False  # whether rounds and trials are the recipe's
    seconds_to_near: Sequence[float] = ()  # of each trial, to NEAR of the reference's best in it; NaN: never
    seconds_to_best: Sequence[float] = ()  # of each trial, to a round as good as that
    why: str = ""

    @property
    def apart(self) -> float:
        """Joint deviations between the two; NaN where one is missing or shorter, or neither varies."""
        if self.published is None or self.ours is None or not self.whole:
            return float("nan")
        joint = float(np.hypot(self.published[1], self.ours[1]))
        return abs(self.published[0] - self.ours[0]) / joint if joint else float("nan")


def read_table(name: str) -> PublishedTable:
    """A published table by its name."""
    if name not in TABLES:
        raise UserError(f"There is no published table {name!r}{nearest(name, TABLES)}.")
    raw = read_toml(TABLES[name])
    cases, source, differences = (raw.pop(key) for key in ("cases", "source", "differences"))
    made = {key: _case(raw, own, TABLES[name]) for key, own in cases.items()}
    return PublishedTable(name, raw["title"], source, differences, made)


def _case(raw: dict[str, Any], own: dict[str, Any], path: Path) -> PublishedCase:
    changed = own.get("methods", {})
    methods = {entry: settings | changed.get(entry, {}) for entry, settings in raw["methods"].items()}
    whole = raw | {
        "title": f"{raw['title']}: {own['title']}",
        "run": raw["run"] | own.get("run", {}),
        "methods": methods,
    }
    published = {entry: (mean, deviation) for entry, (mean, deviation) in own.get("published", {}).items()}
    return PublishedCase(own["title"], study_of(whole, path), published, own.get("why", {}))


def compare_with_published(table: PublishedTable, home: Path) -> list[ComparedCell]:
    """Every cell of the table from the records in `home`, a folder a case."""
    return [
        _cell(case, name, entry, home / name)
        for name, case in table.cases.items()
        for entry in case.study.methods
    ]


def _cell(case: PublishedCase, name: str, entry: str, home: Path) -> ComparedCell:
    every = read_study(home).trials if folder.holds_record(home) else {}
    trials = every.get(entry)
    cell = ComparedCell(name, entry, case.published.get(entry), why=case.why.get(entry, ""))
    if not trials:
        return cell
    config, rounds = case.study.config(entry), max(trial.summary.rounds for trial in trials)
    whole = len(trials) >= case.study.trials and (config.seconds is not None or rounds >= config.last_round)
    best = [100 * max(_accuracies(trial)) for trial in trials]
    goals = {trial.trial: max(_accuracies(trial)) for trial in every.get(case.study.reference, [])}
    return cell._replace(
        ours=(float(np.mean(best)), float(np.std(best, ddof=1)) if len(best) > 1 else 0.0),
        trials=len(trials),
        rounds=rounds,
        seconds=float(np.mean([trial.summary.virtual_seconds for trial in trials])),
        whole=whole,
        seconds_to_near=[_seconds_to(each, NEAR * goals.get(each.trial, np.nan)) for each in trials],
        seconds_to_best=[_seconds_to(each, goals.get(each.trial, np.nan)) for each in trials],
    )


def _accuracies(trial: TrialRecord) -> list[float]:
    """Of every round, on the hold-out."""
    return [each.metrics.get("holdout", {}).get("accuracy", 0.0) for each in trial.rounds]


def _seconds_to(trial: TrialRecord, goal: float) -> float:
    """Virtual seconds to the first round that scores that much; NaN where there is none."""
    rounds = zip(trial.rounds, _accuracies(trial), strict=True)
    reached = (each.seconds[trial.summary.clock] for each, accuracy in rounds if accuracy >= goal)
    return float(next(reached, float("nan")))
