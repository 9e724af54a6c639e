"""Rounds that wait for all clients and rounds that do not: virtual seconds to 95% of the hold-out.

Ten clients, Dirichlet 0.5, all of them training at once; five profiles; clients that are always available and
clients that come and go. Contestants that need a learning rate and a number of steps are run with all pairs,
and count in each setting with the pair that was best there over all seeds: tuned with hindsight. AMSFL sets
both itself.

    python studies/asynchrony.py --data nslkdd --data-dir DIR
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amsfl.simulation import Result, RunConfig, make_config

import common
from common import Row, StudySettings, Table, Unit, grouped, option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROFILES = ("mild", "wild", "slow-big", "far", "wan")
AVAILABILITY = {
    "always": "Clients that are always available",
    "chain:4,2": "Clients that come and go",  # on average available for 4 s, away for 2 s
}
TARGET = 0.95
CLIENTS = 10
RATES, STEPS = (0.1, 0.3, 1.0), (5, 20, 50)
UPLOADS, WORK = 4_000, 60_000  # at most, of a run: rounds of clients, and their steps
ROWS = 5000  # of the hold-out
BASE = "FedAvg, all"
CONTESTANTS: dict[str, dict[str, str]] = {
    BASE: {"method": "fedavg", "round_end": "all"},
    "FedAvg, quorum:5": {"method": "fedavg", "round_end": "quorum:5"},
    "FedAsync, buffer:1": {"method": "fedasync", "round_end": "buffer:1"},
    "FedBuff, buffer:2": {"method": "fedbuff", "round_end": "buffer:2"},
    "FedBuff, buffer:5": {"method": "fedbuff", "round_end": "buffer:5"},
    "FedCompass, groups": {"method": "fedcompass", "round_end": "groups"},
    "AMSFL, all": {"method": "amsfl", "round_end": "all"},
    "AMSFL, quorum:5": {"method": "amsfl", "round_end": "quorum:5"},
    "AMSFL, buffer:2": {"method": "amsfl", "round_end": "buffer:2"},
    "AMSFL, buffer:5": {"method": "amsfl", "round_end": "buffer:5"},
}


@dataclass(frozen=True, kw_only=True)
class Settings(StudySettings):
    data: str = option("nslkdd", "data set, one that `amsfl data` lists")
    contestants: str = option("", "only contestants that have this in their names")
    out: Path = option(Path("results/asynchrony"), "folder of the results; the same command continues it")


def units(settings: Settings) -> Iterator[Unit]:
    """A unit is one contestant with one number of steps: all learning rates, settings and seeds."""
    load = common.holdout_loader(settings.data, settings.data_dir, ROWS)
    for name in common.named(CONTESTANTS, settings.contestants):
        own = CONTESTANTS[name] | {"data": settings.data}
        tuned = {f"{name}, {steps} steps": [{"lr": lr, "steps": steps} for lr in RATES] for steps in STEPS}
        for unit, pairs in ({name: [{}]} if own["method"] == "amsfl" else tuned).items():
            configs = [
                make_config(own | pair | _shared(own | pair) | where | {"seed": seed})
                for pair in pairs
                for where in _settings()
                for seed in settings.every_seed()
            ]
            yield Unit(unit, {"name": name}, configs, load, keep)


def _settings() -> list[dict[str, str]]:
    return [
        {"profile": profile, "availability": availability}
        for availability in AVAILABILITY
        for profile in PROFILES
    ]


def _shared(own: dict[str, Any]) -> dict[str, Any]:
    """As many rounds as the work allows, evaluated about four times while every client uploads once."""
    kind, _, count = own["round_end"].partition(":")
    uploads = int(count) if kind == "buffer" else CLIENTS  # after a quorum, the late clients upload, too
    return {
        "clients": CLIENTS,
        "partition": "dirichlet:0.5",
        "clock": "makespan",
        "target": TARGET,
        "details": False,
        "rounds": min(UPLOADS, WORK // own.get("steps", 20)) // uploads,
        "eval_every": max(1, CLIENTS // (4 * uploads)),
    }


def keep(config: RunConfig, result: Result) -> Row:
    kept = ("profile", "availability", "seed", "lr", "steps")
    return {key: getattr(config, key) for key in kept} | common.time_to_target(result)


def tuned_with_hindsight(units: Sequence[Row]) -> list[Row]:
    """One row for each contestant and setting, with the pair of learning rate and steps that was best."""
    trials = [{"name": unit["name"], **trial} for unit in units for trial in unit["trials"]]
    best = common.best_with_hindsight(trials, ("name", "profile", "availability"), ("lr", "steps"))
    order = list(CONTESTANTS)
    return sorted(best, key=lambda row: order.index(row["name"]))


def table(rows: Sequence[Row], availability: str) -> Table:
    """Seconds by profile; how many times as fast as FedAvg that waits for all: a geometric mean."""
    by_name = {
        name: {row["profile"]: row for row in group}
        for (name,), group in grouped(
            [row for row in rows if row["availability"] == availability], "name"
        ).items()
    }
    base, lines = by_name.get(BASE, {}), list[Row]()
    for name, own in by_name.items():
        if own.keys() >= set(PROFILES) and base.keys() >= set(PROFILES):
            logs = [math.log(base[profile]["seconds"] / own[profile]["seconds"]) for profile in PROFILES]
            every = all(own[profile]["reached"] and base[profile]["reached"] for profile in PROFILES)
            factor = math.exp(sum(logs) / len(logs))
            lines.append({"name": name, "own": own, "factor": f"{'' if every else 'about '}{factor:.2f}"})

    def seconds(profile: str, line: Row) -> str:
        row = line["own"][profile]
        return f"{'' if row['reached'] else '> '}{row['seconds']:.1f}"

    return Table(
        {"contestant": "{name}"}
        | {profile: lambda line, profile=profile: seconds(profile, line) for profile in PROFILES}
        | {f"times as fast as {BASE}": "{factor}"},
        lines,
        f"{AVAILABILITY[availability]} (`--availability {availability}`), seconds to {TARGET:.0%}:",
    )


def figure(rows: Sequence[Row]) -> "Figure":
    """A line for each contestant, a colour for each profile; a triangle did not reach the target."""
    from matplotlib.lines import Line2D

    from amsfl.report.draw import style
    from amsfl.report.draw.drawing import canvas, legend

    names = list(dict.fromkeys(row["name"] for row in rows))
    profiles = list(dict.fromkeys(row["profile"] for row in rows))
    panels = list(dict.fromkeys(row["availability"] for row in rows))
    drawing, grid = canvas(0.34 * len(names) + 1.5, columns=len(panels), sharex=True, sharey=True)
    for axes, availability in zip(grid[0], panels, strict=True):
        for row in rows:
            if row["availability"] == availability:
                look = style.look(profiles.index(row["profile"]))
                marker = look.marker.code if row["reached"] else ">"
                axes.plot(row["seconds"], names.index(row["name"]), marker, color=look.colour, ms=6, mew=0)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        axes.set_title(availability, fontsize=8)
        axes.set_xlabel("virtual seconds to the target")
        axes.set_yticks(range(len(names)), names, fontsize=7)
        axes.set_ylim(len(names) - 0.4, -0.6)
    keys = [
        Line2D([], [], color=look.colour, marker=look.marker.code, ls="")
        for look in map(style.look, range(len(profiles)))
    ]
    legend(drawing, keys, profiles, columns=len(profiles))
    return drawing


def study(settings: Settings) -> None:
    rows = tuned_with_hindsight(common.finished_units(settings, units(settings)))
    shown = [table(rows, availability) for availability in AVAILABILITY]
    common.present(settings.out, shown, figure, rows)


if __name__ == "__main__":
    common.main(Settings, study)
