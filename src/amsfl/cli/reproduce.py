"""`amsfl reproduce`, `amsfl compare` and `amsfl report`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from amsfl.cli.errors import friendly
from amsfl.cli.study_progress import duration, watching

if TYPE_CHECKING:
    from amsfl.study import Study


def _option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, show_default=False)


Trials = Annotated[int | None, _option("trials of every method")]
Seed = Annotated[int | None, _option("seed of the first trial; trial k has this plus k")]
Methods = Annotated[str | None, _option("methods with commas between, as in fedavg,amsfl; all if not given")]
DataDir = Annotated[str | None, _option("where the NSL-KDD files are")]
Config = Annotated[
    Path | None, _option("a study's TOML file, or a built-in one: reproduce, same-lr, compare")
]
Force = Annotated[bool, typer.Option(help="start anew where the folder holds a study with other settings")]
Quiet = Annotated[bool, typer.Option("--quiet", help="no estimate, no bar; only where the report is")]


@friendly
def reproduce(
    trials: Annotated[
        int | None, _option("trials of every method: 5 for a first look, 50 as in the paper")
    ] = None,
    data: Annotated[str | None, _option("nslkdd (default) or nslkdd-synth")] = None,
    data_dir: DataDir = None,
    methods: Methods = None,
    seconds: Annotated[float | None, _option("virtual seconds of training each (100)")] = None,
    seed: Seed = None,
    config: Config = None,
    out: Annotated[Path, typer.Option(help="folder of the study and its report")] = Path("results/reproduce"),
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Redo the paper's comparison: seven methods, five non-IID clients, 100 virtual seconds.

    Stop it with Ctrl-C and continue it with the same command; finished trials are kept.
    """
    from amsfl import study

    plan = study.read_study(config or study.REPRODUCE)
    plan = study.with_changes(
        plan, _names(methods), trials, seed, data=data, data_dir=data_dir, seconds=seconds
    )
    _carry_out(plan, out, force, quiet)


@friendly
def compare(
    data: Annotated[str | None, _option("your FILE.csv, or nslkdd (default), nslkdd-synth, digits")] = None,
    data_dir: DataDir = None,
    label: Annotated[str | None, _option("label column of a CSV file")] = None,
    client_column: Annotated[str | None, _option("column of a CSV file that says who owns a row")] = None,
    binary: Annotated[bool | None, _option("normal against attack instead of five classes")] = None,
    methods: Methods = None,
    model: Annotated[str | None, _option("softmax, mlp (default), mlp:128-64, cnn")] = None,
    clients: Annotated[int | None, _option("how many clients (5)")] = None,
    cohort: Annotated[int | None, _option("clients a round (all)")] = None,
    partition: Annotated[
        str | None, _option("iid, dirichlet:0.5 (default), shards:2, quantity:0.5, column")
    ] = None,
    profile: Annotated[str | None, _option("how fast clients are (mild); see `amsfl profiles`")] = None,
    clock: Annotated[str | None, _option("sum (default) or makespan")] = None,
    seconds: Annotated[float | None, _option("virtual seconds of training each (100)")] = None,
    rounds: Annotated[int | None, _option("rounds at most")] = None,
    target: Annotated[float | None, _option("hold-out accuracy that times are measured to")] = None,
    steps: Annotated[int | None, _option("local steps of the methods that do not plan them")] = None,
    lr: Annotated[float | None, _option("local learning rate (0.05)")] = None,
    batch: Annotated[int | None, _option("rows a step (64)")] = None,
    trials: Trials = None,
    seed: Seed = None,
    config: Config = None,
    out: Annotated[Path, typer.Option(help="folder of the study and its report")] = Path("results/compare"),
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Compare methods on your own data, clients and target, the way `amsfl reproduce` does.

    Stop it with Ctrl-C and continue it with the same command; finished trials are kept.
    """
    flags = dict(locals())
    for ours in ("methods", "trials", "seed", "config", "out", "force", "quiet"):
        del flags[ours]  # what is left are settings of a run
    from amsfl import study

    if client_column and partition is None:
        flags["partition"] = "column"
    plan = study.read_study(config or study.COMPARE)
    _carry_out(study.with_changes(plan, _names(methods), trials, seed, **flags), out, force, quiet)


@friendly
def report(
    folders: Annotated[
        list[Path], typer.Argument(help="folders of studies or of runs; several are overlaid")
    ],
    out: Annotated[Path | None, _option("where to (the study's folder; results/report for several)")] = None,
    target: Annotated[float | None, _option("measure times to another hold-out accuracy")] = None,
) -> None:
    """Rebuild the report from what is finished, or overlay several studies and runs."""
    from amsfl.report import write

    where = out or (Path("results/report") if len(folders) > 1 else _home(folders[0]))
    _announce(write(folders, where, target))


def _home(folder: Path) -> Path:
    """A run's own folder has a summary.json, which is its record: its report goes one deeper."""
    return folder / "report" if (folder / "config.toml").exists() else folder


def _names(methods: str | None) -> list[str] | None:
    return None if methods is None else [name.strip() for name in methods.split(",") if name.strip()]


def _carry_out(plan: "Study", out: Path, force: bool, quiet: bool) -> None:
    """Load, estimate, run what is missing, report."""
    from amsfl import study
    from amsfl.federation.setup import load_data
    from amsfl.report import write

    console = Console(stderr=True, highlight=False)
    dataset = load_data(plan.config(plan.reference))
    if dataset.note:
        console.print(f"[yellow]{dataset.note}[/]")
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
                for _ in study.work(home, plan, dataset, units, watch):
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
    console = Console(highlight=False)
    if found["synthetic"]:
        console.print(f"[yellow]{found['notes'][0]}[/]")
    console.print(found["overview"])
    console.print(f"Report: {page}", soft_wrap=True)
