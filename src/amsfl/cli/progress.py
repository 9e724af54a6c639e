"""A bar with round, virtual time and score; silent when nobody watches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from amsfl.cli.output import on_terminal, plain, screen
from amsfl.core.scores import shown_score
from amsfl.record import RoundRecord

if TYPE_CHECKING:
    from amsfl.simulation import Training


@contextmanager
def loading() -> Iterator[None]:
    """A sign that rows are being read, on a terminal's standard error: a large file takes a while."""
    if not on_terminal():
        yield
        return
    with screen(stderr=True).status("reading rows"):
        yield


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
            spent = record.seconds[config.clock]
            done = [record.round / config.last_round]
            if config.seconds:
                done.append(spent / config.seconds)
            metrics = record.metrics.get("holdout", {})
            which = shown_score(config.score, metrics)
            score = which.of(metrics) if which else None
            if score is not None and which and config.target and which.larger:
                done.append(score / config.target)
            shown = "" if score is None or which is None else f"  {which.title} {score:.4g}"
            bar.update(task, completed=max(done), now=plain(f"round {record.round}  {spent:.1f} s{shown}"))

        yield moved
