"""What a run shows: a bar while it works, silent when nobody watches, and four lines at its end."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from amsfl.cli.output import on_terminal, plain, screen
from amsfl.core import Score
from amsfl.core.records import Json, JsonMapping
from amsfl.core.scores import NUMBERS, recorded_score
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
from amsfl.settings.definitions import Training

if TYPE_CHECKING:
    from amsfl.study.run import TrialBlock
    from amsfl.study.settings import Study

FEW_ROWS = 100  # held out: an accuracy of 0.7 is known to a tenth


@contextmanager
def _bar(title: str, now: str, total: float) -> Iterator[Callable[[float, str, str], None]]:
    """A bar on standard error, and what moves it: how far it is, its title, what happens now."""
    from rich import progress as rich  # here: a file or a pipe has no bar

    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.TextColumn("{task.fields[now]}", markup=False),
        rich.TimeElapsedColumn(),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=screen(stderr=True), transient=True) as bar:
        task = bar.add_task(plain(title), total=total, now=now)

        def move(done: float, title: str, now: str) -> None:
            bar.update(task, completed=done, description=plain(title), now=plain(now))

        yield move


@contextmanager
def watching(config: Training, quiet: bool) -> Iterator[Callable[[RoundRecord], None] | None]:
    """A callback for every round that moves the bar; None when there is no terminal."""
    if quiet or not on_terminal():
        yield None
        return
    from amsfl.simulation.observers import progress

    with _bar(config.method, "reading rows, then compiling", 1.0) as move:

        def moved(record: RoundRecord) -> None:
            done, text = progress(record, config)
            move(done, config.method, text)

        yield moved


@contextmanager
def watching_study(
    plan: "Study", blocks: list["TrialBlock"]
) -> Iterator[Callable[["TrialBlock", int, RoundRecord], None]]:
    """A callback for every round of every trial that moves the bar, where there is a terminal."""
    if not blocks or not on_terminal():
        yield lambda *_: None
        return
    from amsfl.simulation.observers import progress

    configs = {entry: plan.config(entry) for entry, _ in blocks}
    done: dict[tuple[str, int], float] = {}
    total = sum(len(trials) for _, trials in blocks)
    with _bar(blocks[0][0], f"{total} trials left", total) as move:

        def moved(block: "TrialBlock", place: int, record: RoundRecord) -> None:
            entry, trials = block
            done[entry, trials[place]] = min(1.0, progress(record, configs[entry])[0])
            left = total - sum(part >= 1 for part in done.values())
            what = f"{entry}, trial {trials[0] + 1}" + (f" to {trials[-1] + 1}" if len(trials) > 1 else "")
            move(sum(done.values()), what, f"{left} trials left")

        yield moved


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
    since = summary.rounds - (summary.best or {}).get("round", summary.rounds)
    if 0 < made.settings.get("stop_after", 0) <= since and summary.rounds != made.settings["rounds"]:
        said.append(f"It ended early: the last {since} of {summary.rounds} rounds were no better.")
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
    base = round(found.base, 4) + 0.0  # the mean's R² is 0 but for rounding
    return f"{found.score.heading} {found.value:.4g} ({of}), beside {base:.4g} of {beside}."


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
        return f"There are {some} on how the table was read: `amsfl data` with the same flags."
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
