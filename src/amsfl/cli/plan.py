"""`amsfl plan`: the scheduler on its own, for someone who only has a table of sites."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from amsfl.cli import flags
from amsfl.cli.errors import friendly
from amsfl.cli.screen import plain, print_json, screen
from amsfl.core import Plan, UserError, nearest
from amsfl.federation.config import Training

if TYPE_CHECKING:
    from amsfl import schedule

NEEDED = ("client", "step_seconds")
OPTIONAL = {"weight": 1.0, "comm_seconds": 0.0, "gain": 1.0, "drift": None}
COLUMNS = ("client", "weight", "step_seconds", "comm_seconds", "gain", "drift")
SMALLEST, LARGEST = 1e-9, 1e9  # of a cell: seconds, shares, gains
SHOWN = 40  # clients of a table; JSON has them all


@friendly
@flags.takes(
    Training,
    only=("budget", "clock", "policy", "policy_options"),
    other_names={"clock": "--kind", "policy_options": "--set"},
)
def plan(
    settings: dict[str, Any],
    clients: Annotated[Path, typer.Argument(help="CSV, one row per client: " + ", ".join(COLUMNS) + ".")],
    curve: Annotated[
        str, typer.Option(help="how a step's worth falls: linear (the paper's) or geometric (saturating)")
    ] = "linear",
    t_max: Annotated[int, typer.Option("--t-max", help="no client takes more steps than this")] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of a table")] = False,
) -> None:
    """How many local steps each client should take this round, and why.

    The file needs the columns client and step_seconds. Without weight all clients count the same, without
    comm_seconds communication is free, without gain a first step is worth 1 everywhere, and without drift
    every further step is worth 5% of the mean gain less than the one before it. There is no method here,
    so the policy auto is price.
    """
    from amsfl import schedule
    from amsfl.federation import make_config

    config = make_config(settings)
    table = read(clients)
    problem = schedule.problem(
        table["weight"],
        table["step_seconds"],
        table["comm_seconds"],
        table["gain"],
        table["drift"],
        curve=curve,  # type: ignore[arg-type]  # checked there, with a sentence
        kind=config.clock,  # type: ignore[arg-type]  # checked by the settings
        t_max=t_max,
        budget=config.budget,
        clients=table["client"],
    )
    policy = "price" if config.policy == "auto" else config.policy
    made = schedule.policy(policy, **config.policy_options)(problem)
    if as_json:
        print_json(as_record(problem, made, policy), indent=2)
    else:
        show(problem, made)


def read(path: Path) -> dict[str, Any]:
    """The columns of a CSV file of clients; each mistake in it is one sentence."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            header = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = header
            lines = [(reader.line_num, line) for line in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"Cannot read {path}: {reason}. Give a CSV file of clients.") from error
    for name in NEEDED:
        if name not in header:
            there = ", ".join(header) or "none"
            raise UserError(f"{path} has no column {name!r}; the columns there are: {there}.")
    for name in header:
        if name not in COLUMNS:
            raise UserError(f"{path} has an unknown column {name!r}{nearest(name, COLUMNS)}.")
        if header.count(name) > 1:
            raise UserError(f"{path} has the column {name!r} twice; keep one.")
    if not lines:
        raise UserError(f"{path} has a header but no clients; add one row per client.")
    long = next((row for row, line in lines if None in line), None)
    if long is not None:
        raise UserError(f"{path}, line {long} has more cells than the header has columns.")
    columns: dict[str, Any] = {"client": _names(path, lines)}
    for name in COLUMNS[1:]:
        if name in header:
            columns[name] = [_number(path, row, name, line[name]) for row, line in lines]
        else:
            columns[name] = OPTIONAL[name]
    return columns


def as_record(problem: "schedule.Problem", made: Plan, policy: str) -> dict[str, Any]:
    """The plan as plain JSON."""
    return {
        "policy": policy,
        "kind": problem.kind,
        "curve": problem.curve,
        "budget": problem.budget,
        "steps": dict(zip(problem.clients, made.steps.tolist(), strict=True)),
        "seconds": made.seconds,
        "objective": made.objective,
        "bound": made.bound,
        "gap": made.gap,
        "price": made.price,
        "why": dict(zip(problem.clients, made.why, strict=True)),
    }


def show(problem: "schedule.Problem", made: Plan) -> None:
    """The plan as a table, and what it comes to."""
    from amsfl import schedule

    titles = {
        "client": "client",
        "weight": "weight",
        "step_seconds": "s a step",
        "gain": "gain",
        "drift": "drift",
        "steps": "steps",
        "seconds": "seconds",
        "next_worth": "next step",
        "why": "stopped by",
    }
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="underline")
    for key, title in titles.items():
        style = "bold" if key == "steps" else None
        side: Any = "left" if key in ("client", "why") else "right"
        width = None if key == "client" else len(title)  # long names give way, not the numbers
        table.add_column(title, justify=side, style=style, min_width=width, no_wrap=True, overflow="fold")
    rows = schedule.table(problem, made)
    left_out = len(rows) - SHOWN
    for place, row in enumerate(rows):
        if left_out <= 0 or place < SHOWN // 2 or place >= len(rows) - SHOWN // 2:
            table.add_row(*(_cell(row[key]) for key in titles))
        elif place == SHOWN // 2:
            table.add_row(f"... {left_out:,} more")
    console = screen()
    console.print(table)
    console.print(schedule.summary(problem, made))
    console.print("seconds: computing and communicating; next step: what one more would add to the gain.")
    for word in dict.fromkeys(made.why):
        console.print(f"{word}: {schedule.WORDS[word]}.")
    if left_out > 0:
        console.print(f"{SHOWN} of {len(rows):,} clients are shown; --json has them all.")


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else plain(str(value))


def _names(path: Path, lines: Sequence[tuple[int, Mapping[str, Any]]]) -> list[str]:
    rows: dict[str, int] = {}
    for row, line in lines:
        name = (line["client"] or "").strip()
        if not name:
            raise UserError(f"{path}, line {row}: the client has no name; fill in column 'client'.")
        if name in rows:
            raise UserError(
                f"{path}, line {row}: client {name!r} is already on line {rows[name]}; every name once."
            )
        rows[name] = row
    return list(rows)


def _number(path: Path, row: int, name: str, text: str | None) -> float:
    where = f"{path}, line {row}: {name}"
    try:
        number = float(text or "")
    except ValueError:
        shown = "empty" if not (text or "").strip() else f"{text!r}, not a number"
        raise UserError(f"{where} is {shown}; give a number.") from None
    least = SMALLEST if name == "step_seconds" else 0
    if not least <= number <= LARGEST:
        raise UserError(f"{where} is {number:g}; give a number from {least:g} to {LARGEST:g}.")
    return number
