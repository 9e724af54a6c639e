"""How a study is carried out: search, estimate, run what is missing, report."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from amsfl.cli.output import plain, screen
from amsfl.cli.progress import duration, watching_study

if TYPE_CHECKING:
    from amsfl.data import Dataset
    from amsfl.record import StudyWriter
    from amsfl.study import Study, StudyPart


class Execution(NamedTuple):
    """What the command line says beside the study itself."""

    out: Path
    part: str  # as in 3/8; "" is all of it
    force: bool
    quiet: bool
    track: str


def execute(
    plan: "Study", dataset: "Dataset", execution: Execution, search: "Callable[[], Study] | None" = None
) -> None:
    """All of the study and its report, or one part of it: 'amsfl report' unites the parts."""
    from amsfl import record, study
    from amsfl.report import write
    from amsfl.track import make

    trackers = make(execution.track)  # one that is not there is said before the search
    part, out = study.parse_part(execution.part), execution.out
    record.check_part_count(out, part.of if execution.part else None)
    mine = study.blocks_of(plan, part)  # and so is a part that there is not
    home = record.part_folder(out, *part) if execution.part else out
    if search:
        study.check_folder(home, plan, dataset, execution.force)  # another's must not cost a search
        plan = search()
    with study.open_folder(home, plan, dataset, execution.force) as writer:
        try:
            blocks = study.pending(writer, plan, part)
            if blocks and not execution.quiet:
                _estimate(writer, plan, dataset, part)
            with watching_study(plan, blocks, execution.quiet) as watch:
                for _ in study.run_blocks(writer, plan, dataset, blocks, watch, trackers):
                    pass
        except KeyboardInterrupt:
            done, total = _counts(writer, plan, part)
            screen(stderr=True).print(
                f"amsfl: stopped with {done} of {total} trials on record; continue with the same "
                f"command, or see what there is with 'amsfl report {out}'."
            )
            raise typer.Exit(130) from None
    if execution.part:
        trials = sum(len(block.trials) for block in mine)
        screen().print(
            f"Part {part.number} of {part.of}: {trials} trials are on record. "
            f"'amsfl report {plain(str(out))}' shows the parts that there are.",
            soft_wrap=True,
        )
        return
    with screen(stderr=True).status("Drawing the report ..."):
        page = write([out], out)
    announce(page)


def _estimate(writer: "StudyWriter", plan: "Study", dataset: "Dataset", part: "StudyPart") -> None:
    from amsfl import study

    console = screen(stderr=True)
    with console.status("Timing a few rounds for an estimate ..."):
        guess = study.estimate(writer, plan, dataset, study.pending(writer, plan, part))
    done, total = _counts(writer, plan, part)
    progress = f"{done} of {total} trials are on record; the rest" if done else f"{total} trials"
    console.print(f"{progress} should take {duration(guess)} on this machine, if nothing else runs on it.")


def _counts(writer: "StudyWriter", plan: "Study", part: "StudyPart") -> tuple[int, int]:
    """Trials on record, and all of them."""
    from amsfl import study

    total = sum(len(block.trials) for block in study.blocks_of(plan, part))
    left = sum(len(block.trials) for block in study.pending(writer, plan, part))
    return total - left, total


def announce(page: Path) -> None:
    """What came out, in a few lines; the rest is on the page."""
    summary = json.loads((page.parent / "summary.json").read_text(encoding="utf-8"))
    console = screen()
    if summary["synthetic"]:
        console.print(plain(summary["notes"][0]), style="yellow")
    console.print(plain(summary["overview"]))
    console.print(f"Report: {plain(str(page))}", soft_wrap=True)
