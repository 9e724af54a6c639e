"""What a reader of the numbers must know before comparing them, in sentences."""

from amsfl.core import Score
from amsfl.core.scores import NUMBERS
from amsfl.report.measure.about import judged
from amsfl.report.measure.comparable import choices
from amsfl.report.measure.measures import Measured
from amsfl.report.measure.read import Series, Trial
from amsfl.report.measure.subject import Study

ROUNDING = 0.005  # of an accuracy: one row of two hundred
EXACT = 1e-4  # of a number's error or R², its share


def notes(study: Study) -> list[str]:
    """What a reader of the comparison must know; notes of single methods are their own."""
    return [
        *_diverged(study.found),
        *_idle(study),
        *_twins(study),
        *_rates(study.found),
        *_searched(study.found),
        *choices([one.series for one in study.found]),
    ]


def _diverged(found: list[Measured]) -> list[str]:
    lost = [f"{m.label} in {m.series.diverged} of {len(m.values)} trials" for m in found if m.series.diverged]
    return [f"Diverged, the model no longer finite: {', '.join(lost)}."] if lost else []


def _idle(study: Study) -> list[str]:
    if not study.idle:
        return []
    name = study.score.measure("holdout")
    who = ", ".join(f"{one.label} ends at {study.number(one.value(name))}" for one in study.idle)
    return [
        f"Learned nothing: {who}, and saying {study.naive} every time scores "
        f"{study.number(study.base['holdout'])}. With its settings here it is no rival; give it another lr "
        "or steps."
    ]


def _twins(study: Study) -> list[str]:
    """Methods that come to the same, as FedNova and FedAvg do with equal steps for all."""
    groups: list[list[Measured]] = []
    for one in study.found:
        mine = (g for g in groups if all(_same(study.score, one.series, other.series) for other in g))
        group = next(mine, None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    return [
        f"{', '.join(one.label for one in group[:-1])} and {group[-1].label} come to the same here, round by "
        f"round: no two of their scores are more than {_apart(study.score)} apart."
        for group in groups
        if len(group) > 1
    ]


def _apart(score: Score) -> str:
    return f"{100 * EXACT:g}%" if score.name in NUMBERS else f"{ROUNDING:g}"


def _same(score: Score, one: Series, two: Series) -> bool:
    def far(value: float) -> float:
        return EXACT * abs(value) if score.name in NUMBERS else ROUNDING

    theirs = {trial.seed: _scores(score, trial) for trial in two.trials}
    both = [(_scores(score, trial), theirs[trial.seed]) for trial in one.trials if trial.seed in theirs]
    return bool(both) and all(
        len(a) == len(b) > 2 and all(abs(x - y) <= far(x) for x, y in zip(a, b, strict=True)) for a, b in both
    )


def _scores(score: Score, trial: Trial) -> list[float]:
    return [score.of(judged(record.metrics).get("holdout", {})) or 0.0 for record in trial.rounds]


def _rates(found: list[Measured]) -> list[str]:
    """Learning rates decide as much as steps do: say who chose them, and what the others had."""
    spans = {one.label: (min(rates), max(rates)) for one in found if (rates := _lr(one.series))}
    free = {label: span for label, span in spans.items() if span[0] != span[1]}
    if not free:
        return []
    chosen = "; ".join(f"{label} between {low:.2g} and {high:.2g}" for label, (low, high) in free.items())
    kept = sorted({low for label, (low, _) in spans.items() if label not in free})
    others = f" The others keep theirs: {', '.join(f'{rate:g}' for rate in kept)}." if kept else ""
    return [f"Learning rates are part of what is compared. Chosen from round to round: {chosen}.{others}"]


def _lr(series: Series) -> list[float]:
    # none in a first round: each client caps its steps by its own first minibatch
    return [record.lr for trial in series.trials for record in trial.rounds if record.lr]


def _searched(found: list[Measured]) -> list[str]:
    """What was searched for whom before the trials, and what came of it."""
    mine = {one.label: told for one in found if (told := one.series.settings.get("searched"))}
    if not mine:
        return []
    said = "; ".join(
        f"{label} {', '.join(f'{key} {value:g}' for key, value in told['found'].items())} "
        f"(of {len({(each.get('lr'), each.get('steps')) for each in told['tried']})})"
        for label, told in mine.items()
    )
    others = [one.label for one in found if one.label not in mine]
    rest = f" Nothing was searched for {', '.join(others)}." if others else ""
    level = next(iter(mine.values()))["level"]
    return [
        f"Settings were searched before the trials ({level}), on a seed of its own and on training rows kept "
        f"back, never on the hold-out: {said}.{rest}"
    ]
