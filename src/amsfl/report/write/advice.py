"""The paragraph at the top: what to use in this setting, by how much and how surely, what to try next."""

import math

from amsfl.report.measure.curves import FEW
from amsfl.report.measure.measures import Measured, pairs
from amsfl.report.measure.ranking import Verdict, points, sure, verdict
from amsfl.report.measure.stats import Estimate
from amsfl.report.measure.subject import Study
from amsfl.report.write.numbers import count, listed, plural

LEVEL = 0.005  # times as fast, or points: nothing that could be printed
EASY = 2  # rounds: a target that all reach so soon tells nothing


def scope(study: Study) -> str:
    """What was run, in one sentence."""
    trials = [len(one.values) for one in study.found]
    counted = f"{trials[0]}" if len(set(trials)) == 1 else f"{min(trials)} to {max(trials)}"
    kinds = len({one.series.method for one in study.found})
    entries = f" in {len(study.found)} entries" if len(study.found) > kinds else ""
    each = "trial" if max(trials) == 1 else "trials"
    return f"{plural(kinds, 'method').capitalize()}{entries} over {counted} {each} on {study.data}."


def advice(study: Study) -> str:
    """Sentences from the numbers alone."""
    if study.unlike:
        return (
            f"Nobody is named the best: these records differ in {listed([_what(d) for d in study.unlike])}. "
            "To compare methods, run them in one study: 'amsfl compare --methods A,B'."
        )
    if not any(one.known(study.score.measure("holdout")) for one in study.found):
        return f"No {study.score.title} is on record, so there is nothing to compare by."
    found = verdict(study)
    if found is None:
        return (
            f"No method learned anything here: none stayed finite and ends better than {study.naive} "
            "scores. Nothing follows about the methods. Try other learning rates (--lr, ten times smaller "
            "and larger) or more --seconds."
        )
    if len(study.found) == 1:
        return _alone(study, found.best)
    return " ".join([_choice(study, found), *_accuracy(study, found), _next(study, found)])


def _what(difference: str) -> str:
    return difference.partition(":")[0]


def _alone(study: Study, one: Measured) -> str:
    what = "" if study.score.name == "accuracy" else f"{study.score.title} "
    value = study.number(one.value(study.score.measure("holdout")))
    text = f"{one.label} ends at {what}{value} on the {study.judge}"
    if "holdout" in study.base:
        text += f", where {study.naive} scores {study.number(study.base['holdout'])}"
    return f"{text}. It has nothing to be held against: 'amsfl compare' runs others in the same setting."


def _choice(study: Study, found: Verdict) -> str:
    best, trials = found.best, len(found.best.values)
    if found.by_time:
        level = f"{best.value(f'least_{study.clock}'):.1f} virtual seconds"
        fact = f"it is first to {study.goal}, after {level}"
    else:
        score = study.score
        article = "an" if score.title[0] in "aeiouR" else "a"
        level = f"{article} {score.title} of {best.value(score.measure('holdout')):.4g} on the {study.judge}"
        fact = f"it ends {'highest' if score.larger else 'lowest'}, at {level}"
    fact += f" on average over {trials} trials" if trials > 1 else ""
    missed = ""
    if study.target is not None and not found.by_time:
        missed = f"No method reached {study.goal} in all its trials; by {study.score.title} at the end: "
    if not found.rivals:
        return f"{missed}{best.label} is the only one that learned something: {fact}."
    ties = [one.label for one, _ in found.ties]
    if ties and all(margin and abs(margin.mean - found.nothing) < LEVEL for _, margin in found.ties):
        return f"{missed}{listed([best.label, *ties])} are level here, at {level}."
    if trials == 1:
        lead = f"One trial is a hint, no result: {best.label} leads"
    elif ties:
        lead = f"{best.label} leads, and is not surely ahead of {listed(ties)}"
    else:
        lead = f"Use {best.label} in this setting"
    return f"{missed}{lead}: {fact}{_margin(study, found, *(found.ties or found.rivals)[0])}."


def _margin(study: Study, found: Verdict, other: Measured, margin: Estimate | None) -> str:
    """As in `, 1.31 times as fast as FedAvg (95% interval 1.12 to 1.53)`."""
    if margin is None:
        return ""
    digits = 2 if found.by_time else 1
    if not found.by_time and study.score.most > 1:
        digits, text = 3, f", {margin.mean:.3g} below {other.label}"
    elif not found.by_time:
        text = f", {margin.mean:.1f} points above {other.label}"
    elif margin.mean < 1:  # earlier by the mean of seconds, later by that of ratios
        text, margin = (
            f"; trial by trial {other.label} is {1 / margin.mean:.2f} times as fast",
            _turned(margin),
        )
    elif other.arrived:
        text = f", {margin.mean:.2f} times as fast as {other.label}"
    else:
        hits = int(sum(other.known("reached")))
        text = f", at least {margin.mean:.2f} times as fast as {other.label}, which got there in "
        text += f"{hits} of {len(other.values)} trials"
    if margin.low is None or margin.high is None:
        return text
    return f"{text} (95% interval {margin.low:.{digits}f} to {margin.high:.{digits}f})"


def _turned(margin: Estimate) -> Estimate:
    """A ratio seen from the other side."""
    ends = (margin.high, margin.low)
    low, high = (None if end is None else 1 / end if end else math.inf for end in ends)
    return margin._replace(mean=1 / margin.mean, low=low, high=high)


def _accuracy(study: Study, found: Verdict) -> list[str]:
    """Who is fast need not be good: said where another one surely ends higher."""
    if not found.by_time or not found.rivals:
        return []
    score, name = study.score, study.score.measure("holdout")
    top, next_best, *_ = sorted(found.order, key=lambda one: score.gain(0.0, one.value(name)))
    other = next_best if top is found.best else found.best
    ahead = points(study, *pairs(top, other, name))
    usual = score.name == "accuracy"
    if ahead is None or (ahead.low is not None and not sure(ahead, ratio=False)):
        return [f"At the end none is surely {'more accurate' if usual else 'better'} than all others."]
    if top is found.best:
        return [f"It also ends with the {'highest' if score.larger else 'lowest'} {score.title}."]
    by = f"{ahead.mean:.1f} points higher" if score.most == 1 else f"{ahead.mean:.3g} lower"
    return [f"If {score.title} at the end counts more: {top.label} ends {by}."]


def _next(study: Study, found: Verdict) -> str:
    trials = min(len(one.values) for one in study.found)
    rounds = [one.value("least_rounds") for one in study.found] if study.target is not None else []
    if study.idle:
        who = listed([one.label for one in study.idle])
        return f"Next: another --lr or --steps for {who}: who learned nothing is not beaten yet."
    if rounds and max(rounds) <= EASY:
        harder = "higher" if study.score.larger else "lower"
        return f"Next: a {harder} --target; all reach {study.goal} within {plural(EASY, 'round')}."
    if trials < FEW:
        return f"Next: --trials 10; with {count(trials)} only large differences show."
    if found.ties:
        return "Next: more --trials, or take the one that is cheapest to run; here it hardly matters."
    if study.target is not None and not found.by_time:
        return "Next: more --seconds or an easier --target, so that times can be compared."
    return "Next: another --partition and --profile, to see whether it holds where you will use it."
