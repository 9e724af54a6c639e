"""A bar with round, virtual time and accuracy; silent when nobody watches."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from amsfl.cli.screen import plain, screen, watched
from amsfl.record import RoundRecord

if TYPE_CHECKING:
    from amsfl.federation import Training


@contextmanager
def watching(config: "Training", quiet: bool) -> Iterator[Callable[[RoundRecord], None] | None]:
    """A callback for every round that moves the bar, on standard error; None when there is no terminal."""
    console = screen(stderr=True)
    if quiet or not watched():
        yield None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[now]}", markup=False),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(plain(config.method), total=1.0, now="compiling")

        def moved(record: RoundRecord) -> None:
            spent = record.seconds[config.clock]
            done = [record.round / config.last_round]
            if config.seconds:
                done.append(spent / config.seconds)
            score = record.metrics.get("holdout", {}).get("accuracy")
            if score is not None and config.target:
                done.append(score / config.target)
            accuracy = "" if score is None else f"  accuracy {score:.3f}"
            bar.update(task, completed=max(done), now=f"round {record.round}  {spent:.1f} s{accuracy}")

        yield moved
