"""`amsfl plan`: the scheduler on its own, for someone who only has a table of sites."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from rich.table import Table

from amsfl.cli import flags
from amsfl.cli.output import AsJson, plain, print_json, screen
from amsfl.core import Plan, Remark
from amsfl.core.records import Json
from amsfl.settings.definitions import RunConfig

if TYPE_CHECKING:
    from amsfl import planning

COLUMNS = ("client", "weight", "step_seconds", "comm_seconds", "gain", "fading")
SHOWN = 40  # clients of a table; JSON has them all


@flags.takes(RunConfig, only=("budget", "clock", "policy", "steps"))
def plan(
    settings: Json,
    clients: Annotated[Path, Parameter(help="CSV, one row per client: " + ", ".join(COLUMNS))],
    /,
    *,
    most: Annotated[
        int | None, Parameter(help="no client takes more steps than this; as many as in a run by default")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """How many local steps each client should take this round, and why.

    The file is a table of sites; `amsfl methods` lists its columns. It needs client and step_seconds.

    Without weight all clients count the same. Without comm_seconds or latency communication is free. Without
    gain a first step is worth 1 everywhere. Without fading each further step is worth a twentieth less than
    the one before it. The policy auto is price.
    """
    from amsfl import planning
    from amsfl.settings.parse import make_config

    # a user's own sites work side by side
    config = make_config({"clock": "makespan"} | settings)
    table = read(clients)
    problem = planning.problem(
        **table, most=planning.USUAL_MOST if most is None else most, clock=config.clock, budget=config.budget
    )
    policy = "price" if config.policy == "auto" else config.policy
    made = planning.policy(policy)(problem, planning.Signals(steps=config.steps))
    if as_json:
        print_json(as_record(problem, made, policy), indent=2)
    else:
        show(problem, made)


def read(path: Path) -> Json:
    """What `planning.problem` takes of a table of sites; columns that it does not take are said."""
    from amsfl.clock import read_sites
    from amsfl.planning import FADING

    table = read_sites(path)
    table.need("client", "step_seconds")
    usual = {"weight": 1.0, "gain": 1.0, "fading": FADING}
    columns = {name: table.columns.get(name, default) for name, default in usual.items()}
    # no model, so nothing to transfer
    whole = "comm_seconds" if "comm_seconds" in table.columns else "latency"
    unused = table.unused({"step_seconds", whole, *usual})
    if unused:
        warnings.warn(unused, Remark, stacklevel=2)
    return {
        "weights": columns.pop("weight"),
        "step_seconds": table.columns["step_seconds"],
        "comm_seconds": table.columns.get(whole, 0.0),
        "clients": table.clients,
        **columns,
    }


def as_record(problem: "planning.Problem", made: Plan, policy: str) -> Json:
    """The plan as plain JSON."""
    return {
        "policy": policy,
        "clock": problem.clock,
        "budget": problem.budget,
        "steps": dict(zip(problem.clients, made.steps.tolist(), strict=True)),
        "seconds": made.seconds,
        "worth": problem.worth(made.steps),
        "why": dict(zip(problem.clients, made.why, strict=True)),
    }


def show(problem: "planning.Problem", made: Plan) -> None:
    """The plan as a table, and what it comes to."""
    from amsfl import planning

    titles = {
        "client": "client",
        "weight": "weight",
        "step_seconds": "s a step",
        "gain": "gain",
        "fading": "fading",
        "steps": "steps",
        "seconds": "seconds",
        "next_worth": "next step",
        "why": "stopped by",
    }
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="underline")
    for key, title in titles.items():
        style = "bold" if key == "steps" else None
        side: Literal["left", "right"] = "left" if key in ("client", "why") else "right"
        width = None if key == "client" else len(title)  # long names give way, not the numbers
        table.add_column(title, justify=side, style=style, min_width=width, no_wrap=True, overflow="fold")
    rows = planning.table(problem, made)
    left_out = len(rows) - SHOWN
    for place, row in enumerate(rows):
        if left_out <= 0 or place < SHOWN // 2 or place >= len(rows) - SHOWN // 2:
            cells = (row[key] for key in titles)
            table.add_row(*(f"{v:.4g}" if isinstance(v, float) else plain(str(v)) for v in cells))
        elif place == SHOWN // 2:
            table.add_row(f"... {left_out:,} more")
    console = screen()
    console.print(table)
    console.print(planning.summary(problem, made))
    console.print("seconds: computing and communicating; next step: what one more would add to the gain.")
    for word in dict.fromkeys(made.why):
        console.print(f"{word}: {planning.REASONS[word]}.")
    if left_out > 0:
        console.print(f"{SHOWN} of {len(rows):,} clients are shown; --json has them all.")
