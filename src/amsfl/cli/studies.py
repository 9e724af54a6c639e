"""`amsfl reproduce`, `compare`, `report` and `sweep`: several runs, and what they come to."""

import json
import tomllib
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from amsfl.cli import flags
from amsfl.cli.output import AsJson, describe_data, plain, print_json, print_table, say, screen
from amsfl.core import UserError
from amsfl.core.records import Json, JsonMapping
from amsfl.settings.definitions import RunConfig

if TYPE_CHECKING:
    from amsfl.data import Dataset
    from amsfl.study.settings import Study

SHOWN = ("score", "status", "rounds", "virtual_seconds", "seconds_to_target")  # of a sweep; the file has all
LINES = 40
WITH_COMMAS = ("columns", "drop", "missing", "robust", "transmit")  # in one value
# a study has several methods, each with its options; the rest it sets for all, or has no use for
NOT_OF_STUDIES = (
    "method",
    "options",
    "stop_at_target",
    "checkpoint_every",
)
Trials = Annotated[
    int | None, Parameter(help="trials of every method: 5 for a first look, 50 as in the paper")
]
Methods = Annotated[
    str | None, Parameter(help="methods with commas between, as in fedavg,amsfl; all if not given")
]
Config = Annotated[
    str | None, Parameter(help="a study's TOML file, or a built-in one: reproduce, same-lr, choosing")
]
Force = Annotated[bool, Parameter(help="start anew where the folder holds a study with other settings")]
Tune = Annotated[str, Parameter(help="search lr and steps before the trials: quick or none")]
Out = Annotated[Path, Parameter(help="folder of the study and its report")]


@flags.takes(RunConfig, only=("data", "seconds", "rounds", "seed"))
def reproduce(
    settings: Json,
    *,
    trials: Trials = None,
    methods: Methods = None,
    config: Config = None,
    out: Out = Path("results/reproduce"),
    force: Force = False,
) -> None:
    """Redo the paper's comparison: seven methods, five non-IID clients, 100 virtual seconds.

    Settings that are not given are those of the study's file; trial k has the seed plus k.

    Stop it with Ctrl-C and continue it with the same command; finished trials are kept.
    """
    plan, data = open_study("reproduce", settings, methods, trials, config)
    execute(plan, data, out, force)


@flags.takes(RunConfig, leave_out=NOT_OF_STUDIES)
def compare(
    settings: Json,
    *files: flags.TableFile,
    methods: Methods = None,
    trials: Trials = None,
    config: Annotated[Config, flags.RARE] = None,
    out: Annotated[Out, flags.RARE] = Path("results/compare"),
    tune: Annotated[Tune, flags.RARE] = "quick",
    force: Annotated[Force, flags.RARE] = False,
) -> None:
    """Compare methods on your own data; writes a report that says which to use.

    Before the trials, learning rate and steps are searched for every method that needs them (--tune).
    Settings that are not given are those of the study's file; trial k has the seed plus k.

    Stop it with Ctrl-C and continue it with the same command; finished trials are kept.
    """
    settings = flags.with_tables(settings, files)
    plan, data = open_study("compare", settings, methods, trials, config)
    searching = partial(search, plan, data, tune, settings, out)
    execute(plan, data, out, force, searching)


def report(
    *folders: Annotated[Path, Parameter(help="folders of studies or of runs; several are overlaid")],
    out: Annotated[
        Path | None,
        Parameter(help="where to write it; by default the study's folder, results/report for several"),
    ] = None,
    target: Annotated[
        str | None, Parameter(help="measure times to another score of the hold-out, as in 0.95 or f1=0.8")
    ] = None,
) -> None:
    """Rebuild the report from what is finished, or overlay several studies and runs."""
    from amsfl.report import write
    from amsfl.settings.parse import make_config

    if not folders:
        raise UserError("Name the folder of a study or of a run: amsfl report results/compare.")
    asked = make_config({} if target is None else {"target": target})  # its bounds are a target's
    # a run's own folder has a summary.json, which is its record: its report goes one deeper
    own = folders[0] / "report" if (folders[0] / "config.toml").exists() else folders[0]
    home = Path("results/report") if len(folders) > 1 else own
    announce(write([*folders], out or home, asked.target, asked.score or None))


def open_study(
    built_in: str,
    settings: JsonMapping,
    methods: str | None,
    trials: int | None,
    config: str | None,
) -> "tuple[Study, Dataset]":
    """The study and its data, told about on standard error.

    Where `amsfl compare` was told no methods, those that cannot learn from the data are left out.
    """
    from amsfl.simulation.components import load_data
    from amsfl.study.settings import read_study, with_changes, without_unable

    plan = with_changes(read_study(config or built_in), parse_names(methods), trials, settings)
    console = screen(stderr=True)
    dataset = load_data(plan.config(plan.reference))
    if dataset.note:
        console.print(plain(dataset.note), style="yellow")
    describe_data(dataset)
    if built_in == "compare" and methods is None and config is None:
        plan, lines = without_unable(plan, dataset)
        for line in lines:
            console.print(plain(line))
    return plan, dataset


def parse_names(methods: str | None) -> list[str] | None:
    if methods is None:
        return None
    names = [name.strip() for name in methods.split(",") if name.strip()]
    if not names:
        raise UserError(f"--methods {methods!r} names no method; write for example --methods fedavg,amsfl.")
    return names


def search(
    plan: "Study",
    dataset: "Dataset",
    level: str,
    fixed: Collection[str],
    out: Path,
) -> "Study":
    """The study with what a search finds for it; what is on record of one is not searched again."""
    from amsfl.study.run import recorded_search
    from amsfl.study.tune import tune_study

    console = screen(stderr=True)
    recorded = recorded_search(out)

    def watch(entry: str) -> None:
        console.print(f"searching learning rate and steps for {plain(entry)} ...")

    try:
        return tune_study(plan, dataset, level, fixed, recorded, watch)
    except KeyboardInterrupt:
        console.print("amsfl: stopped before the first trial; --tune none searches nothing.")
        raise SystemExit(130) from None


def execute(
    plan: "Study",
    dataset: "Dataset",
    out: Path,
    force: bool,
    search: "Callable[[], Study] | None" = None,
) -> None:
    """All of the study and its report."""
    from amsfl.cli.progress import watching_study
    from amsfl.report import write
    from amsfl.study.run import check_folder, open_folder, pending, run_blocks

    if search:
        check_folder(out, plan, dataset, force)  # another's must not cost a search
        plan = search()
    total, console = plan.trials * len(plan.methods), screen(stderr=True)
    with open_folder(out, plan, dataset, force) as writer:

        def finished() -> int:
            return total - sum(len(trials) for _, trials in pending(writer, plan))

        try:
            if (done := finished()) < total:
                console.print(f"{total} trials" + (f", {done} of them on record" if done else ""))
            left = pending(writer, plan)
            with watching_study(plan, left) as watch:
                for _ in run_blocks(writer, plan, dataset, left, watch):
                    pass
        except KeyboardInterrupt:
            console.print(
                f"amsfl: stopped with {finished()} of {total} trials on record; continue with the same "
                f"command, or see what there is with 'amsfl report {out}'."
            )
            raise SystemExit(130) from None
    with console.status("Drawing the report ..."):
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


@flags.takes(RunConfig)
def sweep(
    settings: Json,
    *over: Annotated[
        str,
        Parameter(metavar="NAME=VALUES", help="a setting and its values, as in lr=0.05,0.5 seed=0,1,2"),
    ],
    out: Annotated[Path, Parameter(help="folder that keeps finished runs, and sweep.csv")] = Path(
        "results/sweep"
    ),
    as_json: Annotated[AsJson, flags.RARE] = False,
) -> None:
    """Run every combination of some settings: a table with one row a run, and the best of every method.

    With method=fedavg,amsfl lr=0.05,0.2,0.8 seed=0,1,2 the best settings of each method are in best.toml, for
    amsfl compare --config FILE --tune none. They are chosen by the runs' own scores: compare by other seeds.

    Stop it with Ctrl-C and continue it with the same command; a longer one runs only what is new.
    """
    from amsfl.record import write_atomically
    from amsfl.study import sweep as sweeps

    def watch(done: int, of: int) -> None:
        say(f"{done} of {of} runs", stderr=True)

    swept = dict(map(_values, over))
    if not swept:
        raise UserError("Nothing is swept over; write for example: amsfl sweep lr=0.05,0.5 seed=0,1.")
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
    say(f"Table{more}: {out / 'sweep.csv'}")


def _keep_best(best: list[Json], settings: Json, seed: int, out: Path) -> None:
    """One line for every method, and a study of them by other seeds."""
    import tomli_w

    from amsfl.record import write_atomically
    from amsfl.study.settings import ELSEWHERE

    for row in best:
        words = ", ".join(f"{name} {_shown(value)}" for name, value in row["settings"].items())
        say(f"best of {row['method']}: {words} (score {row['score']:.4g}, mean of {row['runs']})")
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
