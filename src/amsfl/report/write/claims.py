"""What agrees with the paper and what does not, in sentences made from the numbers alone."""

from collections.abc import Callable
from typing import NamedTuple

from amsfl.report.measure.measures import Measured
from amsfl.report.measure.paper import PAPER, TARGET
from amsfl.report.measure.stats import touch
from amsfl.report.measure.subject import Study


class Claim(NamedTuple):
    holds: bool | None  # None: cannot be said from what is finished
    text: str


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
    best = max(rest, key=lambda one: one.value("accuracy_holdout"))
    mine, other = ours.value("accuracy_holdout"), best.value("accuracy_holdout")
    text = (
        f"AMSFL has the highest global accuracy (paper: {PAPER['amsfl'].accuracy:.4f}, next FedDyn "
        f"{PAPER['feddyn'].accuracy:.4f}). Ours: AMSFL {mine:.4f}, best other {best.label} {other:.4f}"
        f"{_unclear(ours, best, 'accuracy_holdout')}."
    )
    return Claim(None if _close(ours, best, "accuracy_holdout") else mine > other, text)


def _round_time(study: Study, by_key: dict[str, Measured], ours: Measured) -> Claim:
    name = f"round_seconds_{study.clock}"
    rest = [one for one in by_key.values() if one is not ours]
    best = min(rest, key=lambda one: one.value(name))
    text = (
        f"AMSFL's rounds are the shortest (paper: 0.58 s, next FedDyn 0.83 s). Ours: AMSFL "
        f"{ours.value(name):.2f} s, shortest other {best.label} {best.value(name):.2f} s. A "
        "round's length follows from its steps, and those of the other methods are a setting."
    )
    return Claim(ours.value(name) < best.value(name), text)


def _convergence(study: Study, by_key: dict[str, Measured], ours: Measured) -> Claim:
    name = f"least_{study.clock}"
    rest = [one for one in by_key.values() if one is not ours]
    best = min(rest, key=lambda one: one.value(name))
    mine, other = ours.value(name), best.value(name)
    text = (
        f"AMSFL is first to 89% (paper: 49.03 s, next FedAvg 54.56 s, 1.11 times as long). Ours: AMSFL "
        f"{mine:.1f} s, fastest other {best.label} {other:.1f} s, {other / mine:.2f} times as long"
        f"{_unclear(ours, best, name)}."
    )
    return Claim(None if _close(ours, best, name) else mine < other, text)


def _rounds(study: Study, by_key: dict[str, Measured], ours: Measured) -> Claim:
    if "fedavg" not in by_key:
        return Claim(
            None, "AMSFL needs more rounds than FedAvg to 89% (paper: 23 and 13). FedAvg is not finished."
        )
    mine, other = ours.value("least_rounds"), by_key["fedavg"].value("least_rounds")
    text = f"AMSFL needs more rounds than FedAvg to 89% (paper: 23 and 13). Ours: {mine:.1f} and {other:.1f}."
    return Claim(mine > other, text)


def _clients(study: Study, by_key: dict[str, Measured], ours: Measured) -> Claim:
    below = total = 0
    for one in by_key.values():
        whole = one.value("accuracy_holdout")
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
        f"accuracy {known['amsfl']:.4f}; least {by_key[least].label}, {known[least]:.4f}."
    )
    return Claim(least == "amsfl", text)


def _level(study: Study, by_key: dict[str, Measured], ours: Measured) -> Claim:
    means = [one.value("accuracy_holdout") for one in by_key.values()]
    printed = [PAPER[key].accuracy for key in by_key if key in PAPER]
    text = (
        f"Global accuracies lie between {min(printed):.3f} and {max(printed):.3f} in the paper and between "
        f"{min(means):.3f} and {max(means):.3f} on our hold-out"
    )
    if study.has_test:
        tests = [one.value("accuracy_test") for one in by_key.values()]
        text += (
            f"; on {study.test}, which holds attacks that training never shows and which the paper does not "
            f"report, between {min(tests):.3f} and {max(tests):.3f}"
        )
    overlap = min(means) <= max(printed) and min(printed) <= max(means)
    return Claim(overlap, text + ".")


def _close(ours: Measured, other: Measured, name: str) -> bool:
    return touch(ours.mean(name), other.mean(name))


def _unclear(ours: Measured, other: Measured, name: str) -> str:
    return "; their intervals touch" if _close(ours, other, name) else ""
