"""Whether a model is better than always predicting the commonest class, or the mean.

A score on few rows is above the base rate by chance; the margin is what chance explains in 19 of 20 cases.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from amsfl.core.records import Json, JsonMapping
from amsfl.core.scores import NUMBERS, UNBALANCED, recorded_score
from amsfl.record import Summary
from amsfl.report.measure.read import judged

CHANCE_AUC = 0.5
Z = 1.96  # of a 95% interval
NOTHING = 0.01  # of a score without a margin of its own (of an error, its share): no better than the base
TITLES = {each.title for each in NUMBERS.values()}
UNKNOWN: JsonMapping = {}


class Standing(NamedTuple):
    """A score beside the base rate, on rows that the model has not seen."""

    name: str  # accuracy, AUC, R², or the score that a run goes by
    value: float
    base: float
    margin: float  # above the base, what chance explains
    larger: bool = True  # is better

    @property
    def better(self) -> bool:
        gain = self.value - self.base if self.larger else self.base - self.value
        return gain > self.margin

    @property
    def predicted(self) -> str:
        """What the base rate predicts every time."""
        return "the mean" if self.name in TITLES else "the commonest class"


def accuracy_margin(base: float, rows: int) -> float:
    """Of the accuracy of a constant prediction on so many rows: binomial."""
    return Z * math.sqrt(base * (1 - base) / rows) if rows else 0.0


def auc_margin(counts: Sequence[int]) -> float:
    """Of the mean AUC of random outputs: Mann and Whitney's variance, (n + 1) / (12 n1 n0), a class."""
    rows = sum(counts)
    sds = [math.sqrt((rows + 1) / (12 * n * (rows - n))) for n in counts if 0 < n < rows]
    return Z * float(np.mean(sds)) if sds else 0.0


def class_counts(details: Json) -> list[int]:
    """Rows of every class on the hold-out, by a summary's details."""
    scores = details.get("splits", {}).get("holdout", {})
    return list(scores.get("rows") or map(sum, scores.get("confusion") or []))


def standings(summary: Summary, data: JsonMapping = UNKNOWN) -> list[Standing]:
    """The score that a run goes by, its accuracy and AUC, or its R², each beside the base rate.

    `data` is what the record says of it; empty where nothing is on record.
    """
    scores, compared = judged(summary.metrics).get("holdout", {}), _usual(summary)
    score = recorded_score(summary.score, data.get("classes", ()))
    value, base = score.of(scores), score.of(data.get("base", {}).get("holdout", {}))
    if compared and value is not None and base and score.title not in [each.name for each in compared]:
        margin = NOTHING if score.most == 1 else NOTHING * base
        compared.append(Standing(score.title, value, base, margin, score.larger))
    return sorted(compared, key=lambda each: each.name != score.title)


def _usual(summary: Summary) -> list[Standing]:
    scores = judged(summary.metrics).get("holdout", {})
    if scores.get("r2") is not None:
        return [Standing("R²", scores["r2"], 0.0, 0.0)]
    counts = class_counts(summary.details)
    if not sum(counts) or scores.get("accuracy") is None:
        return []
    base = max(counts) / sum(counts)
    accuracy = [Standing("accuracy", scores["accuracy"], base, accuracy_margin(base, sum(counts)))]
    auc = summary.details["splits"]["holdout"].get("macro_auc")
    return accuracy if auc is None else [*accuracy, Standing("AUC", auc, CHANCE_AUC, auc_margin(counts))]


def base_rates(summary: Summary, data: JsonMapping = UNKNOWN) -> str:
    """A run's scores beside those of a constant prediction; empty where they are not on record."""
    compared = standings(summary, data)
    if not compared:
        return ""
    pairs = ", ".join(f"{one.name} {one.value:.4g} beside {one.base:.4g}" for one in compared)
    return f"{pairs} of always predicting {compared[0].predicted}"


def verdict(summary: Summary, settings: JsonMapping = UNKNOWN, data: JsonMapping = UNKNOWN) -> str:
    """One sentence for a run that is not better than the base rate; empty for one that is."""
    compared = standings(summary, data)
    if not compared or compared[0].better:
        return ""
    first = compared[0]
    margin = f" ± {first.margin:.2g}" if first.margin else ""
    rates = f"{first.name} {first.value:.3g}, base rate {first.base:.3g}{margin}"
    best = summary.best or {}
    if best.get("by") in (first.name, "r2") and first._replace(value=best["score"]).better:
        return (
            f"The last round is not better than always predicting {first.predicted} ({rates}). "
            f"The best round, which predicts, is: {best['score']:.3g}."
        )
    text = f"Not better than always predicting {first.predicted}: {rates}."
    ranks = next((each for each in compared[1:] if each.name == "AUC" and each.better), None)
    if ranks:
        counts = class_counts(summary.details)
        advice = ranking_advice(max(counts) / sum(counts), settings)
        return f"{text} Its AUC of {ranks.value:.3g} is above chance: {advice}."
    return f"{text} Train longer, or try another --lr ('amsfl tune' searches)."


def ranking_advice(base: float, settings: JsonMapping) -> str:
    """For a model that ranks rows but predicts no better than a constant; not what settings have already."""
    if base < UNBALANCED:
        return "the model ranks rows, and more rounds may make it predict, too"
    ways = {"score": "judge it by --score auc", "class_weights": "train with --class-weights balanced"}
    left = [way for name, way in ways.items() if not settings.get(name)]
    return "the model ranks rows" + (f"; {', or '.join(left)}" if left else "")
