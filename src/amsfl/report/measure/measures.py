"""Measures of a trial, one number each, from its summary and its rounds."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from amsfl.clock import CLOCKS
from amsfl.clock.costs import MEGABYTE
from amsfl.core import Score
from amsfl.record import RoundRecord
from amsfl.report.measure.read import FinishedTrial, Series, judged
from amsfl.report.measure.stats import Estimate, estimate
from amsfl.report.measure.text import shown

NUMBERS = ("accuracy", "macro_f1", "r2", "mae", "rmse", "macro_auc")  # one a split
BY_CLASS = ("recall", "precision", "f1", "auc")
SHOWN = (*NUMBERS, *BY_CLASS, "loss", "rows")  # scores that have a column elsewhere
OWN = "own: "  # prefix of all others, such as a user's own metrics
Measures = dict[str, float | None]  # by name; None where it does not exist


def first_hit(rounds: Sequence[RoundRecord], score: Score, target: float) -> RoundRecord | None:
    """The first evaluated round that meets the target; nothing is interpolated between rounds."""
    met = (each for each in rounds if score.met(judged(each.metrics).get("holdout", {}), target))
    return next(met, None)


def measures(
    trial: FinishedTrial,
    score: Score,
    target: float | None,
    seconds: float | None = None,
    rounds_given: int | None = None,
) -> Measures:
    """Every measure of a trial; `seconds` is the budget of virtual time, `rounds_given` that of rounds."""
    summary, rounds = trial.summary, max(len(trial.rounds), 1)
    spent = summary.virtual_seconds_by_clock
    row: Measures = {
        "rounds": float(summary.rounds),
        "steps": float(sum(summary.steps.values())),
        "megabytes": (summary.bytes_up + summary.bytes_down) / MEGABYTE,
        "joules": summary.joules,
        "cost": summary.cost,
        **{f"round_seconds_{clock}": spent[clock] / rounds for clock in CLOCKS},
    }
    for split, scores in judged(summary.metrics).items():
        row |= {f"{name}_{split}": scores[name] for name in NUMBERS if name in scores}
        for name in BY_CLASS:
            row |= {f"{name}_{split}_{place}": value for place, value in enumerate(scores.get(name) or [])}
        row[score.measure(split)] = score.of(scores)
        row |= {f"{OWN}{split}, {name}": value for name, value in scores.items() if name not in SHOWN}
    for name, local in (("accuracy", summary.local_accuracy), ("r2", summary.local_scores)):
        for split, values in (local or {}).items():
            row |= {f"{name}_{split}_c{client}": value for client, value in enumerate(values, start=1)}
    for split, scores in summary.details.get("splits", {}).items():
        row |= {f"{name}_{split}": scores[name] for name in ("macro_auc", "ece")}
        row |= {f"auc_{split}_{place}": value for place, value in enumerate(scores["auc"])}
    for client, scores in summary.details.get("clients", {}).items():
        row |= {f"{name}_own_{client}": scores[name] for name in ("accuracy", "r2") if name in scores}
    if target is None:
        return row
    given, ran = 1.0, spent[summary.clock]  # how many times as long as it ran a trial was to run
    if summary.status == "diverged" and ran and summary.rounds:
        ends = [end / used for end, used in ((seconds, ran), (rounds_given, summary.rounds)) if end]
        given = max(1.0, min(ends, default=1.0))
    return row | _to_target(trial, score, target, given)


def _to_target(trial: FinishedTrial, score: Score, target: float, given: float) -> Measures:
    """Time, rounds and joules to the target; `least_*` has what was spent where it was not reached.

    A trial that diverged ended early and counts with the time and rounds that it was given.
    """
    hit, summary = first_hit(trial.rounds, score, target), trial.summary
    ran = {name: value * given for name, value in summary.virtual_seconds_by_clock.items()}
    least = hit.round if hit else summary.rounds
    return {
        "reached": 1.0 if hit else 0.0,
        "rounds_to": float(hit.round) if hit else None,
        "joules_to": _joules(trial, hit.round) if hit else None,
        "least_joules": _joules(trial, least),
        "least_rounds": least if hit else least * given,
        "round_seconds_to": hit.seconds[summary.clock] / hit.round if hit else None,
        **{f"seconds_to_{name}": hit.seconds[name] if hit else None for name in CLOCKS},
        **{f"least_{name}": (hit.seconds if hit else ran)[name] for name in CLOCKS},
    }


def _joules(trial: FinishedTrial, rounds: int) -> float | None:
    """Of the first so many rounds; None where they are not on record."""
    spent = [record.joules for record in trial.rounds if record.round <= rounds]
    numbers = [joules for joules in spent if joules is not None]
    return sum(numbers) if numbers and len(numbers) == len(spent) else None


class MeasuredSeries(NamedTuple):
    """A series and its trials' measures, in the order of the trials."""

    series: Series
    values: list[Measures]
    place: int = 0  # 0 is the reference; colours and markers follow it

    @property
    def label(self) -> str:
        return shown(self.series.label)

    @property
    def note(self) -> str:
        return shown(self.series.note)

    def numbers(self, name: str) -> list[float]:
        """A measure's values, of the trials that have it."""
        return [value for row in self.values if (value := row.get(name)) is not None]

    def mean(self, name: str) -> Estimate | None:
        """Shares lie between 0 and 1, R² below 1; errors, times and counts have no upper end."""
        share = name.startswith(("accuracy", "macro_", "ece", *BY_CLASS))
        r2 = name.startswith("r2")
        return estimate(self.numbers(name), -math.inf if r2 else 0.0, 1.0 if share or r2 else math.inf)

    def value(self, name: str) -> float:
        """The mean alone, NaN where there is none."""
        numbers = self.numbers(name)
        return sum(numbers) / len(numbers) if numbers else math.nan

    @property
    def reached_target(self) -> bool:
        """Whether every trial did."""
        return sum(self.numbers("reached")) == len(self.values)


def measure(series: Series, score: Score, target: float | None) -> MeasuredSeries:
    given = series.settings.get("seconds"), series.settings.get("rounds")
    return MeasuredSeries(series, [measures(trial, score, target, *given) for trial in series.trials])


def pairs(ours: MeasuredSeries, theirs: MeasuredSeries, name: str) -> tuple[list[float], list[float]]:
    """Values of the trials that both have finished, paired by seed: same partition, same first model."""
    mine, other = (
        {trial.seed: row.get(name) for trial, row in zip(one.series.trials, one.values, strict=True)}
        for one in (ours, theirs)
    )
    both = [(a, b) for seed in mine if (a := mine[seed]) is not None and (b := other.get(seed)) is not None]
    return [a for a, _ in both], [b for _, b in both]


def paired_times(ours: MeasuredSeries, theirs: MeasuredSeries, clock: str) -> tuple[list[float], list[float]]:
    """Times to the target, paired by seed, of pairs in which somebody reached it. Who missed it took at least
    as long as it ran, and nothing says that it was sooner than the other: it counts with the longer time."""
    times = zip(*pairs(ours, theirs, f"least_{clock}"), strict=True)
    reached = zip(*pairs(ours, theirs, "reached"), strict=True)
    both = [
        (a if mine else max(a, b), b if other else max(a, b))
        for (a, b), (mine, other) in zip(times, reached, strict=True)
        if mine or other
    ]
    return [a for a, _ in both], [b for _, b in both]
