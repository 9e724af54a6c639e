"""`amsfl reproduce`, `compare`, `report` and `sweep`: many runs, and what they come to."""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import tomli_w
import typer

from amsfl.cli import flags
from amsfl.cli.output import print_json, print_table
from amsfl.cli.run import Track
from amsfl.cli.study_work import (
    NOT_OF_STUDIES,
    Config,
    Execution,
    Methods,
    Quiet,
    Trials,
    announce,
    execute,
    open_study,
    search,
)
from amsfl.core import UserError
from amsfl.core.records import Json
from amsfl.record import write_atomically
from amsfl.settings.definitions import Simulation, Training
from amsfl.simulation import make_config

Force = Annotated[bool, typer.Option(help="start anew where the folder holds a study with other settings")]
Tune = Annotated[str, typer.Option(help="search lr and steps before the trials: quick or none")]
Part = Annotated[
    str, typer.Option(help="run one part of the study, as in 3/8; 'amsfl report' unites the parts")
]
Out = Annotated[Path, typer.Option(help="folder of the study and its report")]


@flags.takes(Training, Simulation, only=("data", "data_dir", "seconds", "rounds", "seed"))
def reproduce(
    settings: Json,
    trials: Trials = None,
    methods: Methods = None,
    config: Config = None,
    out: Out = Path("results/reproduce"),
    part: Part = "",
    force: Force = False,
    track: Track = "",
    quiet: Quiet = False,
) -> None:
    """Redo the paper's comparison: seven methods, five non-IID clients, 100 virtual seconds.

    Settings that are not given are those of the study's file; trial k has the seed plus k.

    Stop it with Ctrl-C and continue it with the same command; finished trials are kept.
    """
    plan, data = open_study("reproduce", settings, methods, trials, config, quiet)
    execute(plan, data, Execution(out, part, force, quiet, track))


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
    from amsfl import study

    settings = flags.with_tables(settings, tables)
    plan, data = open_study("compare", settings, methods, trials, config, quiet)
    if part and study.search_cost(plan, tune, settings):
        raise UserError(
            "Parts of a study must agree on what was searched: search once with 'amsfl sweep method=... "
            "lr=...', then give each part --config best.toml --tune none. Or search nothing: --tune none."
        )
    execution = Execution(out, part, force, quiet, track)
    execute(plan, data, execution, lambda: search(plan, data, tune, settings, quiet, out))


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
    # a run's own folder has a summary.json, which is its record: its report goes one deeper
    own = folders[0] / "report" if (folders[0] / "config.toml").exists() else folders[0]
    home = Path("results/report") if len(folders) > 1 else own
    announce(write(folders, out or home, asked.target, asked.score or None))


SHOWN = ("score", "status", "rounds", "virtual_seconds", "seconds_to_target")  # the file has all
LINES = 40
WITH_COMMAS = ("class_weights", "columns", "drop", "missing", "robust", "transmit")  # in one value


@flags.takes(Training, Simulation)
def sweep(
    settings: Json,
    over: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUES...", help="a setting and its values, as in lr=0.05,0.5 seed=0,1,2"
        ),
    ],
    out: Annotated[Path, typer.Option(help="folder that keeps finished runs, and sweep.csv")] = Path(
        "results/sweep"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="print the rows as JSON, nothing else")] = False,
) -> None:
    """Run every combination of some settings: a table with one row a run, and the best of every method.

    With method=fedavg,amsfl lr=0.05,0.2,0.8 seed=0,1,2 the best settings of each method are in best.toml, for
    amsfl compare --config FILE --tune none. They are chosen by the runs' own scores: compare by other seeds.

    Stop it with Ctrl-C and continue it with the same command; a longer one runs only what is new.
    """
    from amsfl.study import sweep as sweeps

    def watch(done: int, of: int) -> None:
        typer.echo(f"{done} of {of} runs", err=True)

    swept = dict(map(_values, over))
    if len(swept) < len(over):
        raise UserError("A setting is swept over twice; give all its values at once, as in lr=0.05,0.5.")
    frame = sweeps.sweep(swept, out=out, watch=watch, progress=False, **settings)
    write_atomically(out / "sweep.csv", frame.to_csv(index=False).encode())
    rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    if as_json:
        return print_json(rows)
    head = (*swept, *(name for name in SHOWN if any(row.get(name) is not None for row in rows)))
    print_table(head, [[_shown(row[name]) for name in head] for row in rows[:LINES]], left=tuple(swept))
    if set(swept) - {"seed"}:
        best, seed = sweeps.best_of(rows, swept, settings), max([0, *swept.get("seed", [])]) + 1
        _keep_best(best, settings, seed, out)
    more = f" with all {len(rows)} runs" if len(rows) > LINES else ""
    typer.echo(f"Table{more}: {out / 'sweep.csv'}")


def _keep_best(best: list[Json], settings: Json, seed: int, out: Path) -> None:
    """One line for every method, and a study of them by other seeds."""
    from amsfl.study.settings import ELSEWHERE

    for row in best:
        words = ", ".join(f"{name} {_shown(value)}" for name, value in row["settings"].items())
        typer.echo(f"best of {row['method']}: {words} (score {row['score']:.4g}, mean of {row['runs']})")
    shared = {name: value for name, value in settings.items() if name not in ELSEWHERE}
    plan = {"seed": seed, "run": shared, "methods": {row["method"]: row["settings"] for row in best}}
    write_atomically(out / "best.toml", tomli_w.dumps(plan).encode())


def _values(pair: str) -> tuple[str, list[Any]]:
    """`lr=0.05,0.5` as a name and its values: numbers and true, false as TOML has them, else text."""
    name, sign, values = pair.partition("=")
    if not (name and sign and values):
        raise UserError(f"{pair!r} is no setting with its values; write it as in lr=0.05,0.5.")
    name = name.strip().replace("-", "_")
    try:
        return name, tomllib.loads(f"values = [{values}]")["values"]
    except tomllib.TOMLDecodeError:
        if name in WITH_COMMAS and "," in values:
            raise UserError(
                f"A value of {name} may have commas itself; put each in quotes: '{name}=\"{values}\"' is one."
            ) from None
        return name, [_value(each.strip()) for each in values.split(",")]


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
