"""What is measured of a trial, each as one number: from its summary and its curves."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from amsfl.clock import CLOCKS
from amsfl.core import Score
from amsfl.record import RoundRecord
from amsfl.report.measure.about import judged
from amsfl.report.measure.read import Series, Trial
from amsfl.report.measure.stats import Estimate, estimate
from amsfl.report.measure.text import shown

MEGABYTE = 1e6
NUMBERS = ("accuracy", "macro_f1", "r2", "mae", "rmse", "macro_auc")  # of a split, one each
BY_CLASS = ("recall", "precision", "f1", "auc")
SHOWN = (*NUMBERS, *BY_CLASS, "loss", "rows")  # scores that have places of their own
OWN = "own: "  # prefix of all others, such as a user's own metrics


class Hit(NamedTuple):
    """The first evaluation that meets a target: when, after how many rounds."""

    seconds: dict[str, float]  # by both clocks
    rounds: int


def first_hit(
    rounds: Sequence[RoundRecord], score: Score, target: float, split: str = "holdout"
) -> Hit | None:
    """Time counts to the end of the round that was evaluated; nothing is interpolated."""
    for record in rounds:
        if score.met(judged(record.metrics).get(split, {}), target):
            return Hit(record.seconds, record.round)
    return None


def measures(
    trial: Trial, score: Score, target: float | None, given: float | None = None
) -> dict[str, float | None]:
    """Everything by name; None where it does not exist (no test split, target not reached)."""
    summary, count = trial.summary, max(len(trial.rounds), 1)
    seconds = summary.virtual_seconds_by_clock
    found: dict[str, float | None] = {
        "rounds": float(summary.rounds),
        "steps": float(sum(summary.steps.values())),
        "megabytes": (summary.bytes_up + summary.bytes_down) / MEGABYTE,
        "joules": summary.joules,
        "cost": summary.cost,
        **{f"round_seconds_{clock}": seconds[clock] / count for clock in CLOCKS},
    }
    for split, scores in judged(summary.metrics).items():
        found |= {f"{name}_{split}": scores[name] for name in NUMBERS if name in scores}
        for name in BY_CLASS:
            each = scores.get(name) or []
            found |= {f"{name}_{split}_{place}": value for place, value in enumerate(each)}
        found[score.measure(split)] = score.of(scores)
        found |= {f"{OWN}{split}, {name}": value for name, value in scores.items() if name not in SHOWN}
    for name, local in (("accuracy", summary.local_accuracy), ("r2", summary.local_scores)):
        for split, each in (local or {}).items():
            found |= {f"{name}_{split}_c{place}": value for place, value in enumerate(each, start=1)}
    found |= _details(summary.details)
    if target is not None:
        found |= _to_target(trial, score, target, given)
    return found


def _details(told: dict[str, Any]) -> dict[str, float | None]:
    """AUC and calibration by split, and the usual score of every client's own rows."""
    found: dict[str, float | None] = {}
    for split, scores in told.get("splits", {}).items():
        found |= {f"{name}_{split}": scores[name] for name in ("macro_auc", "ece")}
        found |= {f"auc_{split}_{place}": value for place, value in enumerate(scores["auc"])}
    for who, scores in told.get("clients", {}).items():
        found |= {f"{name}_own_{who}": scores[name] for name in ("accuracy", "r2") if name in scores}
    return found


def _to_target(trial: Trial, score: Score, target: float, given: float | None) -> dict[str, float | None]:
    """Where a trial never got there, `least_*` has the time it ran: it would have taken at least that.

    One that stopped being finite ended early, and counts with all the time it was given.
    """
    hit = first_hit(trial.rounds, score, target)
    clock, ran = trial.summary.clock, trial.summary.virtual_seconds_by_clock
    if trial.summary.status == "diverged" and given and ran[clock] < given:
        ran = {name: seconds * given / ran[clock] for name, seconds in ran.items()}
    return {
        "reached": 1.0 if hit else 0.0,
        "rounds_to": float(hit.rounds) if hit else None,
        "joules_to": _spent(trial, hit.rounds) if hit else None,
        "least_joules": _spent(trial, hit.rounds if hit else trial.summary.rounds),
        "least_rounds": float(hit.rounds if hit else trial.summary.rounds),
        "round_seconds_to": hit.seconds[clock] / hit.rounds if hit else None,
        **{f"seconds_to_{name}": hit.seconds[name] if hit else None for name in CLOCKS},
        **{f"least_{name}": (hit.seconds if hit else ran)[name] for name in CLOCKS},
    }


def _spent(trial: Trial, rounds: int) -> float | None:
    """Joules of the first so many rounds; None where the record does not say."""
    each = [record.joules for record in trial.rounds if record.round <= rounds]
    known = [joules for joules in each if joules is not None]
    return sum(known) if known and len(known) == len(each) else None


class Measured(NamedTuple):
    """A series and its trials' measures, in the order of the trials."""

    series: Series
    values: list[dict[str, float | None]]
    place: int = 0  # the reference has 0: colours and markers go by it

    @property
    def label(self) -> str:
        return shown(self.series.label)

    @property
    def note(self) -> str:
        return shown(self.series.note)

    def known(self, name: str) -> list[float]:
        return [value for row in self.values if (value := row.get(name)) is not None]

    def mean(self, name: str) -> Estimate | None:
        """Shares lie between 0 and 1, R² below 1; errors, times and counts have no upper end."""
        share = name.startswith(("accuracy", "macro_", "ece", *BY_CLASS))
        r2 = name.startswith("r2")
        return estimate(self.known(name), -math.inf if r2 else 0.0, 1.0 if share or r2 else math.inf)

    def value(self, name: str) -> float:
        """The mean alone, NaN where there is none."""
        known = self.known(name)
        return sum(known) / len(known) if known else math.nan

    @property
    def arrived(self) -> bool:
        """Whether every trial got to the target."""
        return sum(self.known("reached")) == len(self.values)


def measure(series: Series, score: Score, target: float | None) -> Measured:
    given = series.settings.get("seconds")
    return Measured(series, [measures(trial, score, target, given) for trial in series.trials])


def pairs(ours: Measured, theirs: Measured, name: str) -> tuple[list[float], list[float]]:
    """Values of the trials that both have finished, paired by seed: same partition, same first model."""
    mine, other = (
        {trial.seed: row.get(name) for trial, row in zip(one.series.trials, one.values, strict=True)}
        for one in (ours, theirs)
    )
    both = [(a, b) for seed in mine if (a := mine[seed]) is not None and (b := other.get(seed)) is not None]
    return [a for a, _ in both], [b for _, b in both]
