"""Bars of a run and of a whole study; silent when nobody watches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from amsfl.cli.output import on_terminal, plain, screen
from amsfl.core.scores import shown_score
from amsfl.record import RoundRecord

if TYPE_CHECKING:
    from amsfl.simulation import Training
    from amsfl.study import Study, TrialBlock


@contextmanager
def loading() -> Iterator[None]:
    """A sign that rows are being read, on a terminal's standard error: a large file takes a while."""
    if not on_terminal():
        yield
        return
    with screen(stderr=True).status("reading rows"):
        yield


def _done(record: RoundRecord, config: "Training") -> float:
    """How much of a run is done, by the limit that it is nearest to."""
    spent = record.seconds[config.clock] / config.seconds if config.seconds else 0.0
    return max(record.round / config.last_round, spent)


@contextmanager
def watching(config: "Training", quiet: bool) -> Iterator[Callable[[RoundRecord], None] | None]:
    """A callback for every round that moves the bar, on standard error; None when there is no terminal."""
    console = screen(stderr=True)
    if quiet or not on_terminal():
        yield None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[now]}", markup=False),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(plain(config.method), total=1.0, now="reading rows, then compiling")

        def moved(record: RoundRecord) -> None:
            spent, done = record.seconds[config.clock], _done(record, config)
            metrics = record.metrics.get("holdout", {})
            which = shown_score(config.score, metrics)
            score = which.of(metrics) if which else None
            if score is not None and which and config.target and which.larger:
                done = max(done, score / config.target)
            shown = "" if score is None or which is None else f"  {which.title} {score:.4g}"
            bar.update(task, completed=done, now=plain(f"round {record.round}  {spent:.1f} s{shown}"))

        yield moved


def duration(seconds: float) -> str:
    """Rounded as a guess should be: 'under a minute', 'about 3 minutes'."""
    if seconds < 55:
        return "under a minute"
    minutes = max(1, round(seconds / 60))
    if minutes < 90:
        return f"about {minutes} minute{'s' if minutes > 1 else ''}"
    return f"about {seconds / 3600:.1f} hours"


@contextmanager
def watching_study(
    plan: "Study", blocks: list["TrialBlock"], quiet: bool
) -> Iterator[Callable[["TrialBlock", int, RoundRecord], None] | None]:
    """A callback for every round of every trial, on standard error; None when there is no terminal."""
    console = screen(stderr=True)
    if quiet or not blocks or not on_terminal():
        yield None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[left]}"),
    )
    configs = {block.entry: plan.config(block.entry) for block in blocks}
    done: dict[tuple[str, int], float] = {}
    total = sum(len(block.trials) for block in blocks)
    with Progress(
        *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, transient=True
    ) as bar:
        task = bar.add_task(plain(blocks[0].entry), total=total, left=f"{total} trials left")

        def moved(block: "TrialBlock", place: int, record: RoundRecord) -> None:
            done[block.entry, block.trials[place]] = min(1.0, _done(record, configs[block.entry]))
            left = total - sum(part >= 1 for part in done.values())
            what = f"{plain(block.entry)}, trial {block.trials[0] + 1}"
            what += f" to {block.trials[-1] + 1}" if len(block.trials) > 1 else ""
            bar.update(task, completed=sum(done.values()), description=what, left=f"{left} trials left")

        yield moved
