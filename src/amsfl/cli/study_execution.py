"""How a study is carried out: search, estimate, run what is missing, report."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from amsfl.cli.output import plain, screen
from amsfl.cli.study_progress import duration, watching

if TYPE_CHECKING:
    from amsfl.data import Dataset
    from amsfl.record import StudyWriter
    from amsfl.study import Part, Study


class Course(NamedTuple):
    """What the command line says beside the study itself."""

    out: Path
    part: str  # as in 3/8; "" is all of it
    force: bool
    quiet: bool
    track: str


def carry_out(
    plan: "Study", dataset: "Dataset", course: Course, search: "Callable[[], Study] | None" = None
) -> None:
    """All of the study and its report, or one part of it: 'amsfl report' unites the parts."""
    from amsfl import record, study
    from amsfl.report import write
    from amsfl.track import make

    trackers = make(course.track)  # one that is not there is said before the search
    part, out = study.part_of(course.part), course.out
    record.check_part_count(out, part.of if course.part else None)
    mine = study.units_of(plan, part)  # and so is a part that there is not
    home = record.part_folder(out, *part) if course.part else out
    if search:
        study.check_folder(home, plan, dataset, course.force)  # another's must not cost a search
        plan = search()
    with study.start(home, plan, dataset, course.force) as writer:
        try:
            units = study.pending(writer, plan, part)
            if units and not course.quiet:
                _estimate(writer, plan, dataset, part)
            with watching(plan, units, course.quiet) as watch:
                for _ in study.work(writer, plan, dataset, units, watch, trackers):
                    pass
        except KeyboardInterrupt:
            done, total = _counts(writer, plan, part)
            screen(stderr=True).print(
                f"amsfl: stopped with {done} of {total} trials on record; continue with the same "
                f"command, or see what there is with 'amsfl report {out}'."
            )
            raise typer.Exit(130) from None
    if course.part:
        trials = sum(len(unit.trials) for unit in mine)
        screen().print(
            f"Part {part.number} of {part.of}: {trials} trials are on record. "
            f"'amsfl report {plain(str(out))}' shows the parts that there are.",
            soft_wrap=True,
        )
        return
    with screen(stderr=True).status("Drawing the report ..."):
        page = write([out], out)
    announce(page)


def _estimate(writer: "StudyWriter", plan: "Study", dataset: "Dataset", part: "Part") -> None:
    from amsfl import study

    console = screen(stderr=True)
    with console.status("Timing a few rounds for an estimate ..."):
        guess = study.estimate(writer, plan, dataset, study.pending(writer, plan, part))
    done, total = _counts(writer, plan, part)
    kept = f"{done} of {total} trials are on record; the rest" if done else f"{total} trials"
    console.print(f"{kept} should take {duration(guess)} on this machine, if nothing else runs on it.")


def _counts(writer: "StudyWriter", plan: "Study", part: "Part") -> tuple[int, int]:
    """Trials on record, and all of them."""
    from amsfl import study

    total = sum(len(unit.trials) for unit in study.units_of(plan, part))
    left = sum(len(unit.trials) for unit in study.pending(writer, plan, part))
    return total - left, total


def announce(page: Path) -> None:
    """What came out, in a few lines; the rest is on the page."""
    found = json.loads((page.parent / "summary.json").read_text(encoding="utf-8"))
    console = screen()
    if found["synthetic"]:
        console.print(plain(found["notes"][0]), style="yellow")
    console.print(plain(found["overview"]))
    console.print(f"Report: {plain(str(page))}", soft_wrap=True)
