"""The paragraph at the top of a report: which method to use, how sure that is, and what to try next."""

import math
from collections.abc import Sequence

from amsfl.core.scores import UNBALANCED
from amsfl.report.measure.curves import FEW
from amsfl.report.measure.measures import MeasuredSeries, pairs
from amsfl.report.measure.ranking import Ranking, is_sure, rank, score_margin
from amsfl.report.measure.stats import Estimate
from amsfl.report.measure.subject import Subject
from amsfl.report.measure.text import with_article

LEVEL = 0.005  # of a margin: below what is printed
EASY = 2  # rounds: a target that all methods reach so soon does not separate them
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def scope(subject: Subject) -> str:
    """What was run, in one sentence."""
    trials = [len(one.values) for one in subject.methods]
    counted = f"{trials[0]}" if len(set(trials)) == 1 else f"{min(trials)} to {max(trials)}"
    kinds = len({one.series.method for one in subject.methods})
    entries = f" in {len(subject.methods)} entries" if len(subject.methods) > kinds else ""
    each = "trial" if max(trials) == 1 else "trials"
    what = f"{_plural(kinds, 'method').capitalize()}{entries}"
    return f"{what} over {counted} {each} on {subject.data}, {subject.clock} clock."


def advice(subject: Subject) -> str:
    """Sentences from the numbers alone."""
    if subject.differences:
        what = _listed([difference.partition(":")[0] for difference in subject.differences])
        return (
            f"No method is named the best: these records differ in {what}. To compare methods, run them in "
            "one study: 'amsfl compare --methods A,B'."
        )
    if not any(one.numbers(subject.score.measure("holdout")) for one in subject.methods):
        return f"No {subject.score.title} is on record, so there is nothing to compare by."
    ranking = rank(subject)
    if ranking is None:
        return _no_method(subject)
    if len(subject.methods) == 1:
        return _single_method(subject, ranking)
    return " ".join([_choice(subject, ranking), *_final_score(subject, ranking), _next(subject, ranking)])


def _no_method(subject: Subject) -> str:
    """Nothing is better than the base rate: what to try depends on the classes and on what was searched."""
    score = subject.fitting_score
    base = subject.base_of(score)
    if base is None or all(one.series.diverged == len(one.values) for one in subject.methods):
        return "No method stayed finite in any trial. Next: a learning rate ten times smaller (--lr)."
    best = max(
        (o for o in subject.methods if o.numbers(score.measure("holdout"))),
        key=lambda one: score.gain(one.value(score.measure("holdout")), 0.0),
    )
    value = subject.number(best.value(score.measure("holdout")))
    margin = f" ± {subject.margin(score):.2g}" if score.most == 1 else ""
    text = (
        f"No method is better than always predicting {subject.base_name}: the best, {best.label}, ends at "
        f"{with_article(score.title)} of {value}, where that scores {subject.number(base)}{margin}. "
        f"Nothing follows about the methods. Next: {_longer(subject)}"
    )
    if not subject.is_regression and subject.base.get("holdout", 0.0) >= UNBALANCED:
        return f"{text}, and --class-weights balanced with --score auc: most rows are of one class."
    return f"{text}, or other columns: these may not tell what is predicted."


def _longer(subject: Subject) -> str:
    """Learning rates that were searched are not advised to be searched again."""
    if _were_searched(subject):
        return "more --rounds or --seconds (learning rates were searched already)"
    return "other learning rates (--lr, ten times smaller and larger) or more --rounds"


def _were_searched(subject: Subject) -> bool:
    """A method without a search, beside others that had one, has nothing to search: it sets its own rate."""
    return any(one.series.settings.get("searched") for one in subject.methods)


def _single_method(subject: Subject, ranking: Ranking) -> str:
    one, score = ranking.best, ranking.score
    what = "" if score.name == "accuracy" else f"{score.title} "
    value = subject.number(one.value(score.measure("holdout")))
    text = f"{one.label} ends at {what}{value} on the {subject.judged_on}"
    base = subject.base_of(score)
    if base is not None:
        text += f", where always predicting {subject.base_name} scores {subject.number(base)}"
    return f"{text}. 'amsfl compare' runs other methods in the same setting."


def _choice(subject: Subject, ranking: Ranking) -> str:
    best, score, trials = ranking.best, ranking.score, len(ranking.best.values)
    if ranking.by_time:
        level = f"{best.value(f'least_{subject.clock}'):.1f} virtual seconds"
        fact = f"it is first to {subject.goal}, after {level}"
    else:
        value = f"{best.value(score.measure('holdout')):.4g}"
        level = f"{with_article(score.title)} of {value} on the {subject.judged_on}"
        fact = f"it ends {'highest' if score.larger else 'lowest'}, at {level}"
    fact += f" on average over {trials} trials" if trials > 1 else ""
    missed = ""
    if subject.target is not None and not ranking.by_time:
        missed = f"No method reached {subject.goal} in all its trials; by {score.title} at the end: "
    if not ranking.rivals:
        return f"{missed}{best.label} is the only one better than the base rate: {fact}."
    ties = [one.label for one, _ in ranking.ties]
    # who missed the target counts with the other's time if it ran shorter: that does not make it level
    if ties and all(
        (other.reached_target or not ranking.by_time)
        and margin is not None
        and abs(margin.mean - ranking.no_margin) < LEVEL
        for other, margin in ranking.ties
    ):
        return f"{missed}{_listed([best.label, *ties])} are level here, at {level}."
    if trials == 1:
        lead = f"One trial is a hint, no result: {best.label} leads"
    elif ties:
        lead = f"{best.label} leads, and is not surely ahead of {_listed(ties)}"
    else:
        lead = f"Use {best.label} in this setting"
    return f"{missed}{lead}: {fact}{_margin(ranking, *(ranking.ties or ranking.rivals)[0])}."


def _margin(ranking: Ranking, other: MeasuredSeries, margin: Estimate | None) -> str:
    """As in `, 1.31 times as fast as FedAvg (95% interval 1.12 to 1.53)`."""
    if margin is None:
        return ""
    digits = 2 if ranking.by_time else 1
    if not ranking.by_time and ranking.score.most > 1:
        digits, text = 3, f", {margin.mean:.3g} below {other.label}"
    elif not ranking.by_time:
        text = f", {margin.mean:.1f} points above {other.label}"
    elif margin.mean < 1:  # earlier by the mean of seconds, later by that of ratios
        text = f"; trial by trial {other.label} is {1 / margin.mean:.2f} times as fast"
        low, high = (
            None if end is None else 1 / end if end else math.inf for end in (margin.high, margin.low)
        )
        margin = margin._replace(mean=1 / margin.mean, low=low, high=high)
    elif other.reached_target:
        text = f", {margin.mean:.2f} times as fast as {other.label}"
    else:
        hits = f"reached it in {int(sum(other.numbers('reached')))} of {len(other.values)} trials"
        if margin.mean - ranking.no_margin < LEVEL:
            return f"; {other.label} {hits}, and ran no longer than that"
        text = f", at least {margin.mean:.2f} times as fast as {other.label}, which {hits}"
    if margin.low is None or margin.high is None:
        return text
    return f"{text} (95% interval {margin.low:.{digits}f} to {margin.high:.{digits}f})"


def _final_score(subject: Subject, ranking: Ranking) -> list[str]:
    """The fastest need not end best."""
    if not ranking.by_time or not ranking.rivals:
        return []
    score, name = ranking.score, ranking.score.measure("holdout")
    top, second, *_ = sorted(ranking.order, key=lambda one: score.gain(0.0, one.value(name)))
    other = second if top is ranking.best else ranking.best
    margin = score_margin(score, *pairs(top, other, name))
    if margin is None or (margin.low is not None and not is_sure(margin, ratio=False)):
        better = "more accurate" if score.name == "accuracy" else "better"
        return [f"At the end none is surely {better} than all others."]
    if top is ranking.best:
        return [f"{top.label} also ends with the {'highest' if score.larger else 'lowest'} {score.title}."]
    by = f"{margin.mean:.1f} points higher" if score.most == 1 else f"{margin.mean:.3g} lower"
    return [f"If {score.title} at the end counts more: {top.label} ends {by}."]


def _next(subject: Subject, ranking: Ranking) -> str:
    trials = min(len(one.values) for one in subject.methods)
    rounds = [one.value("least_rounds") for one in subject.methods] if subject.target is not None else []
    not_better = subject.not_better
    if not_better:
        what = "more --rounds or --seconds" if _were_searched(subject) else "another --lr or --steps"
        who = _listed([one.label for one in not_better])
        return f"Next: {what} for {who}: a method at the base rate is not beaten yet."
    if rounds and max(rounds) <= EASY and all(one.reached_target for one in subject.methods):
        harder = "higher" if subject.score.larger else "lower"
        return f"Next: a {harder} --target; all reach {subject.goal} within {_plural(EASY, 'round')}."
    if trials < FEW:
        return f"Next: --trials 10; with {_count(trials)} only large differences show."
    if ranking.ties:
        return "Next: more --trials, or take the one that is cheapest to run; here it hardly matters."
    if subject.target is not None and not ranking.by_time:
        return "Next: more --seconds or an easier --target, so that times can be compared."
    return "Next: another --partition and --profile, to see whether it holds where you will use it."


def _count(number: int) -> str:
    return WORDS[number] if number < len(WORDS) else str(number)


def _plural(number: int, what: str) -> str:
    return f"{_count(number)} {what}{'' if number == 1 else 's'}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
