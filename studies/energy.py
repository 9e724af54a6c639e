"""Seconds and joules to a target, under tighter and tighter limits on a round's joules.

Where clients spend unequal joules, fewer joules can be had for more seconds: each limit is a point on that
trade-off.

    python studies/energy.py --profile battery --data digits
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from amsfl.core import UserError
from amsfl.data import Dataset
from amsfl.simulation import CustomParts, Result, RunConfig, make_config
from amsfl.simulation.setup import assemble

import common
from common import Row, StudySettings, Table, Unit, mean, option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MULTIPLES = (1.05, 1.3, 1.7, 2.5, 4.0)  # of what one step of every client costs


@dataclass(frozen=True, kw_only=True)
class Settings(StudySettings):
    data: str = option("digits", "data set, one that `amsfl data` lists")
    profile: str = option("battery", "a profile that says what clients spend (joules_step, joules_mb)")
    method: str = option("amsfl", "a method whose policy keeps to a budget")
    model: str = option("softmax", "model, as in `amsfl run`")
    target: float = option(0.95, "accuracy to reach")
    clients: int = option(5, "number of clients")
    clock: str = option("makespan", "clock, as in `amsfl run`")
    rounds: int = option(500, "rounds of a run, at most")
    budgets: tuple[float, ...] = option(
        (), "limits in joules a round; without them, multiples of what one step of every client costs"
    )
    first_seed: int = option(0, "the first of them")
    out: Path = option(Path("results/energy"), "folder of the results; the same command continues it")

    def run(self) -> dict[str, Any]:
        names = ("data", "profile", "method", "model", "target", "clients", "clock", "rounds")
        return {name: getattr(self, name) for name in names} | {"details": False}


def limits(settings: dict[str, Any], dataset: Dataset) -> list[float]:
    """Multiples of the least that a round can spend, with three digits."""
    config = make_config({**settings, "seed": 0})
    account = assemble([config], CustomParts(dataset)).costs[0].accounts.get("joules")
    if account is None:
        raise UserError(
            f"The profile {config.profile!r} does not say what clients spend; give a table with the columns "
            "joules_step and joules_mb, or take --profile battery."
        )
    cohort = config.cohort or config.clients
    one_step = account.per_step + account.per_round + account.gradient  # some rounds take one more gradient
    least = np.sort(one_step)[::-1][:cohort].sum()
    return [float(f"{multiple * least:.3g}") for multiple in MULTIPLES]


def units(settings: Settings) -> Iterator[Unit]:
    """A unit is one limit with all seeds; the last one has none."""
    load, shared = common.holdout_loader(settings.data, settings.data_dir), settings.run()
    multiples = limits(shared, load())  # refuses a profile without joules
    for limit in (*(settings.budgets or multiples), None):
        configs = [make_config(shared | {"budget_joules": limit, "seed": s}) for s in settings.every_seed()]
        name = "no limit" if limit is None else f"{limit:g} J"
        yield Unit(name, {"name": name, "limit": limit}, configs, load, keep)


def keep(config: RunConfig, result: Result) -> Row:
    """Joules to the target, or until the run ended."""
    summary, reached = result.summary, common.time_to_target(result)
    joules = summary.joules_to_target if reached["reached"] else summary.joules
    steps = sum(summary.steps.values())
    return reached | {"seed": config.seed, "joules": joules or 0.0, "rounds": summary.rounds, "steps": steps}


def rows_of(units: Sequence[Row]) -> list[Row]:
    """Means over seeds, the tightest limit first."""
    return [
        {
            "name": unit["name"],
            "limit": unit["limit"],
            "seconds": mean(unit["trials"], "seconds"),
            "joules": mean(unit["trials"], "joules"),
            "rounds": mean(unit["trials"], "rounds"),
            "steps": float(np.mean([trial["steps"] / trial["rounds"] for trial in unit["trials"]])),
            "reached": all(
                trial["reached"] for trial in unit["trials"]
            ),  # else seconds and joules are bounds
            "trials": unit["trials"],
        }
        for unit in sorted(units, key=lambda unit: np.inf if unit["limit"] is None else unit["limit"])
    ]


def undominated(rows: Sequence[Row]) -> set[str]:
    """Limits that reached the target, and that no other beats in both seconds and joules."""
    reached = [row for row in rows if row["reached"]]
    return {
        row["name"]
        for row in reached
        if not any(
            other["seconds"] <= row["seconds"] and other["joules"] <= row["joules"] and other is not row
            for other in reached
        )
    }


def table(rows: Sequence[Row]) -> Table:
    front = undominated(rows)

    def at_least(template: str, row: Row) -> str:
        return ("" if row["reached"] else "> ") + template.format(**row)

    return Table(
        {
            "joules a round": "{name}",
            "seconds to the target": lambda row: at_least("{seconds:.1f}", row),
            "joules to it": lambda row: at_least("{joules:.0f}", row),
            "rounds": "{rounds:.1f}",
            "steps a round": "{steps:.0f}",
            "beaten by none": lambda row: "yes" if row["name"] in front else "",
        },
        rows,
    )


def figure(rows: Sequence[Row]) -> "Figure":
    """Means, joined in the order of the limits; small dots are seeds, triangles did not reach the target."""
    from amsfl.report.draw import style
    from amsfl.report.draw.drawing import canvas

    drawing, grid = canvas(3.8)
    axes, look = grid[0][0], style.look(0)
    for trial in (trial for row in rows for trial in row["trials"]):
        marker = "o" if trial["reached"] else ">"
        axes.plot(trial["seconds"], trial["joules"], marker, color=look.colour, ms=3.5, alpha=0.45, mew=0)
    axes.plot(
        [row["seconds"] for row in rows], [row["joules"] for row in rows], "-", color=look.colour, lw=1.2
    )
    names: dict[tuple[float, float], list[str]] = {}  # loose limits lie on one another
    for row in rows:
        marker, point = "o" if row["reached"] else ">", (row["seconds"], row["joules"])
        axes.plot(*point, marker, color=look.colour, ms=7, mec=style.INK, mew=0.8)
        names.setdefault(point, []).append(row["name"])
    for place, (point, limits_here) in enumerate(names.items()):
        away = (7, 5 if place % 2 else -12)  # neighbours may be close
        axes.annotate(", ".join(limits_here), point, away, textcoords="offset points", fontsize=8)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.margins(0.12)
    axes.set_xlabel("virtual seconds to the target")
    axes.set_ylabel("joules of all clients to the target")
    return drawing


def study(settings: Settings) -> None:
    rows = rows_of(common.finished_units(settings, units(settings)))
    common.present(settings.out, [table(rows)], figure)


if __name__ == "__main__":
    common.main(Settings, study)
