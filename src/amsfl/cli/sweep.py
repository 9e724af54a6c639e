"""`amsfl sweep`: every combination of some settings, as a table."""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from amsfl.cli import flags
from amsfl.cli.errors import friendly
from amsfl.cli.output import print_json, print_table
from amsfl.core import UserError
from amsfl.core.records import Json
from amsfl.settings.definitions import Simulation, Training

SHOWN = ("score", "status", "rounds", "virtual_seconds", "seconds_to_target")  # the file has all
LINES = 40


@friendly
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
    """Run every combination of some settings, and write a table with one row a run.

    Stop it with Ctrl-C and continue it with the same command; a longer one runs only what is new.
    """
    from amsfl.record import write_atomically
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
    more = f" with all {len(rows)} runs" if len(rows) > LINES else ""
    typer.echo(f"Table{more}: {out / 'sweep.csv'}")


def _values(pair: str) -> tuple[str, list[Any]]:
    """`lr=0.05,0.5` as a name and its values: numbers and true, false as TOML has them, else text."""
    name, sign, values = pair.partition("=")
    if not (name and sign and values):
        raise UserError(f"{pair!r} is no setting with its values; write it as in lr=0.05,0.5.")
    return name.strip().replace("-", "_"), [_value(each.strip()) for each in values.split(",")]


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
