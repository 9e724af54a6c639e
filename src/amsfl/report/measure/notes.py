"""What a reader must know before comparing the numbers, in sentences."""

import numpy as np

from amsfl.core import Score
from amsfl.core.scores import NUMBERS, UNBALANCED
from amsfl.report.measure.base_rate import ranking_advice
from amsfl.report.measure.measures import MeasuredSeries
from amsfl.report.measure.read import FinishedTrial, Series, judged
from amsfl.report.measure.subject import Subject
from amsfl.report.measure.text import differing, with_article

ROUNDING = 0.005  # of an accuracy: one row of two hundred
EXACT = 1e-4  # of a number's error or R², its share
# settings that may differ in a comparison
CHOICES = {"model": "model", "cohort": "clients a round", "batch": "rows a step", "precision": "precision"}


def notes(subject: Subject) -> list[str]:
    """Notes on the comparison; notes on single methods stand with the method."""
    diverged = [
        f"{one.label} in {one.series.diverged} of {len(one.values)} trials"
        for one in subject.methods
        if one.series.diverged
    ]
    choices = [
        text
        for key, title in CHOICES.items()
        for text in differing(title, (one.series.settings.get(key) for one in subject.methods))
    ]
    return [
        *([f"Diverged, the model no longer finite: {', '.join(diverged)}."] if diverged else []),
        *_fitting_score(subject),
        *_not_better(subject),
        *_same_results(subject),
        *_learning_rates(subject.methods),
        *_searched(subject.methods),
        *([f"Settings that differ: {'. '.join(choices)}."] if choices else []),
    ]


def _fitting_score(subject: Subject) -> list[str]:
    """Why the verdict is not by accuracy, and what to do about it."""
    score, base = subject.fitting_score, subject.base.get("holdout", 0.0)
    if score == subject.score:
        return []
    margin = subject.margin(subject.score)
    why = (
        f"{base:.0%} of the rows are of one class"
        if base >= UNBALANCED
        else f"no accuracy is further above the base rate than chance allows (± {margin:.2g})"
    )
    values = ", ".join(
        f"{o.label} {subject.number(o.value(score.measure('holdout')))}" for o in subject.methods
    )
    advice = ranking_advice(base, subject.reference.series.settings)
    return [f"Judged by AUC, because {why}: {values}. Where AUC is above 0.5, {advice}."]


def _not_better(subject: Subject) -> list[str]:
    methods, score = subject.not_better, subject.fitting_score
    base = subject.base_of(score)
    if not methods or base is None:
        return []
    name = score.measure("holdout")
    ends = ", ".join(f"{one.label} ends at {subject.number(one.value(name))}" for one in methods)
    margin = f" ± {subject.margin(score):.2g}" if score.most == 1 else ""
    return [
        f"Not better than the base rate: {ends}. Always predicting {subject.base_name} scores "
        f"{with_article(score.title)} of {subject.number(base)}{margin}."
    ]


def _same_results(subject: Subject) -> list[str]:
    """Methods with the same results, as FedNova and FedAvg have with equal steps for all."""
    if subject.fitting_score.name != subject.score.name:
        return []  # rounds have a score that cannot tell methods apart
    groups: list[list[MeasuredSeries]] = []
    for one in subject.methods:
        for group in groups:
            if all(_same(subject.score, one.series, other.series) for other in group):
                group.append(one)
                break
        else:
            groups.append([one])
    apart = f"{100 * EXACT:g}%" if subject.score.name in NUMBERS else f"{ROUNDING:g}"
    return [
        f"{', '.join(one.label for one in group[:-1])} and {group[-1].label} have the same results here: in "
        f"no round are their scores more than {apart} apart."
        for group in groups
        if len(group) > 1
    ]


def _same(score: Score, one: Series, two: Series) -> bool:
    share, most = (EXACT, 0.0) if score.name in NUMBERS else (0.0, ROUNDING)
    theirs = {trial.seed: _scores(score, trial) for trial in two.trials}
    both = [(_scores(score, trial), theirs[trial.seed]) for trial in one.trials if trial.seed in theirs]
    return bool(both) and all(
        len(a) == len(b) > 2 and np.allclose(b, a, rtol=share, atol=most) for a, b in both
    )


def _scores(score: Score, trial: FinishedTrial) -> list[float]:
    return [score.of(judged(record.metrics).get("holdout", {})) or 0.0 for record in trial.rounds]


def _learning_rates(methods: list[MeasuredSeries]) -> list[str]:
    """Which methods choose their learning rate, and what the others had."""
    # a first round may have none: each client caps its steps by its own first minibatch
    rates = {o.label: [r.lr for trial in o.series.trials for r in trial.rounds if r.lr] for o in methods}
    spans = {label: (min(some), max(some)) for label, some in rates.items() if some}
    free = {label: span for label, span in spans.items() if span[0] != span[1]}
    if not free:
        return []
    chosen = "; ".join(f"{label} between {low:.2g} and {high:.2g}" for label, (low, high) in free.items())
    fixed = sorted({low for label, (low, _) in spans.items() if label not in free})
    others = f" The others keep theirs: {', '.join(f'{rate:g}' for rate in fixed)}." if fixed else ""
    return [f"Learning rates are part of what is compared. Chosen from round to round: {chosen}.{others}"]


def _searched(methods: list[MeasuredSeries]) -> list[str]:
    """For which methods settings were searched before the trials, and the result."""
    searches = {one.label: search for one in methods if (search := one.series.settings.get("searched"))}
    if not searches:
        return []
    results = "; ".join(
        f"{label} {', '.join(f'{key} {value:g}' for key, value in search['found'].items())} "
        f"(of {len({(each.get('lr'), each.get('steps')) for each in search['tried']})})"
        for label, search in searches.items()
    )
    others = [one.label for one in methods if one.label not in searches]
    rest = f" Nothing was searched for {', '.join(others)}." if others else ""
    return [
        "Settings were searched before the trials, with a seed of its own, on training rows held "
        f"back and never on the hold-out: {results}.{rest}"
    ]
