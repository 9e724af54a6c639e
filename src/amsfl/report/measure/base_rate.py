"""Whether a model is better than always predicting the commonest class, or the mean.

A score on few rows is above the base rate by chance; the margin is what chance explains in 19 of 20 cases.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from amsfl.core.records import Json
from amsfl.core.scores import UNBALANCED
from amsfl.record import Summary
from amsfl.report.measure.read import judged

CHANCE_AUC = 0.5
Z = 1.96  # of a 95% interval


class Standing(NamedTuple):
    """A score beside the base rate, on rows that the model has not seen."""

    name: str  # accuracy, AUC or R²
    value: float
    base: float
    margin: float  # above the base, what chance explains

    @property
    def better(self) -> bool:
        return self.value > self.base + self.margin

    @property
    def predicted(self) -> str:
        """What the base rate predicts every time."""
        return "the mean" if self.name == "R²" else "the commonest class"


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


def standings(summary: Summary) -> list[Standing]:
    """A run's accuracy and AUC, or its R², beside the base rate; empty where they are not on record."""
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


def base_rates(summary: Summary) -> str:
    """A run's scores beside those of a constant prediction; empty where they are not on record."""
    compared = standings(summary)
    if not compared:
        return ""
    pairs = ", ".join(f"{one.name} {one.value:.4g} beside {one.base:.4g}" for one in compared)
    return f"{pairs} of always predicting {compared[0].predicted}"


def verdict(summary: Summary) -> str:
    """One sentence for a run that is not better than the base rate; empty for one that is."""
    compared = standings(summary)
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
    if len(compared) > 1 and compared[1].better:
        return f"{text} Its AUC of {compared[1].value:.3g} is above chance: {ranking_advice(first.base)}."
    return f"{text} Train longer, or try another --lr ('amsfl tune' searches)."


def ranking_advice(base: float) -> str:
    """For a model that ranks rows but predicts no better than a constant."""
    if base < UNBALANCED:
        return "the model ranks rows, and more rounds may make it predict, too"
    return "the model ranks rows. Judge it by --score auc, or train with --class-weights balanced"
