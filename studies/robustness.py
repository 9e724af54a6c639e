"""Rules against attacks, by how many of ten clients attack. What counts is the worst attack.

All contestants train for the same virtual seconds. Rules are told how many clients to doubt, and doubt as
many when nobody attacks: that is what caution costs. Every rule is preceded by a cap that leaves each of the
ten clients one vote; without it, a client that claims more rows has more than its share.

    python studies/robustness.py --data digits
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from amsfl.core import Plan, UserError
from amsfl.schedule import Policy, Problem, Signals
from amsfl.schedule.optimise import as_plan
from amsfl.simulation import Result, RunConfig, make_config

import common
from common import Row, StudySettings, Table, Unit, grouped, mean, option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TARGET = 0.89
MOST_STEPS = 50
UNEQUAL = f"1 to {MOST_STEPS} steps"
RULES = (
    "median",
    "trimmed:{f}",
    "geomedian",
    "krum:{f}",
    "multikrum:{f}",
    "centred",
    "clip",
    "nnm:{f},trimmed:{f}",
    "nnm:{f},geomedian",
    "clip,nnm:{f},geomedian",
)
ATTACKS = ("signflip", "gaussian", "labelflip", "alie", "ipm", "mimic", "rows", "readings", "seconds")
SHARED = {"clients": 10, "partition": "dirichlet:0.5", "profile": "wild", "lr": 0.2, "steps": 10}


@dataclass(frozen=True, kw_only=True)
class Settings(StudySettings):
    data: str = option("digits", "data set, one that `amsfl data` lists")
    attackers: tuple[int, ...] = option((1, 2, 3, 4), "how many of the ten clients attack")
    attacks: tuple[str, ...] = option(ATTACKS, "attacks to try")
    seconds: float = option(180.0, "virtual seconds of every run")
    contestants: str = option("", "only contestants that have this in their names")
    out: Path = option(Path("results/robustness"), "folder of the results; the same command continues it")


def contestants() -> dict[str, dict[str, str]]:
    """FedAvg and AMSFL, each alone and with rules; {f} stands for the number of attackers."""

    def with_rule(method: str, rule: str) -> dict[str, str]:
        return {"method": method, "robust": f"cap:0.1,{rule}"}

    short = {rule: rule.replace(":{f}", "") for rule in RULES}
    strongest = RULES[-1]
    return (
        {"FedAvg": {"method": "fedavg"}}
        | {f"FedAvg, {short[rule]}": with_rule("fedavg", rule) for rule in RULES}
        | {"AMSFL": {"method": "amsfl"}}
        | {f"AMSFL, {short[rule]}": with_rule("amsfl", rule) for rule in RULES[-3:]}
        | {f"FedAvg, {short[strongest]}, {UNEQUAL}": with_rule("fedavg", strongest)}
        | {f"AMSFL, {short[strongest]}, {UNEQUAL}": with_rule("amsfl", strongest)}
    )


CONTESTANTS = contestants()


def unequal_steps() -> Policy:
    """From 1 to MOST_STEPS, evenly over the clients: a rule must not take this for an attack."""

    def plan(problem: Problem, signals: Signals) -> Plan:
        return as_plan(problem, np.linspace(1, MOST_STEPS, len(problem.weights)).astype(np.int64))

    return Policy("unequal", plan, constant=True, steps=False)


def units(settings: Settings) -> Iterator[Unit]:
    """A unit is one contestant against one number of attackers: all attacks and seeds."""
    if not settings.attackers or not all(0 < count < 10 for count in settings.attackers):
        raise UserError("--attackers is a list of numbers from 1 to 9, as in 1,2.")
    load = common.holdout_loader(settings.data, settings.data_dir)
    for count in settings.attackers:
        attacks = ["", *(f"{attack}:{count}" for attack in settings.attacks)]
        for name in common.named(CONTESTANTS, settings.contestants):
            own = {key: value.format(f=count) for key, value in CONTESTANTS[name].items()}
            shared = SHARED | own | {"data": settings.data, "seconds": settings.seconds}
            yield Unit(
                f"{name}, {count} of 10 attack",
                {"name": name, "attackers": count},
                [
                    make_config(shared | {"attack": attack, "seed": seed})
                    for attack in attacks
                    for seed in settings.every_seed()
                ],
                load,
                keep,
                unequal_steps() if name.endswith(UNEQUAL) else None,
            )


def keep(config: RunConfig, result: Result) -> Row:
    """Accuracy is the mean of the last three rounds; seconds are virtual, to TARGET."""
    accuracy = [record.metrics["holdout"]["accuracy"] for record in result.rounds]
    clock = [record.seconds[config.clock] for record in result.rounds]
    reached = (when for when, score in zip(clock, accuracy, strict=True) if score >= TARGET)
    return {
        "attack": config.attack.split(":")[0],  # empty: none
        "seed": config.seed,
        "accuracy": float(np.mean(accuracy[-3:])),
        "seconds": next(reached, None),
    }


def summarise(unit: Row) -> Row:
    """Means over seeds; the worst attack is the one with the lowest mean."""
    trials = {attack: rows for (attack,), rows in grouped(unit["trials"], "attack").items()}
    accuracy = {attack: mean(rows, "accuracy") for attack, rows in trials.items()}
    worst = min((attack for attack in accuracy if attack), key=lambda attack: accuracy[attack])
    return {
        "name": unit["name"],
        "attackers": unit["attackers"],
        "honest": accuracy[""],
        "worst": accuracy[worst],
        "attack": worst,
        "seconds": _mean_seconds(trials[""]),
        "attacked_seconds": _mean_seconds(trials[worst]),
        "accuracy": accuracy,
    }


def _mean_seconds(rows: Sequence[Row]) -> float | None:
    """None where not all seeds reached the target."""
    return None if any(row["seconds"] is None for row in rows) else mean(rows, "seconds")


def tables(units: Sequence[Row]) -> list[Table]:
    order = list(CONTESTANTS)
    rows = sorted(map(summarise, units), key=lambda row: (order.index(row["name"]), row["attackers"]))
    attacks = list(dict.fromkeys(attack for row in rows for attack in row["accuracy"] if attack))

    def seconds(key: str, row: Row) -> str:
        return "never" if row[key] is None else f"{row[key]:.1f}"

    def accuracy(attack: str, row: Row) -> str:
        return f"{row['accuracy'][attack]:.3f}" if attack in row["accuracy"] else ""

    return [
        Table(
            {
                "contestant": "{name}",
                "attackers of 10": "{attackers}",
                "no attack": "{honest:.3f}",
                "worst attack": "{worst:.3f}",
                "which": "{attack}",
                "s to 89%": lambda row: seconds("seconds", row),
                "under it": lambda row: seconds("attacked_seconds", row),
            },
            rows,
        ),
        Table(
            {"contestant": "{name}", "attackers": "{attackers}", "no attack": "{honest:.3f}"}
            | {attack: lambda row, attack=attack: accuracy(attack, row) for attack in attacks},
            rows,
        ),
    ]


def figure(rows: Sequence[Row]) -> "Figure":
    """A line for each contestant, a mark for every number of attackers; hollow: nobody attacks."""
    from matplotlib.lines import Line2D

    from amsfl.report.draw import style
    from amsfl.report.draw.drawing import canvas, legend

    names = list(dict.fromkeys(row["name"] for row in rows))
    counts = sorted({row["attackers"] for row in rows})
    looks = {count: style.look(place) for place, count in enumerate(counts)}
    drawing, grid = canvas(0.3 * len(names) + 1.3)
    axes = grid[0][0]
    for row in rows:
        place, look = names.index(row["name"]), looks[row["attackers"]]
        axes.plot(row["honest"], place, "o", color=style.INK, mfc="none", ms=5, mew=0.8)
        axes.plot(row["worst"], place, look.marker.code, color=look.colour, ms=6, mew=0)
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("accuracy under the worst attack")
    keys = [Line2D([], [], color=style.INK, marker="o", mfc="none", mew=0.8, ls="")]
    keys += [Line2D([], [], color=look.colour, marker=look.marker.code, ls="") for look in looks.values()]
    labels = ["nobody attacks", *(f"{count} of ten" for count in counts)]
    legend(drawing, keys, labels, columns=len(labels))
    return drawing


def study(settings: Settings) -> None:
    if not settings.only_report:
        common.run_units(settings.out, units(settings))
    common.present(settings.out, tables(common.read_units(settings.out)), figure)


if __name__ == "__main__":
    common.main(Settings, study)
