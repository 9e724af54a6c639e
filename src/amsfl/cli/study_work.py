"""What commands of a study share: their flags, its file with what was typed, data, search, trials, report."""

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from amsfl.cli.output import describe_data, plain, screen
from amsfl.cli.progress import duration, watching_study
from amsfl.core import UserError
from amsfl.core.records import JsonMapping
from amsfl.data import Dataset
from amsfl.methods import METHODS
from amsfl.track import trackers_of

if TYPE_CHECKING:
    from amsfl.study import Study, TrialBlock

# a study has several methods, each with its options; the rest it sets for all, or has no use for
NOT_OF_STUDIES = (
    "method",
    "options",
    "stop_at_target",
    "local_accuracy",
    "test_every",
    "readings",
    "checkpoint_every",
)
Trials = Annotated[
    int | None, typer.Option(help="trials of every method: 5 for a first look, 50 as in the paper")
]
Methods = Annotated[
    str | None, typer.Option(help="methods with commas between, as in fedavg,amsfl; all if not given")
]
Config = Annotated[
    str | None, typer.Option(help="a study's TOML file, or a built-in one: reproduce, same-lr, compare")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="print only where the report is")]


def open_study(
    built_in: str,
    settings: JsonMapping,
    methods: str | None,
    trials: int | None,
    config: str | None,
    quiet: bool,
) -> "tuple[Study, Dataset]":
    """The study and its data, told about on standard error.

    Where `amsfl compare` was told no methods, those that cannot learn from the data are left out.
    """
    from amsfl import study
    from amsfl.simulation.components import load_data

    plan = study.with_changes(study.read_study(config or built_in), parse_names(methods), trials, settings)
    console = screen(stderr=True)
    dataset = load_data(plan.config(plan.reference))
    if dataset.note:
        console.print(plain(dataset.note), style="yellow")
    if not quiet:
        describe_data(dataset)
    if built_in == "compare" and methods is None and config is None:
        plan, lines = study.without_unable(plan, dataset)
        for line in lines:
            console.print(plain(line))
    return plan, dataset


def parse_names(methods: str | None) -> list[str] | None:
    if methods is None:
        return None
    names = [METHODS.spelling(name.strip()) for name in methods.split(",") if name.strip()]
    if not names:
        raise UserError(f"--methods {methods!r} names no method; write for example --methods fedavg,amsfl.")
    return names


def search(
    plan: "Study",
    dataset: Dataset,
    level: str,
    fixed: Collection[str],
    quiet: bool,
    out: Path | None = None,
) -> "Study":
    """The study with what a search finds for it; what is on record of one is not searched again."""
    from amsfl import study

    console = screen(stderr=True)
    worth = study.search_cost(plan, level, fixed)
    if worth and not quiet:
        console.print(f"Learning rate and steps are searched first, at most {worth:.0f} trials' work.")
    recorded = study.recorded_search(out) if out else {}

    def watch(entry: str) -> None:
        if not quiet:
            console.print(f"  searching for {plain(entry)} ...")

    try:
        return study.tune_study(plan, dataset, level, fixed, recorded, watch)
    except KeyboardInterrupt:
        console.print("amsfl: stopped before the first trial; --tune none searches nothing.")
        raise typer.Exit(130) from None


class Execution(NamedTuple):
    """What the command line says beside the study itself."""

    out: Path
    part: str  # as in 3/8; "" is all of it
    force: bool
    quiet: bool
    track: str


def execute(
    plan: "Study", dataset: Dataset, execution: Execution, search: "Callable[[], Study] | None" = None
) -> None:
    """All of the study and its report, or one part of it: 'amsfl report' unites the parts."""
    from amsfl import record, study
    from amsfl.report import write

    trackers = trackers_of(execution.track)  # one that is not there is said before the search
    part, out = study.parse_part(execution.part), execution.out
    record.check_part_count(out, part.of if execution.part else None)
    mine = study.blocks_of(plan, part)  # and so is a part that there is not
    home = record.part_folder(out, *part) if execution.part else out
    if search:
        study.check_folder(home, plan, dataset, execution.force)  # another's must not cost a search
        plan = search()
    total = sum(len(block.trials) for block in mine)
    with study.open_folder(home, plan, dataset, execution.force) as writer:

        def left() -> list["TrialBlock"]:
            return study.pending(writer, plan, part)

        def finished() -> int:
            return total - sum(len(block.trials) for block in left())

        console = screen(stderr=True)
        try:
            blocks = left()
            if blocks and not execution.quiet:
                with console.status("Timing a few rounds for an estimate ..."):
                    guess = duration(study.estimate(writer, plan, dataset, blocks))
                done = finished()
                said = f"{done} of {total} trials are on record; the rest" if done else f"{total} trials"
                console.print(f"{said} should take {guess} on this machine, if nothing else runs on it.")
            with watching_study(plan, blocks, execution.quiet) as watch:
                for _ in study.run_blocks(writer, plan, dataset, blocks, watch, trackers):
                    pass
        except KeyboardInterrupt:
            console.print(
                f"amsfl: stopped with {finished()} of {total} trials on record; continue with the same "
                f"command, or see what there is with 'amsfl report {out}'."
            )
            raise typer.Exit(130) from None
    if execution.part:
        screen().print(
            f"Part {part.number} of {part.of}: {total} trials are on record. "
            f"'amsfl report {plain(str(out))}' shows the parts that there are.",
            soft_wrap=True,
        )
        return
    with screen(stderr=True).status("Drawing the report ..."):
        page = write([out], out)
    announce(page)


def announce(page: Path) -> None:
    """What came out, in a few lines; the rest is on the page."""
    summary = json.loads((page.parent / "summary.json").read_text(encoding="utf-8"))
    console = screen()
    if summary["synthetic"]:
        console.print(plain(summary["notes"][0]), style="yellow")
    for sentence in (summary["scope"], *summary["answer"]):
        console.print(plain(sentence), soft_wrap=True)
    console.print(f"Report: {plain(str(page))}", soft_wrap=True)
