"""`amsfl plan`: the scheduler on its own, for someone who only has a table of sites."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import typer
from rich.table import Table

from amsfl.cli import flags
from amsfl.cli.output import plain, print_json, screen
from amsfl.clock import read_sites
from amsfl.core import Plan, Remark, UserError
from amsfl.core.records import Json
from amsfl.settings.definitions import Simulation, Training
from amsfl.simulation import RunConfig, make_config

if TYPE_CHECKING:
    from amsfl import schedule

OPTIONAL = {"weight": 1.0, "gain": 1.0, "drift": None, "joules_step": None, "joules_mb": None}
COLUMNS = ("client", "weight", "step_seconds", "comm_seconds", "gain", "drift", "joules_step", "joules_mb")
SHOWN = 40  # clients of a table; JSON has them all


@flags.takes(
    Training,
    Simulation,
    only=("budget", "clock", "policy", "policy_options", "budget_joules", "budget_megabytes"),
    other_names={"clock": "--kind", "policy_options": "--set"},
)
def plan(
    settings: Json,
    clients: Annotated[Path, typer.Argument(help="CSV, one row per client: " + ", ".join(COLUMNS))],
    curve: Annotated[
        str, typer.Option(help="how a step's worth falls: linear (the paper's) or geometric (saturating)")
    ] = "linear",
    t_max: Annotated[int, typer.Option("--t-max", help="no client takes more steps than this")] = 1000,
    sent: Annotated[
        float,
        typer.Option(min=0, help="megabytes of one client's round, both ways"),
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON instead of a table")] = False,
) -> None:
    """How many local steps each client should take this round, and why.

    The file is a table of sites; `amsfl methods` lists its columns. It needs client and step_seconds.

    Without weight all clients count the same. Without comm_seconds or latency communication is free. Without
    gain a first step is worth 1 everywhere. Without drift each further step is worth less than the one before
    it, by 5% of the mean gain. The policy auto is price.
    """
    from amsfl import schedule

    # a user's own sites work side by side
    config = make_config({"clock": "makespan"} | settings)
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
        resources=resources(table, config, sent),
    )
    policy = "price" if config.policy == "auto" else config.policy
    made = schedule.policy(policy, **config.policy_options)(problem)
    if as_json:
        print_json(as_record(problem, made, policy), indent=2)
    else:
        show(problem, made)


def read(path: Path) -> Json:
    """The columns of a table of sites that a plan takes; those that it does not are said."""
    table = read_sites(path)
    table.need("client", "step_seconds")
    columns = {name: table.columns.get(name, default) for name, default in OPTIONAL.items()}
    # no model, so nothing to transfer
    whole = "comm_seconds" if "comm_seconds" in table.columns else "latency"
    columns["comm_seconds"] = table.columns.get(whole, 0.0)
    unused = table.unused({"step_seconds", whole, *OPTIONAL})
    if unused:
        warnings.warn(unused, Remark, stacklevel=2)
    return columns | {"client": table.clients, "step_seconds": table.columns["step_seconds"]}


def resources(table: Json, config: RunConfig, sent: float) -> "list[schedule.Resource]":
    """The limits on joules and megabytes, if the table and --sent say what they are limits on."""
    from amsfl import schedule

    columns, none = [], np.zeros(len(table["client"]))
    if config.budget_joules is not None:
        step, each = table["joules_step"], table["joules_mb"]
        if step is None and each is None:
            raise UserError(
                "--budget-joules needs to know what clients spend; give the table joules_step, and joules_mb "
                "with --sent."
            )
        part = none if each is None else each * sent
        columns.append(
            schedule.Resource("joules", none if step is None else step, part, config.budget_joules)
        )
    if config.budget_megabytes is not None:
        if not sent:
            raise UserError(
                "--budget-megabytes needs to know what a client sends; give --sent, the megabytes of one "
                "client's round, both ways."
            )
        columns.append(schedule.Resource("megabytes", none, none + sent, config.budget_megabytes))
    return columns


def as_record(problem: "schedule.Problem", made: Plan, policy: str) -> Json:
    """The plan as plain JSON."""
    from amsfl.schedule.problem import used

    return {
        "policy": policy,
        "kind": problem.kind,
        "curve": problem.curve,
        "budget": problem.budget,
        "limits": {
            each.name: {"limit": each.limit, "used": used(each, made.steps)} for each in problem.resources
        },
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
        side: Literal["left", "right"] = "left" if key in ("client", "why") else "right"
        width = None if key == "client" else len(title)  # long names give way, not the numbers
        table.add_column(title, justify=side, style=style, min_width=width, no_wrap=True, overflow="fold")
    rows = schedule.table(problem, made)
    left_out = len(rows) - SHOWN
    for place, row in enumerate(rows):
        if left_out <= 0 or place < SHOWN // 2 or place >= len(rows) - SHOWN // 2:
            cells = (row[key] for key in titles)
            table.add_row(*(f"{v:.4g}" if isinstance(v, float) else plain(str(v)) for v in cells))
        elif place == SHOWN // 2:
            table.add_row(f"... {left_out:,} more")
    console = screen()
    console.print(table)
    console.print(schedule.summary(problem, made))
    console.print("seconds: computing and communicating; next step: what one more would add to the gain.")
    for word in dict.fromkeys(made.why):
        console.print(f"{word}: {schedule.REASON_TEXTS[word]}.")
    if left_out > 0:
        console.print(f"{SHOWN} of {len(rows):,} clients are shown; --json has them all.")
