"""What agrees with the paper and what does not, in sentences made from the numbers alone."""

from collections.abc import Callable
from typing import NamedTuple

from amsfl.report.measure.measures import Measured
from amsfl.report.measure.paper import PAPER, TARGET
from amsfl.report.measure.stats import Estimate
from amsfl.report.measure.subject import Study


class Claim(NamedTuple):
    holds: bool | None  # None: cannot be said from what is finished
    text: str


def overview(study: Study) -> str:
    """The result in three sentences."""
    trials = [len(one.values) for one in study.found]
    count = f"{trials[0]}" if len(set(trials)) == 1 else f"{min(trials)} to {max(trials)}"
    kinds = len({one.series.method for one in study.found})
    entries = f" in {len(study.found)} entries" if len(study.found) > kinds else ""
    parts = [f"{_number(kinds, 'method')}{entries} over {count} trial{_s(max(trials))} on {study.data}."]
    top = max(study.found, key=lambda one: _value(one, "accuracy_holdout"))
    parts.append(f"Highest hold-out accuracy: {top.series.label}, {_value(top, 'accuracy_holdout'):.4f}.")
    if study.target is not None:
        parts.append(_fastest(study))
    return " ".join(parts)


def _fastest(study: Study) -> str:
    """Who is first, and whether the reference's interval keeps clear of the others'."""
    goal = f"{100 * (study.target or 0):g}%"
    name = f"least_{study.clock}"
    got = [one for one in study.found if sum(one.known("reached")) > 0]
    if not got:
        return f"No method reached {goal}."
    order = sorted(got, key=lambda one: _value(one, name))
    first, ours = order[0], study.reference
    text = (
        f"First to {goal}: {first.series.label}, after {_value(first, name):.1f} virtual seconds on average."
    )
    if ours in order and first is not ours:
        place = order.index(ours) + 1
        text += (
            f" {ours.series.label} is number {place} of {len(study.found)}, after {_value(ours, name):.1f} s."
        )
    mine = ours.mean(name)
    touching = [one.series.label for one in study.rest if _touch(mine, one.mean(name))]
    if first is ours and study.rest and mine and mine.low is not None:
        text += (
            f" Its interval touches that of {_list(touching)}."
            if touching
            else " Its 95% interval touches no other method's."
        )
    return text


def protocol(study: Study) -> str:
    return (
        "The paper does not state its model, learning rate, split, client speeds or budget a round, and its "
        "two tables disagree about the time of a round (0.58 s and 2.13 s for AMSFL). Ours is a different "
        "protocol, stated below in full; its settings were chosen once on other seeds and nothing was tuned "
        "to match the paper's numbers. So orders and ratios can be compared, levels and seconds cannot."
    )


def claims(study: Study) -> list[Claim]:
    """Each of the paper's statements held against our numbers; empty where the paper has no place."""
    by_key = {one.series.key: one for one in study.found}
    if not study.paper or "amsfl" not in by_key or len(by_key) < 2:
        return []
    ours = by_key["amsfl"]
    checks: list[Callable[[Study, dict[str, Measured], Measured], Claim]] = [_accuracy, _round_time]
    if study.target == TARGET:
        checks += [_convergence, _rounds]
    return [check(study, by_key, ours) for check in [*checks, _clients, _spread, _level]]


def _accuracy(study: Study, by_key: dict[str, Measured], ours: Measured) -> Claim:
    rest = [one for one in by_key.values() if one is not ours]
    best = max(rest, key=lambda one: _value(one, "accuracy_holdout"))
    mine, other = _value(ours, "accuracy_holdout"), _value(best, "accuracy_holdout")
    text = (
        f"AMSFL has the highest global accuracy (paper: {PAPER['amsfl'].accuracy:.4f}, next FedDyn "
        f"{PAPER['feddyn'].accuracy:.4f}). Ours: AMSFL {mine:.4f}, best other {best.series.label} {other:.4f}"
        f"{_unclear(ours, best, 'accuracy_holdout')}."
    )
    return Claim(None if _close(ours, best, "accuracy_holdout") else mine > other, text)


def _round_time(study: Study, by_key: dict[str, Measured], ours: Measured) -> Claim:
    name = f"round_seconds_{study.clock}"
    rest = [one for one in by_key.values() if one is not ours]
    best = min(rest, key=lambda one: _value(one, name))
    text = (
        f"AMSFL's rounds are the shortest (paper: 0.58 s, next FedDyn 0.83 s). Ours: AMSFL "
        f"{_value(ours, name):.2f} s, shortest other {best.series.label} {_value(best, name):.2f} s. A "
        "round's length follows from its steps, and those of the other methods are a setting."
    )
    return Claim(_value(ours, name) < _value(best, name), text)


def _convergence(study: Study, by_key: dict[str, Measured], ours: Measured) -> Claim:
    name = f"least_{study.clock}"
    rest = [one for one in by_key.values() if one is not ours]
    best = min(rest, key=lambda one: _value(one, name))
    mine, other = _value(ours, name), _value(best, name)
    text = (
        f"AMSFL is first to 89% (paper: 49.03 s, next FedAvg 54.56 s, 1.11 times as long). Ours: AMSFL "
        f"{mine:.1f} s, fastest other {best.series.label} {other:.1f} s, {other / mine:.2f} times as long"
        f"{_unclear(ours, best, name)}."
    )
    return Claim(None if _close(ours, best, name) else mine < other, text)


def _rounds(study: Study, by_key: dict[str, Measured], ours: Measured) -> Claim:
    if "fedavg" not in by_key:
        return Claim(
            None, "AMSFL needs more rounds than FedAvg to 89% (paper: 23 and 13). FedAvg is not finished."
        )
    mine, other = _value(ours, "least_rounds"), _value(by_key["fedavg"], "least_rounds")
    text = f"AMSFL needs more rounds than FedAvg to 89% (paper: 23 and 13). Ours: {mine:.1f} and {other:.1f}."
    return Claim(mine > other, text)


def _clients(study: Study, by_key: dict[str, Measured], ours: Measured) -> Claim:
    below = total = 0
    for one in by_key.values():
        whole = _value(one, "accuracy_holdout")
        scores = [one.mean(f"accuracy_holdout_c{i}") for i in range(1, study.clients + 1)]
        below += sum(score.mean < whole for score in scores if score)
        total += sum(score is not None for score in scores)
    if not total:
        return Claim(None, "A client's own model scores below the global one. No trial has clients' scores.")
    text = (
        "Clients' own models score below the global one (paper: 34 of 35; FedCSDA's second is the "
        f"exception). Ours: {below} of {total} means."
    )
    return Claim(below > total / 2, text)


def _spread(study: Study, by_key: dict[str, Measured], ours: Measured) -> Claim:
    whole = {key: one for key, one in by_key.items() if not one.series.diverged}
    spreads = {key: found.sd for key, one in whole.items() if (found := one.mean("accuracy_holdout"))}
    known = {key: sd for key, sd in spreads.items() if sd is not None}
    if "amsfl" not in known or len(known) < 2:
        return Claim(
            None, "AMSFL varies least over trials (paper: a figure without numbers). Too few trials."
        )
    least = min(known, key=lambda key: known[key])
    text = (
        f"AMSFL varies least over trials (paper: a figure without numbers). Ours: standard deviation of "
        f"accuracy {known['amsfl']:.4f}; least {by_key[least].series.label}, {known[least]:.4f}."
    )
    return Claim(least == "amsfl", text)


def _level(study: Study, by_key: dict[str, Measured], ours: Measured) -> Claim:
    means = [_value(one, "accuracy_holdout") for one in by_key.values()]
    printed = [PAPER[key].accuracy for key in by_key if key in PAPER]
    text = (
        f"Global accuracies lie between {min(printed):.3f} and {max(printed):.3f} in the paper and between "
        f"{min(means):.3f} and {max(means):.3f} on our hold-out"
    )
    if study.has_test:
        tests = [_value(one, "accuracy_test") for one in by_key.values()]
        text += (
            f"; on {study.test}, which holds attacks that training never shows and which the paper does not "
            f"report, between {min(tests):.3f} and {max(tests):.3f}"
        )
    overlap = min(means) <= max(printed) and min(printed) <= max(means)
    return Claim(overlap, text + ".")


def _close(ours: Measured, other: Measured, name: str) -> bool:
    return _touch(ours.mean(name), other.mean(name))


def _unclear(ours: Measured, other: Measured, name: str) -> str:
    return "; their intervals touch" if _close(ours, other, name) else ""


def _touch(one: Estimate | None, two: Estimate | None) -> bool:
    """Whether intervals have a point in common; without intervals nothing is kept apart."""
    if (
        one is None
        or two is None
        or one.low is None
        or two.low is None
        or one.high is None
        or two.high is None
    ):
        return True
    return one.low <= two.high and two.low <= one.high


def _value(one: Measured, name: str) -> float:
    found = one.mean(name)
    return found.mean if found else float("nan")


def _number(count: int, what: str) -> str:
    words = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine"]
    return f"{words[count] if count < len(words) else count} {what}{_s(count)}"


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
