"""What a run and a comparison say: who is soonest, who ends highest and whether surely, and what to do.

The reference is compared with every other method, and by these comparisons alone anybody is surely better:
p below 0.05 by paired t tests after Holm's correction for how many others there are. The table of tests has
the same numbers.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from amsfl.core.records import Json
from amsfl.core.scores import UNBALANCED
from amsfl.report.read import differing, listed, plural, with_article
from amsfl.report.statistics import ENOUGH, SURE

if TYPE_CHECKING:
    from amsfl.report.comparison import Comparison

DEFAULT = "amsfl"  # the method of a run that names none
FEW = 5  # trials
EASY = 2  # rounds: a target that all methods reach so soon does not separate them
# settings that may differ in a comparison
CHOICES = {"model": "model", "cohort": "clients a round", "batch": "rows a step", "precision": "precision"}


def ranking_advice(base: float, settings: Json) -> str:
    """For a model that ranks rows but predicts no better than a constant; not what settings have already."""
    if base < UNBALANCED:
        return "the model ranks rows, and more rounds may make it predict, too"
    ways = {"score": "judge it by --score auc", "class_weights": "train with --class-weights balanced"}
    left = [way for name, way in ways.items() if not settings.get(name)]
    return "the model ranks rows" + (f"; {', or '.join(left)}" if left else "")


def scope(c: "Comparison") -> str:
    """What was run."""
    counts = sorted({len(one.trials) for one in c.methods.values()})
    kinds = len({one.name for one in c.methods.values()})
    entries = f" in {len(c.methods)} entries" if len(c.methods) > kinds else ""
    trials = f"{counts[0]} trial{'s' if counts[-1] > 1 else ''}"
    trials = trials if len(counts) == 1 else f"{counts[0]} to {counts[-1]} trials"
    return f"{plural(kinds, 'method').capitalize()}{entries}, {trials} on {c.data}, {c.clock} clock."


def answer(c: "Comparison") -> list[str]:
    """The sentences at the top of a page and at the end of a command."""
    if c.differences:
        return [
            f"No method is named the best, since these records differ in {'. In '.join(c.differences)}. To "
            "compare methods, run them in one study: 'amsfl compare --methods A,B'."
        ]
    if all(math.isnan(c.mean(key, c.final)) for key in c.methods):
        return [f"No {c.score.title} is on record, so there is nothing to compare by."]
    if not c.able:
        return [_nobody(c)]
    if len(c.methods) == 1:
        return [_alone(c)]
    return [_soonest(c), _highest(c), f"{_what_to_do(c)}{_doubt(c)}"]


def brackets(c: "Comparison") -> str:
    """What brackets and `surely` mean, everywhere in a report."""
    if max(len(one.trials) for one in c.methods.values()) < 2:
        return ""
    text = "Brackets hold 95% intervals of means over trials (Student's t; of ratios on their logarithms)."
    if not len(c.tests):
        return text
    many = len(c.tests)
    correction = (
        f"Holm's correction for {many} comparisons" if many > 1 else "no correction: it is one comparison"
    )
    return f"{text} Surely: p below {SURE} by paired t tests, after {correction}."


def _soonest(c: "Comparison") -> str:
    """Of those that always reached the target, and by how much."""
    if c.target is None:
        return "No level is above the base rate, so nobody is soonest there."
    arrived = [key for key in c.able if c.reached(key)]
    if not arrived:
        return f"No method reached {c.goal} in all its trials, so none is soonest."
    pace = {key: c.mean(key, "least_seconds") for key in arrived}
    if c.reference in arrived:  # trial by trial, as in the table of tests
        pace = {key: 1.0 if key == c.reference else c.tests.loc[key, "speedup"] for key in arrived}
    first = min(arrived, key=lambda key: (pace[key], key != c.reference))
    trials = len(c.methods[first].trials)
    when = f"after {c.mean(first, 'least_seconds'):.1f} virtual seconds"
    when += f" on average over {trials} trials" if trials > 1 else ""
    lead = f"{c.label(first)} is soonest at {c.goal}, {when}"
    return _beside(c, lead, first, "speedup", "before", "after")


def _highest(c: "Comparison") -> str:
    """By the score at the end, and whether surely."""
    name, up = c.final, c.score.larger
    first = max(c.able, key=lambda key: (c.score.gain(c.mean(key, name), 0.0), key == c.reference))
    where, above, below = ("highest", "above", "below") if up else ("lowest", "below", "above")
    lead = (
        f"{c.label(first)} ends {where}, at {with_article(c.score.title)} of {number(c, c.mean(first, name))}"
    )
    return _beside(c, lead, first, "gain", above, below)


def _beside(c: "Comparison", lead: str, first: str, measure: str, before: str, after: str) -> str:
    """How the reference stands to all others; where it leads, and by how much it is ahead of the nearest one
    that it is not surely ahead of."""
    if c.reference not in c.able:
        return f"{lead}."
    apart = times_as_fast if measure == "speedup" else points_above
    others = [key for key in c.tests.index if key in c.able and key != first]
    stands = _parts(c, measure, before, after, others)
    if first != c.reference:
        certain = "surely" if c.sure(first, measure) < 0 else "not surely"
        rest = f"; {c.label(c.reference)} is {stands}" if others else ""
        return f"{lead}: {apart(c, first, turned=True)}, {certain}{rest}."
    if not others:
        return f"{lead}, the only one better than the base rate."
    unsure = [key for key in others if c.sure(key, measure) <= 0]
    nearest = c.tests.loc[unsure or others, measure].idxmin()
    return f"{lead}: {stands} ({apart(c, nearest)})."


def _parts(c: "Comparison", measure: str, before: str, after: str, others: Sequence[str]) -> str:
    """As in `surely before A and B, surely after C, not surely apart from D`."""
    ways = {1: f"surely {before}", -1: f"surely {after}", 0: f"not surely {before}"}
    groups = {way: [c.label(key) for key in others if c.sure(key, measure) == way] for way in ways}
    return ", ".join(f"{ways[way]} {listed(names)}" for way, names in groups.items() if names)


def times_as_fast(c: "Comparison", key: str, turned: bool = False) -> str:
    """As in `1.31 times as fast as FedAvg [1.12, 1.53]`; `turned`: the other one over the reference."""
    row = c.tests.loc[key]
    value, low, high = row["speedup"], row["speedup_low"], row["speedup_high"]
    if math.isnan(value):
        return f"{c.label(key)} has no trial in common"
    if turned:
        value, low, high = 1 / value, 1 / high, 1 / low
    slower = c.reference if turned else key
    least = "" if c.reached(slower) else "at least "
    return f"{least}{value:.2f} times as fast as {c.label(slower)}{_interval(low, high, '.2f')}"


def points_above(c: "Comparison", key: str, turned: bool = False) -> str:
    """As in `0.3 points [-0.1, 0.7] above FedAvg`; errors in their own units."""
    value, low, high = (c.tests.loc[key, f"gain{end}"] for end in ("", "_low", "_high"))
    if turned:
        value, low, high = -value, -high, -low
    form, unit = (".1f", " points") if c.score.most == 1 else (".3g", "")
    where, other = "above" if c.score.larger else "below", c.label(c.reference if turned else key)
    return f"{value:z{form}}{unit}{_interval(low, high, form)} {where} {other}"


def _interval(low: float, high: float, form: str) -> str:
    return "" if math.isnan(low) else f" [{low:z{form}}, {high:z{form}}]"


def _what_to_do(c: "Comparison") -> str:
    """By what is sure, and by nothing else."""
    ours = c.label(c.reference)
    default = f"the default, {ours}" if c.methods[c.reference].name == DEFAULT else ours
    if c.reference not in c.able:
        others = listed(map(c.label, c.able))
        return f"What to do: use {others} here; {ours} ends no better than the base rate."
    sooner = [key for key in c.tests.index if key in c.able and c.sure(key, "speedup") < 0]
    higher = [key for key in c.tests.index if key in c.able and c.sure(key, "gain") < 0]
    if not sooner and not higher:
        ends = "higher" if c.score.larger else "lower"
        return f"What to do: keep {default}; no other is surely sooner or surely ends {ends}."
    both = [key for key in sooner if key in higher]
    if both:
        return (
            f"What to do: use {_best(c, both)} here; it is surely sooner than {ours} and surely ends better."
        )
    said = []
    if sooner:
        one = min(sooner, key=lambda key: c.mean(key, "least_seconds"))
        loses = c.sure(one, "gain") > 0
        said.append(
            f"use {c.label(one)} where time counts" + (", though it surely ends worse" if loses else "")
        )
    if higher:
        slow = any(c.sure(key, "speedup") > 0 for key in higher)
        said.append(f"use {_best(c, higher)} where the score at the end counts")
        said += [f"keep {default} where time does"] if slow and not sooner else []
    return f"What to do: {'; '.join(said)}."


def _best(c: "Comparison", keys: Sequence[str]) -> str:
    return c.label(max(keys, key=lambda key: c.score.gain(c.mean(key, c.final), 0.0)))


def _doubt(c: "Comparison") -> str:
    """What would say more, where this comparison says little."""
    trials = min(len(one.trials) for one in c.methods.values())
    behind = [key for key in c.methods if key not in c.able]
    if behind:
        what = "more --rounds or --seconds" if _were_searched(c) else "another --lr or --steps"
        return f" Not beaten yet, at the base rate: {listed(map(c.label, behind))}; {what} may lift them."
    arrived = c.target is not None and all(map(c.reached, c.methods))
    if arrived and max(c.mean(key, "least_rounds") for key in c.methods) <= EASY:
        harder = "higher" if c.score.larger else "lower"
        return f" All reach {c.goal} within {plural(EASY, 'round')}: a {harder} --target separates them."
    if trials < ENOUGH:
        return f" Of {plural(trials, 'trial')} nothing is sure: --trials 5."
    return (
        f" Of {plural(trials, 'trial')} only large differences are sure: --trials 10." if trials < FEW else ""
    )


def _alone(c: "Comparison") -> str:
    """Of one method."""
    key = c.reference
    what = "" if c.score.name == "accuracy" else f"{c.score.title} "
    text = f"{c.label(key)} ends at {what}{number(c, c.mean(key, c.final))} on the {c.splits['holdout']}"
    if "holdout" in c.base:
        text += f", where always predicting {c.base_name} scores {number(c, c.base['holdout'])}"
    if c.target is not None and c.reached(key):
        text += f"; it reached {c.goal} after {c.mean(key, 'least_seconds'):.1f} virtual seconds"
    best = c.methods[key].trials[0].summary.best
    if len(c.trials) == 1 and best and best["by"] == c.score.name:
        text += f". The model of round {best['round']}, the best, predicts: {number(c, best['score'])}"
    return f"{text}. 'amsfl compare' runs other methods in the same setting."


def _nobody(c: "Comparison") -> str:
    """Nothing is better than the base rate: what to try depends on the classes and on what was searched."""
    if "holdout" not in c.base or all(c.diverged(key) == len(one.trials) for key, one in c.methods.items()):
        return "No method stayed finite in any trial. Next: a learning rate ten times smaller (--lr)."
    ended = [key for key in c.methods if not math.isnan(c.mean(key, c.final))]
    best = max(ended, key=lambda key: c.score.gain(c.mean(key, c.final), 0.0))
    margin = f" ± {c.margin:.2g}" if c.score.most == 1 else ""
    text = (
        f"No method is better than always predicting {c.base_name}: the best, {c.label(best)}, ends at "
        f"{with_article(c.score.title)} of {number(c, c.mean(best, c.final))}, where that scores "
        f"{number(c, c.base['holdout'])}{margin}. Nothing follows about the methods. Next: "
    )
    ranks = {key: c.mean(key, "macro_auc_holdout") for key in ended}
    if c.score.name == "accuracy" and any(auc > 0.55 for auc in ranks.values()):
        values = listed(f"{c.label(key)} {auc:.3f}" for key, auc in ranks.items())
        advice = ranking_advice(c.base["holdout"], c.methods[c.reference].settings)
        return f"{text}AUC is above chance ({values}): {advice}."
    longer = "more --rounds or --seconds (learning rates were searched already)"
    longer = longer if _were_searched(c) else "other learning rates (--lr) or more --rounds"
    if not c.is_regression and c.base["holdout"] >= UNBALANCED:
        return f"{text}{longer}, and --class-weights balanced with --score auc: most rows are of one class."
    return f"{text}{longer}, or other columns: these may not tell what is predicted."


def _were_searched(c: "Comparison") -> bool:
    return any(one.settings.get("searched") for one in c.methods.values())


def notes(c: "Comparison") -> list[str]:
    """What a reader must know before comparing the numbers; notes on single methods stand with the method."""
    lost = [
        f"{c.label(key)} in {n} of {len(one.trials)} trials"
        for key, one in c.methods.items()
        if (n := c.diverged(key))
    ]
    choices = [
        text
        for key, title in CHOICES.items()
        for text in differing(title, (one.settings.get(key) for one in c.methods.values()))
    ]
    level = f"No target was set: times are to {c.goal}, 95% of the way from the base rate to the best end."
    return [
        *([f"Diverged, the model no longer finite: {', '.join(lost)}."] if lost else []),
        *([level] if c.in_hindsight and c.target is not None else []),
        *_at_base_rate(c),
        *_searched(c),
        *([f"Settings that differ: {'. '.join(choices)}."] if choices else []),
    ]


def _at_base_rate(c: "Comparison") -> list[str]:
    behind = [key for key in c.methods if key not in c.able and not math.isnan(c.mean(key, c.final))]
    if not behind or not c.able or "holdout" not in c.base:
        return []
    ends = ", ".join(f"{c.label(key)} ends at {number(c, c.mean(key, c.final))}" for key in behind)
    margin = f" ± {c.margin:.2g}" if c.score.most == 1 else ""
    return [
        f"Not better than the base rate: {ends}. Always predicting {c.base_name} scores "
        f"{with_article(c.score.title)} of {number(c, c.base['holdout'])}{margin}."
    ]


def _searched(c: "Comparison") -> list[str]:
    """For which methods settings were searched before the trials, and the result."""
    found = {key: search for key, one in c.methods.items() if (search := one.settings.get("searched"))}
    if not found:
        return []
    results = "; ".join(
        f"{c.label(key)} {', '.join(f'{name} {value:g}' for name, value in search['found'].items())} "
        f"(of {len({(each.get('lr'), each.get('steps')) for each in search['tried']})})"
        for key, search in found.items()
    )
    others = [c.label(key) for key in c.methods if key not in found]
    rest = f" Nothing was searched for {', '.join(others)}." if others else ""
    return [
        "Settings were searched before the trials, with a seed of its own, on training rows held "
        f"back and never on the hold-out: {results}.{rest}"
    ]


def number(c: "Comparison", value: float) -> str:
    """A score in a sentence."""
    return f"{value:z.3f}" if c.score.most == 1 else f"{value:.4g}"
