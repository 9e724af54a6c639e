"""`amsfl reproduce`, `amsfl compare` and `amsfl report`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from amsfl.cli import flags
from amsfl.cli.errors import friendly
from amsfl.cli.opening import NOT_OF_STUDIES, Config, Methods, Quiet, Trials, opened, searched
from amsfl.cli.run import Track
from amsfl.cli.screen import plain, screen
from amsfl.cli.study_progress import duration, watching
from amsfl.federation import make_config
from amsfl.federation.config import Simulation, Training

if TYPE_CHECKING:
    from amsfl.data import Dataset
    from amsfl.study import Study

Force = Annotated[bool, typer.Option(help="start anew where the folder holds a study with other settings")]
Tune = Annotated[
    str, typer.Option(help="search lr and steps before the trials: none, quick or full (as long as it takes)")
]
Out = Annotated[Path, typer.Option(help="folder of the study and its report")]


@friendly
@flags.takes(Training, Simulation, only=("data", "data_dir", "seconds", "seed"))
def reproduce(
    settings: dict[str, Any],
    trials: Trials = None,
    methods: Methods = None,
    config: Config = None,
    out: Out = Path("results/reproduce"),
    force: Force = False,
    track: Track = "",
    quiet: Quiet = False,
) -> None:
    """Redo the paper's comparison: seven methods, five non-IID clients, 100 virtual seconds.

    Settings that are not given are those of the study's file; trial k has the seed plus k.
    Stop it with Ctrl-C and continue it with the same command; finished trials are kept.
    """
    plan, data = opened("reproduce", settings, methods, trials, config, quiet)
    _carry_out(plan, data, out, force, quiet, track)


@friendly
@flags.takes(Training, Simulation, leave_out=NOT_OF_STUDIES)
def compare(
    settings: dict[str, Any],
    methods: Methods = None,
    trials: Trials = None,
    config: Config = None,
    out: Out = Path("results/compare"),
    tune: Tune = "quick",
    force: Force = False,
    track: Track = "",
    quiet: Quiet = False,
) -> None:
    """Compare methods on your own data, clients and target, the way `amsfl reproduce` does.

    Before the trials, learning rate and steps are searched for every method that needs them (--tune).
    Settings that are not given are those of the study's file; trial k has the seed plus k.
    Stop it with Ctrl-C and continue it with the same command; finished trials are kept.
    """
    plan, data = opened("compare", settings, methods, trials, config, quiet)
    _carry_out(plan, data, out, force, quiet, track, lambda: searched(plan, data, tune, settings, quiet, out))


@friendly
def report(
    folders: Annotated[
        list[Path], typer.Argument(help="folders of studies or of runs; several are overlaid")
    ],
    out: Annotated[
        Path | None, typer.Option(help="where to: the study's folder; results/report for several")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="measure times to another score of the hold-out, as in 0.95 or f1=0.8")
    ] = None,
) -> None:
    """Rebuild the report from what is finished, or overlay several studies and runs."""
    from amsfl.report import write

    asked = make_config({} if target is None else {"target": target})  # its bounds are a target's
    where = out or (Path("results/report") if len(folders) > 1 else _home(folders[0]))
    _announce(write(folders, where, asked.target, asked.score or None))


def _home(folder: Path) -> Path:
    """A run's own folder has a summary.json, which is its record: its report goes one deeper."""
    return folder / "report" if (folder / "config.toml").exists() else folder


def _carry_out(
    plan: "Study",
    dataset: "Dataset",
    out: Path,
    force: bool,
    quiet: bool,
    track: str,
    search: "Callable[[], Study] | None" = None,
) -> None:
    """Search, estimate, run what is missing, report."""
    from amsfl import study
    from amsfl.report import write
    from amsfl.track import make

    trackers = make(track)  # one that is not there is said before the search
    console = screen(stderr=True)
    if search:
        study.check_folder(out, plan, dataset, force)  # a folder that is not ours must not cost a search
        plan = search()
    total = plan.trials * len(plan.methods)
    with study.start(out, plan, dataset, force) as home:
        units = study.pending(home, plan)
        left = sum(len(unit.trials) for unit in units)
        try:
            if units and not quiet:
                with console.status("Timing a few rounds for an estimate ..."):
                    guess = study.estimate(home, plan, dataset, units)
                kept = (
                    f"{total - left} of {total} trials are on record; the rest"
                    if left < total
                    else f"{total} trials"
                )
                console.print(
                    f"{kept} should take {duration(guess)} on this machine, if nothing else runs on it."
                )
            with watching(plan, units, quiet) as watch:
                for _ in study.work(home, plan, dataset, units, watch, trackers):
                    pass
        except KeyboardInterrupt:
            left = sum(len(unit.trials) for unit in study.pending(home, plan))
            console.print(
                f"amsfl: stopped with {total - left} of {total} trials on record; continue with the same "
                f"command, or see what there is with 'amsfl report {out}'."
            )
            raise typer.Exit(130) from None
    with console.status("Drawing the report ..."):
        page = write([out], out)
    _announce(page)


def _announce(page: Path) -> None:
    """What came out, in a few lines; the rest is on the page."""
    import json

    found = json.loads((page.parent / "summary.json").read_text(encoding="utf-8"))
    console = screen()
    if found["synthetic"]:
        console.print(plain(found["notes"][0]), style="yellow")
    console.print(plain(found["overview"]))
    console.print(f"Report: {plain(str(page))}", soft_wrap=True)
