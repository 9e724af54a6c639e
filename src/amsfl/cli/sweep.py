"""`amsfl sweep`: every combination of some settings, and the best of every method."""

import tomllib
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from amsfl.cli import flags
from amsfl.cli.output import AsJson, print_json, print_table, say
from amsfl.core import UserError
from amsfl.core.records import Json
from amsfl.settings.definitions import RunConfig

SHOWN = ("score", "status", "rounds", "virtual_seconds", "seconds_to_target")  # the file has all
LINES = 40
WITH_COMMAS = ("class_weights", "columns", "drop", "missing", "robust", "transmit")  # in one value


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
