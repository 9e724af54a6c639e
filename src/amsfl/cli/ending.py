"""The end of a run in four lines: how good the model is, where it is, what to type next, what is wrong."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from amsfl.core import Score
from amsfl.core.records import Json, JsonMapping
from amsfl.core.scores import NUMBERS, describe_scores, recorded_score
from amsfl.record import Manifest, RoundRecord, Summary
from amsfl.report.sentences import ranking_advice
from amsfl.report.statistics import (
    CHANCE_AUC,
    auc_margin,
    chance_margin,
    class_counts,
    constant_score,
    score_interval,
)

FEW_ROWS = 100  # held out: an accuracy of 0.7 is known to a tenth


class Standing(NamedTuple):
    """The model that predicts, on rows that nobody trains on, beside a constant prediction."""

    score: Score
    value: float
    rows: int
    base: float
    better: bool  # than the base by more than chance
    predicted: str  # every time, for the base


def standing(summary: Summary, rounds: Sequence[RoundRecord], data: Json) -> Standing | None:
    """By the score that the run goes by; `data` is what its record says of the data."""
    score = recorded_score(summary.score, data.get("classes") or ())
    value, base = score.of(predicting(summary, rounds)), constant_score(score, data)
    if value is None or base is None:
        return None
    rows = (data.get("eval_rows") or {}).get("holdout", 0)
    margin = chance_margin(score, base, rows, summary.details)
    predicted = "the mean" if score.name in NUMBERS else "the commonest class"
    return Standing(score, value, rows, base, score.gain(value, base) > margin, predicted)


def predicting(summary: Summary, rounds: Sequence[RoundRecord]) -> JsonMapping:
    """Scores of the hold-out by the model that predicts: that of the best round."""
    best = (summary.best or {}).get("round")
    last = summary.metrics.get("holdout", {})
    return next((each.metrics.get("holdout", last) for each in rounds if each.round == best), last)


def lines(
    summary: Summary, rounds: Sequence[RoundRecord], folder: Path, made: Manifest, remarks: int = 0
) -> Iterator[str]:
    """What a run says at its end; `remarks`: how many there are on the table."""
    data = made.about["data"]
    found = standing(summary, rounds, data)
    said = [] if found is None else [_score(found)]
    if summary.target is not None and summary.seconds_to_target is not None:
        said.append(
            f"Target {_target(summary)} reached after {summary.seconds_to_target:.1f} virtual seconds, in "
            f"round {summary.rounds_to_target}."
        )
    if summary.epsilon:
        said.append(f"Every client's epsilon is {max(summary.epsilon.values()):.3g} at most.")
    yield " ".join(said) or f"{summary.rounds} rounds are done."
    yield f"Record: {folder}"
    table = summary.data.startswith(("csv:", "table:"))
    yield f"Next: amsfl predict {folder} NEW_ROWS.csv" if table else f"Next: amsfl report {folder}"
    if wrong := _wrong(summary, found, made, remarks):
        yield wrong


def _score(found: Standing) -> str:
    of = f"on {found.rows:,} rows that nobody trained on"
    interval = score_interval(found.score, found.value, found.rows)
    of = of if interval is None else f"95% interval {interval[0]:.3f} to {interval[1]:.3f}, {of}"
    beside = "chance" if found.score.ranks else f"always predicting {found.predicted}"
    return f"{found.score.heading} {found.value:.4g} ({of}), beside {found.base:.4g} of {beside}."


def _wrong(summary: Summary, found: Standing | None, made: Manifest, remarks: int) -> str:
    """The first thing that is: one sentence, or two."""
    if summary.synthetic or (summary.epsilon and summary.note):
        return str(made.about["data"]["note"]) if summary.synthetic else summary.note
    if found is not None and not found.better:
        return _poor(summary, found, made.settings)
    if summary.target is not None and summary.seconds_to_target is None:
        return f"The target {_target(summary)} was not reached; --rounds gives it more time."
    if remarks:
        some = "one remark" if remarks == 1 else f"{remarks} remarks"
        return f"There are {some} on how the table was read: --verbose, or `amsfl data` with the same flags."
    return ""


def _poor(summary: Summary, found: Standing, settings: Json) -> str:
    """What a model that is not better than a constant can do, and what to try."""
    said = f"This is not surely better than always predicting {found.predicted}"
    if found.rows < FEW_ROWS:
        return f"{said}: {found.rows} held-out rows are few to tell by; more rows of the table help most."
    auc = summary.details.get("splits", {}).get("holdout", {}).get("macro_auc")
    counts = class_counts(summary.details)
    if auc is not None and not found.score.ranks and auc - CHANCE_AUC > auc_margin(counts):
        advice = ranking_advice(max(counts) / sum(counts), settings)
        return f"{said}; its AUC of {auc:.3g} is above chance: {advice}."
    return f"{said}: try more --rounds, another --lr, or columns that say more."


def _target(summary: Summary) -> str:
    return f"{'' if summary.score == 'accuracy' else summary.score + ' '}{summary.target}"


def details(summary: Summary) -> Iterator[str]:
    """All else that --verbose says."""
    from amsfl.simulation.summary import sentence

    spent = f"{(summary.bytes_up + summary.bytes_down) / 1e6:.4g} MB"
    spent += "" if summary.joules is None else f", {summary.joules:.4g} J"
    spent += "" if summary.cost is None else f", cost {summary.cost:.4g}"
    yield (
        f"{summary.method} on {summary.data}: {summary.rounds} rounds, {summary.virtual_seconds:.1f} virtual "
        f"seconds ({summary.clock} clock), {sum(summary.steps.values())} client steps, {spent}"
    )
    for split, scores in summary.metrics.items():
        yield f"last round, {split}: {describe_scores(scores)}"
    if best := summary.best:
        yield f"best round: {best['round']}, {best['by']} {best['score']:.4g} of the hold-out: it predicts"
    if saved := sentence(summary.verdict):
        yield saved
    if summary.note:
        yield summary.note
