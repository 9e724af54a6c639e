"""Which of the paper's claims our numbers agree with, in sentences made from the numbers alone."""

from typing import NamedTuple

from amsfl.report.measure.measures import MeasuredSeries
from amsfl.report.measure.paper import PAPER, TARGET
from amsfl.report.measure.stats import overlap
from amsfl.report.measure.subject import Subject

PROTOCOL = (
    "The paper does not state its model, learning rate, split, client speeds or budget a round, and its two "
    "tables disagree about the time of a round (0.58 s and 2.13 s for AMSFL). Ours is a different protocol, "
    "stated below in full; its settings were chosen once on other seeds and nothing was tuned to match the "
    "paper's numbers. So orders and ratios can be compared, levels and seconds cannot."
)
Methods = dict[str, MeasuredSeries]  # by key


class PaperClaim(NamedTuple):
    holds: bool | None  # None: the finished trials do not tell
    text: str


def claims(subject: Subject) -> list[PaperClaim]:
    """Each of the paper's claims beside our numbers; empty for other studies."""
    methods = {one.series.key: one for one in subject.methods}
    if not subject.paper or "amsfl" not in methods or len(methods) < 2:
        return []
    times = [_convergence(subject, methods), _rounds(methods)] if subject.target == TARGET else []
    return [
        _accuracy(methods),
        _round_time(subject, methods),
        *times,
        _clients(subject, methods),
        _spread(methods),
        _level(subject, methods),
    ]


def _others(methods: Methods) -> list[MeasuredSeries]:
    return [one for key, one in methods.items() if key != "amsfl"]


def _accuracy(methods: Methods) -> PaperClaim:
    name, ours = "accuracy_holdout", methods["amsfl"]
    best = max(_others(methods), key=lambda one: one.value(name))
    close = overlap(ours.mean(name), best.mean(name))
    text = (
        f"AMSFL has the highest global accuracy (paper: {PAPER['amsfl'].accuracy:.4f}, next FedDyn "
        f"{PAPER['feddyn'].accuracy:.4f}). Ours: AMSFL {ours.value(name):.4f}, best other {best.label} "
        f"{best.value(name):.4f}{'; their intervals overlap' if close else ''}."
    )
    return PaperClaim(None if close else ours.value(name) > best.value(name), text)


def _round_time(subject: Subject, methods: Methods) -> PaperClaim:
    name, ours = f"round_seconds_{subject.clock}", methods["amsfl"]
    best = min(_others(methods), key=lambda one: one.value(name))
    text = (
        f"AMSFL's rounds are the shortest (paper: 0.58 s, next FedDyn 0.83 s). Ours: AMSFL "
        f"{ours.value(name):.2f} s, shortest other {best.label} {best.value(name):.2f} s. A "
        "round's length follows from its steps, and those of the other methods are a setting."
    )
    return PaperClaim(ours.value(name) < best.value(name), text)


def _convergence(subject: Subject, methods: Methods) -> PaperClaim:
    name, ours = f"least_{subject.clock}", methods["amsfl"]
    # no lower bound is first
    best = min(_others(methods), key=lambda one: (not one.reached_target, one.value(name)))
    mine, other, close = ours.value(name), best.value(name), overlap(ours.mean(name), best.mean(name))
    text = (
        f"AMSFL is first to 89% (paper: 49.03 s, next FedAvg 54.56 s, 1.11 times as long). Ours: AMSFL "
        f"{mine:.1f} s, fastest other {best.label} {other:.1f} s, {other / mine:.2f} times as long"
        f"{'; their intervals overlap' if close else ''}."
    )
    return PaperClaim(None if close else mine < other, text)


def _rounds(methods: Methods) -> PaperClaim:
    text = "AMSFL needs more rounds than FedAvg to 89% (paper: 23 and 13)."
    if "fedavg" not in methods:
        return PaperClaim(None, f"{text} FedAvg is not finished.")
    mine, other = methods["amsfl"].value("least_rounds"), methods["fedavg"].value("least_rounds")
    return PaperClaim(mine > other, f"{text} Ours: {mine:.1f} and {other:.1f}.")


def _clients(subject: Subject, methods: Methods) -> PaperClaim:
    below = total = 0
    for one in methods.values():
        scores = [one.mean(f"accuracy_holdout_c{i}") for i in range(1, subject.clients + 1)]
        below += sum(score.mean < one.value("accuracy_holdout") for score in scores if score)
        total += sum(score is not None for score in scores)
    text = "Clients' own models score below the global one"
    if not total:
        return PaperClaim(None, f"{text}. No trial has clients' scores.")
    text += f" (paper: 34 of 35; FedCSDA's second is the exception). Ours: {below} of {total} means."
    return PaperClaim(below > total / 2, text)


def _spread(methods: Methods) -> PaperClaim:
    means = {key: one.mean("accuracy_holdout") for key, one in methods.items() if not one.series.diverged}
    sds = {key: mean.sd for key, mean in means.items() if mean and mean.sd is not None}
    text = "AMSFL varies least over trials (paper: a figure without numbers)."
    if "amsfl" not in sds or len(sds) < 2:
        return PaperClaim(None, f"{text} Too few trials.")
    least = min(sds, key=lambda key: sds[key])
    text += f" Ours: standard deviation of accuracy {sds['amsfl']:.4f}; least {methods[least].label}, "
    return PaperClaim(least == "amsfl", f"{text}{sds[least]:.4f}.")


def _level(subject: Subject, methods: Methods) -> PaperClaim:
    means = [one.value("accuracy_holdout") for one in methods.values()]
    printed = [PAPER[key].accuracy for key in methods if key in PAPER]
    text = (
        f"Global accuracies lie between {min(printed):.3f} and {max(printed):.3f} in the paper and between "
        f"{min(means):.3f} and {max(means):.3f} on our hold-out"
    )
    if subject.has_test:
        tests = [one.value("accuracy_test") for one in methods.values()]
        text += (
            f"; on {subject.test}, which has attacks that training never shows and which the paper does not "
            f"report, between {min(tests):.3f} and {max(tests):.3f}"
        )
    return PaperClaim(min(means) <= max(printed) and min(printed) <= max(means), text + ".")
