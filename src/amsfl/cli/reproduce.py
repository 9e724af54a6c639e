"""`amsfl reproduce`, `amsfl compare` and `amsfl report`."""

from pathlib import Path
from typing import Annotated

import typer

from amsfl.cli import flags
from amsfl.cli.errors import friendly
from amsfl.cli.published import reproduce_table
from amsfl.cli.run import Track
from amsfl.cli.study_execution import Execution, announce, execute
from amsfl.cli.study_options import (
    NOT_OF_STUDIES,
    Config,
    Methods,
    Quiet,
    Trials,
    check_searched,
    open_study,
    search,
)
from amsfl.core.records import Json
from amsfl.settings.definitions import Simulation, Training
from amsfl.simulation import make_config

NSLKDD = "nslkdd"
Force = Annotated[bool, typer.Option(help="start anew where the folder holds a study with other settings")]
Tune = Annotated[
    str, typer.Option(help="search lr and steps before the trials: none, quick or full (as long as it takes)")
]
Part = Annotated[
    str, typer.Option(help="run one part of the study, as in 3/8; 'amsfl report' unites the parts")
]
Out = Annotated[Path, typer.Option(help="folder of the study and its report")]


@friendly
@flags.takes(Training, Simulation, only=("data", "data_dir", "seconds", "rounds", "seed"))
def reproduce(
    settings: Json,
    table: Annotated[
        str, typer.Argument(help="nslkdd, or a published table: niid-bench, fcube, fedprox-synthetic")
    ] = NSLKDD,
    trials: Trials = None,
    methods: Methods = None,
    cases: Annotated[
        str | None, typer.Option(help="rows of a published table with commas between; all if not given")
    ] = None,
    config: Config = None,
    out: Annotated[
        Path | None, typer.Option(help="folder of the study and its report; by default results/TABLE")
    ] = None,
    part: Part = "",
    force: Force = False,
    track: Track = "",
    quiet: Quiet = False,
) -> None:
    """Redo the paper's comparison: seven methods, five non-IID clients, 100 virtual seconds.

    With the name of a published table, redo that table, with our numbers beside theirs (docs/published.md).
    Settings that are not given are those of the study's file; trial k has the seed plus k.

    Stop it with Ctrl-C and continue it with the same command; finished trials are kept.
    """
    if table != NSLKDD:
        execution = Execution(out or Path("results") / table, part, force, quiet, track)
        return reproduce_table(table, cases, methods, trials, settings, execution)
    plan, data = open_study("reproduce", settings, methods, trials, config, quiet)
    execute(plan, data, Execution(out or Path("results/reproduce"), part, force, quiet, track))


@friendly
@flags.takes(Training, Simulation, leave_out=NOT_OF_STUDIES)
def compare(
    settings: Json,
    tables: flags.TableFiles = None,
    methods: Methods = None,
    trials: Trials = None,
    config: Config = None,
    out: Out = Path("results/compare"),
    tune: Tune = "quick",
    part: Part = "",
    force: Force = False,
    track: Track = "",
    quiet: Quiet = False,
) -> None:
    """Compare methods on your own data; writes a report that says which to use.

    Before the trials, learning rate and steps are searched for every method that needs them (--tune).
    Settings that are not given are those of the study's file; trial k has the seed plus k.

    Stop it with Ctrl-C and continue it with the same command; finished trials are kept.
    """
    settings = flags.with_tables(settings, tables)
    plan, data = open_study("compare", settings, methods, trials, config, quiet)
    if part:
        check_searched(plan, tune, settings)
    execution = Execution(out, part, force, quiet, track)
    execute(plan, data, execution, lambda: search(plan, data, tune, settings, quiet, out))


@friendly
def report(
    folders: Annotated[
        list[Path], typer.Argument(help="folders of studies or of runs; several are overlaid")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="where to write it; by default the study's folder, results/report for several"),
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="measure times to another score of the hold-out, as in 0.95 or f1=0.8")
    ] = None,
) -> None:
    """Rebuild the report from what is finished, or overlay several studies and runs."""
    from amsfl.report import write

    asked = make_config({} if target is None else {"target": target})  # its bounds are a target's
    where = out or (Path("results/report") if len(folders) > 1 else _home(folders[0]))
    announce(write(folders, where, asked.target, asked.score or None))


def _home(folder: Path) -> Path:
    """A run's own folder has a summary.json, which is its record: its report goes one deeper."""
    return folder / "report" if (folder / "config.toml").exists() else folder
