"""The recommended chain of rules against attacks, by how many of ten clients attack. The worst one counts.

All contestants train for as many rounds. Rules are told how many clients to doubt, and doubt as many when
nobody attacks: that is what caution costs. A cap leaves each of the ten clients one vote.

    python studies/robustness.py --data digits
    python studies/robustness.py --data made:7        # a generated table; 5 and 6 were used to choose
    python studies/robustness.py --data suite:satimage  # a table of the suite (studies/suite)
    python studies/robustness.py --every-rule         # every rule by itself, too
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from amsfl.combine import RECOMMENDED
from amsfl.core import Plan, UserError
from amsfl.data import Dataset
from amsfl.schedule import Policy, Problem, Signals, as_plan
from amsfl.simulation import Result, RunConfig, make_config

import common
from common import Row, StudySettings, Table, Unit, grouped, mean, option
from suite.data import plain_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_STEPS = 50
UNEQUAL = f"1 to {MOST_STEPS} steps"
CHAIN = RECOMMENDED.replace(":2", ":{f}")  # {f} stands for the number of attackers
RULES = ("median", "trimmed:{f}", "geomedian", "krum:{f}", "multikrum:{f}", "centred", "nnm:{f},geomedian")
ATTACKS = (
    *("push", "fan", "signflip", "turns", "late", "gaussian", "labelflip", "alie", "ipm", "ipm/0.5", "mimic"),
    *("minmax", "minsum", "backdoor", "idle", "rows", "colluders", "readings", "alarm", "seconds"),
)
CLOSE = 0.95  # of what the method comes to without rules and attackers: how long that takes is "time"
SHARED = {"clients": 10, "partition": "dirichlet:0.5", "profile": "wild", "lr": 0.2, "steps": 10}


@dataclass(frozen=True, kw_only=True)
class Settings(StudySettings):
    data: str = option("digits", "data set, one that `amsfl data` lists, made:SEED or suite:TABLE")
    attackers: tuple[int, ...] = option((2, 3), "how many of the ten clients attack")
    attacks: tuple[str, ...] = option(ATTACKS, "attacks to try")
    rounds: int = option(40, "of every run; the attack `late` begins in the last quarter")
    contestants: str = option("", "only contestants that have this in their names")
    every_rule: bool = option(False, "every rule by itself, too, and steps from 1 to 50")
    out: Path = option(Path("results/robustness"), "folder of the results; the same command continues it")


def contestants(every_rule: bool = False) -> dict[str, dict[str, str]]:
    """FedAvg and AMSFL, each alone and with the chain."""
    methods = {"FedAvg": "fedavg", "AMSFL": "amsfl"}
    chosen = {title: {"method": name} for title, name in methods.items()}
    chosen |= {f"{title}, chain": {"method": name, "robust": CHAIN} for title, name in methods.items()}
    if every_rule:
        for rule in RULES:
            own = {"method": "fedavg", "robust": f"cap:0.1,{rule}"}
            chosen[f"FedAvg, {rule.replace(':{f}', '')}"] = own
        for title, name in methods.items():
            chosen[f"{title}, chain, {UNEQUAL}"] = {"method": name, "robust": CHAIN}
    return chosen


def unequal_steps() -> Policy:
    """From 1 to MOST_STEPS, evenly over the clients: a rule must not take this for an attack."""

    def plan(problem: Problem, signals: Signals) -> Plan:
        return as_plan(problem, np.linspace(1, MOST_STEPS, len(problem.weights)).astype(np.int64))

    return Policy("unequal", plan, constant=True, steps=False)


def made(seed: int, rows: int = 2600, holdout: int = 600) -> Dataset:
    """A table of 20 features and 6 classes; of every second seed 12 and 4, bent."""
    bent = seed % 2 == 0
    rng, features, classes = np.random.default_rng(seed), 12 if bent else 20, 4 if bent else 6
    x = rng.normal(size=(rows, features)).astype(np.float32)
    inputs = np.concatenate([x, x[:, :5] ** 2 - 1], 1) if bent else x
    scores = inputs @ rng.normal(size=(inputs.shape[1], classes))
    y = (scores + (0.5 if bent else 1.0) * rng.normal(size=scores.shape)).argmax(1).astype(np.int32)
    names = tuple(f"feature {place}" for place in range(features))
    judged = {"holdout": (x[-holdout:], y[-holdout:])}
    return Dataset(f"made:{seed}", x[:-holdout], y[:-holdout], judged, tuple(map(str, range(classes))), names)


def loader(settings: Settings) -> Callable[[], Dataset]:
    kind, _, which = settings.data.partition(":")
    if kind == "suite":
        return plain_table(which, settings.data_dir)
    if kind != "made":
        return common.holdout_loader(settings.data, settings.data_dir)
    if not which.isdigit():
        raise UserError(f"A generated table has a number, as in made:7, not {settings.data!r}.")
    return lambda: made(int(which))


def spelled(attack: str, count: int, rounds: int) -> str:
    """An attack as `--attack` takes it: `late` sleeps for three quarters of the run."""
    name, _, strength = attack.partition("/")
    if name == "late":
        name, strength = "sleeper", str(3 * rounds // 4)
    return f"{name}:{count}" + (f"/{strength}" if strength else "")


def units(settings: Settings) -> Iterator[Unit]:
    """A unit is one contestant against one number of attackers: all attacks and seeds."""
    if not settings.attackers or not all(0 < count < 10 for count in settings.attackers):
        raise UserError("--attackers is a list of numbers from 1 to 9, as in 1,2.")
    every, load = contestants(settings.every_rule), loader(settings)
    for count in settings.attackers:
        for name in common.named(every, settings.contestants):
            own = {key: value.format(f=count) for key, value in every[name].items()}
            known = {} if ":" in settings.data else {"data": settings.data}
            shared = SHARED | own | known | {"rounds": settings.rounds}
            attacks = settings.attacks if "robust" in own or settings.every_rule else ()
            trials = [(attack, seed) for attack in ("", *attacks) for seed in settings.every_seed()]
            specs = [spelled(attack, count, settings.rounds) if attack else "" for attack, _ in trials]
            yield Unit(
                f"{settings.data}, {name}, {count} of 10 attack",
                {"data": settings.data, "name": name, "attackers": count},
                [
                    make_config(shared | {"attack": spec, "seed": seed})
                    for spec, (_, seed) in zip(specs, trials, strict=True)
                ],
                load,
                keep(dict(zip(specs, (attack for attack, _ in trials), strict=True))),
                unequal_steps() if name.endswith(UNEQUAL) else None,
            )


def keep(names: dict[str, str]) -> Callable[[RunConfig, Result], Row]:
    """Accuracy is the mean of the last three rounds; `share` is the attackers' of all steps."""

    def row(config: RunConfig, result: Result) -> Row:
        accuracy = [record.metrics["holdout"]["accuracy"] for record in result.rounds]
        steps = np.array(list(result.summary.steps.values()), float)
        attackers = result.parts.attackers.who[result.place] > 0
        return {
            "attack": names[config.attack],  # empty: none
            "seed": config.seed,
            "accuracy": float(np.mean(accuracy[-3:])),
            "curve": [round(each, 4) for each in accuracy],
            "seconds": [round(record.seconds[config.clock], 3) for record in result.rounds],
            "share": float(steps[attackers].sum() / steps.sum()),
        }

    return row


def summarise(unit: Row, plain: Row | None) -> Row:
    """Means over seeds; the worst attack is the one with the lowest mean. `plain`: the same method without
    rules, by which `cost` and `slower` say what the chain costs where nobody attacks."""
    trials = {attack: rows for (attack,), rows in grouped(unit["trials"], "attack").items()}
    accuracy = {attack: mean(rows, "accuracy") for attack, rows in trials.items()}
    worst = min((attack for attack in accuracy if attack), key=lambda attack: accuracy[attack], default="")
    share = max((mean(rows, "share") for attack, rows in trials.items() if attack), default=0.0)
    honest = [row for row in plain["trials"] if not row["attack"]] if plain else trials[""]
    goal = CLOSE * mean(honest, "accuracy")
    return {
        "data": unit["data"],
        "name": unit["name"],
        "attackers": unit["attackers"],
        "honest": accuracy[""],
        "worst": accuracy[worst],
        "attack": worst,
        "lost": 100 * (accuracy[""] - accuracy[worst]),
        "share": share / (unit["attackers"] / 10),
        "cost": 100 * (mean(honest, "accuracy") - accuracy[""]),
        "slower": _seconds(trials[""], goal) / _seconds(honest, goal),
        "accuracy": accuracy,
    }


def _seconds(rows: Sequence[Row], goal: float) -> float:
    """Mean virtual seconds to an accuracy; of a run that never had it, those of the whole run."""
    firsts = (next((k for k, each in enumerate(row["curve"]) if each >= goal), -1) for row in rows)
    return float(np.mean([row["seconds"][first] for row, first in zip(rows, firsts, strict=True)]))


def summaries(units: Sequence[Row]) -> list[Row]:
    order = list(contestants(True))
    known = {(unit["data"], unit["name"], unit["attackers"]): unit for unit in units}
    rows = [
        summarise(unit, known.get((unit["data"], unit["name"].split(",")[0], unit["attackers"])))
        for unit in units
    ]
    return sorted(rows, key=lambda row: (row["data"], row["attackers"], order.index(row["name"])))


def tables(units: Sequence[Row]) -> list[Table]:
    rows = summaries(units)
    attacks = list(dict.fromkeys(attack for row in rows for attack in row["accuracy"] if attack))

    def accuracy(attack: str, row: Row) -> str:
        return f"{row['accuracy'][attack]:.3f}" if attack in row["accuracy"] else ""

    attacked = [row for row in rows if row["attack"]]
    return [
        Table(
            {
                "data": "{data}",
                "attackers of 10": "{attackers}",
                "contestant": "{name}",
                "no attack": "{honest:.3f}",
                "worst attack": "{worst:.3f}",
                "which": "{attack}",
                "points lost": "{lost:.1f}",
                "their steps, times their number": "{share:.2f}",
                "the chain costs, points": "{cost:.1f}",
                "and times the time": "{slower:.2f}",
            },
            attacked,
        ),
        Table(
            {
                "data": "{data}",
                "attackers": "{attackers}",
                "contestant": "{name}",
                "no attack": "{honest:.3f}",
            }
            | {attack: lambda row, attack=attack: accuracy(attack, row) for attack in attacks},
            rows,
        ),
    ]


def figure(rows: Sequence[Row]) -> "Figure":
    """A line for each contestant, a mark for every number of attackers; hollow: nobody attacks."""
    from matplotlib.lines import Line2D

    from amsfl.report.draw import style
    from amsfl.report.draw.drawing import canvas, legend

    names = list(dict.fromkeys(f"{row['data']}: {row['name']}" for row in rows))
    counts = sorted({row["attackers"] for row in rows})
    looks = {count: style.look(place) for place, count in enumerate(counts)}
    drawing, grid = canvas(0.3 * len(names) + 1.3)
    axes = grid[0][0]
    for row in rows:
        place, look = names.index(f"{row['data']}: {row['name']}"), looks[row["attackers"]]
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
    common.present(settings.out, tables(common.finished_units(settings, units(settings))), figure)


if __name__ == "__main__":
    common.main(Settings, study)
