"""Bars of a run and of a whole study; silent when nobody watches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich import progress as rich

from amsfl.cli.output import on_terminal, plain, screen
from amsfl.core.scores import shown_score
from amsfl.record import RoundRecord
from amsfl.settings.definitions import Training

if TYPE_CHECKING:
    from amsfl.study import Study, TrialBlock


@contextmanager
def loading() -> Iterator[None]:
    """A sign that rows are being read, on a terminal's standard error: a large file takes a while."""
    if not on_terminal():
        yield
        return
    with screen(stderr=True).status("reading rows"):
        yield


def _done(record: RoundRecord, config: Training) -> float:
    """How much of a run is done, by the limit that it is nearest to."""
    spent = record.seconds[config.clock] / config.seconds if config.seconds else 0.0
    return max(record.round / config.last_round, spent)


@contextmanager
def _bar(
    title: str, now: str, total: float, *times: rich.ProgressColumn
) -> Iterator[Callable[[float, str, str], None]]:
    """A bar on standard error, and what moves it: how far it is, its title, what happens now."""
    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.TextColumn("{task.fields[now]}", markup=False),
    )
    with rich.Progress(*columns, *times, console=screen(stderr=True), transient=True) as bar:
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
    with _bar(config.method, "reading rows, then compiling", 1.0, rich.TimeRemainingColumn()) as move:

        def moved(record: RoundRecord) -> None:
            spent, done = record.seconds[config.clock], _done(record, config)
            metrics = record.metrics.get("holdout", {})
            which = shown_score(config.score, metrics)
            score = which.of(metrics) if which else None
            if score is not None and which and config.target and which.larger:
                done = max(done, score / config.target)
            shown = "" if score is None or which is None else f"  {which.title} {score:.4g}"
            move(done, config.method, f"round {record.round}  {spent:.1f} s{shown}")

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
    """A callback for every round of every trial that moves the bar; None when there is no terminal."""
    if quiet or not blocks or not on_terminal():
        yield None
        return
    configs = {block.entry: plan.config(block.entry) for block in blocks}
    done: dict[tuple[str, int], float] = {}
    total = sum(len(block.trials) for block in blocks)
    times = rich.TimeElapsedColumn(), rich.TimeRemainingColumn()
    with _bar(blocks[0].entry, f"{total} trials left", total, *times) as move:

        def moved(block: "TrialBlock", place: int, record: RoundRecord) -> None:
            done[block.entry, block.trials[place]] = min(1.0, _done(record, configs[block.entry]))
            left = total - sum(part >= 1 for part in done.values())
            what = f"{block.entry}, trial {block.trials[0] + 1}"
            what += f" to {block.trials[-1] + 1}" if len(block.trials) > 1 else ""
            move(sum(done.values()), what, f"{left} trials left")

        yield moved
