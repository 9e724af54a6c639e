"""Accuracy against epsilon: equal steps for all sites, and epsilon planned over the run.

Five sites of very unequal size, each with the same epsilon. All contestants have the same rounds and, on
average, the same steps. Each has the learning rate (and, where all sites share one noise, the noise) that was
best for it: tuned with hindsight.

    python studies/privacy.py --data digits --epsilons 1,2,4,8
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from amsfl.simulation import Result, RunConfig, make_config

import common
from common import Row, StudySettings, Table, Unit, grouped, mean, option

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLANNED = "AMSFL, epsilon planned"
CONTESTANTS: dict[str, dict[str, Any]] = {
    "FedAvg, equal steps, one noise": {"method": "fedavg", "noise": (2.0, 4.0, 8.0)},
    "FedAvg, equal steps": {"method": "fedavg"},
    "AMSFL, equal steps": {"method": "amsfl", "policy": "fixed"},
    PLANNED: {"method": "amsfl"},
}
RATES = (0.25, 0.5, 1.0)
SHARED = {"clients": 5, "batch": 32, "steps": 10, "details": False}


@dataclass(frozen=True, kw_only=True)
class Settings(StudySettings):
    data: str = option("digits", "data set, one that `amsfl data` lists")
    seeds: int = option(10, "seeds of every setting")
    epsilons: tuple[float, ...] = option((1.0, 2.0, 4.0, 8.0), "budgets of every site")
    rounds: int = option(30, "rounds of every run")
    model: str = option("softmax", "model, as in `amsfl run`")
    partition: str = option("quantity:1", "partition, as in `amsfl run`")
    out: Path = option(Path("results/privacy"), "folder of the results; the same command continues it")


def units(settings: Settings) -> Iterator[Unit]:
    """A unit is one contestant with one epsilon: all learning rates, noises and seeds."""
    load, rounds = common.holdout_loader(settings.data, settings.data_dir), settings.rounds
    shared = SHARED | {"data": settings.data, "model": settings.model, "partition": settings.partition}
    shared |= {"rounds": rounds, "eval_every": rounds}
    for epsilon in settings.epsilons:
        for name, own in CONTESTANTS.items():
            configs = [
                make_config(shared | own | {"epsilon": epsilon, "lr": lr, "noise": noise, "seed": seed})
                for lr in RATES
                for noise in own.get("noise", (None,))
                for seed in settings.every_seed()
            ]
            yield Unit(f"{name} {epsilon:g}", {"name": name, "epsilon": epsilon}, configs, load, keep)


def keep(config: RunConfig, result: Result) -> Row:
    """`noise` is None where each site has its own; `spent` is the most of any site."""
    summary = result.summary
    return {
        "seed": config.seed,
        "lr": config.lr,
        "noise": config.noise,
        "accuracy": summary.accuracy or 0.0,
        "spent": max(summary.epsilon.values()),
    }


def best_trials(trials: Sequence[Row]) -> list[Row]:
    """Those of the learning rate and noise with the highest mean accuracy."""
    return max(grouped(trials, "lr", "noise").values(), key=lambda group: mean(group, "accuracy"))


def summarise(name: str, epsilon: float, trials: Sequence[Row], planned: Sequence[Row]) -> Row:
    """Means over seeds; `gain` is what planning epsilon adds to this contestant's accuracy, seed by seed."""
    accuracy = np.array([trial["accuracy"] for trial in trials])
    ours = {trial["seed"]: trial["accuracy"] for trial in planned}
    gains = np.array([ours[trial["seed"]] - trial["accuracy"] for trial in trials if trial["seed"] in ours])
    return {
        "name": name,
        "epsilon": epsilon,
        "accuracy": float(accuracy.mean()),
        "error": _standard_error(accuracy),
        "gain": float(gains.mean()) if len(gains) else float("nan"),
        "gain_error": _standard_error(gains),
        "lr": trials[0]["lr"],
        "noise": trials[0]["noise"],
        "spent": max(trial["spent"] for trial in trials),
    }


def _standard_error(values: Any) -> float:
    return float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else float("nan")


def rows_of(units: Sequence[Row]) -> list[Row]:
    """By epsilon, in the contestants' order."""
    order = list(CONTESTANTS)
    best = {(unit["epsilon"], unit["name"]): best_trials(unit["trials"]) for unit in units}
    return [
        summarise(name, epsilon, best[epsilon, name], best.get((epsilon, PLANNED), []))
        for epsilon, name in sorted(best, key=lambda key: (key[0], order.index(key[1])))
    ]


def table(rows: Sequence[Row]) -> Table:
    def gain(row: Row) -> str:
        return "" if row["name"] == PLANNED else f"{100 * row['gain']:+.1f} ± {200 * row['gain_error']:.1f}"

    return Table(
        {
            "epsilon": "{epsilon:g}",
            "contestant": "{name}",
            "accuracy": lambda row: f"{row['accuracy']:.3f} ± {2 * row['error']:.3f}",
            "planning adds": gain,
            "lr": "{lr:g}",
            "noise": lambda row: "by site" if row["noise"] is None else f"{row['noise']:g} for all",
            "epsilon spent": "{spent:.2f}",
        },
        rows,
        note="Means over seeds ± two standard errors; what planning adds is in points of accuracy, by seed.",
    )


def figure(rows: Sequence[Row]) -> "Figure":
    """A line for each contestant, bars of two standard errors."""
    from amsfl.report.draw import style
    from amsfl.report.draw.drawing import canvas, legend

    drawing, grid = canvas(4.2)
    axes, keys, names = grid[0][0], [], list(dict.fromkeys(row["name"] for row in rows))
    for place, name in enumerate(names):
        own = sorted((row for row in rows if row["name"] == name), key=lambda row: row["epsilon"])
        look = style.look(place)
        x, y = [row["epsilon"] for row in own], [row["accuracy"] for row in own]
        bars = np.nan_to_num([2 * row["error"] for row in own])
        axes.errorbar(x, y, yerr=bars, capsize=2, color=look.colour, ls="none", lw=1)
        keys += axes.plot(x, y, **look.line_style, ms=4, lw=1.4)
    axes.set_xscale("log", base=2)
    ticks = sorted({row["epsilon"] for row in rows})
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlabel("epsilon of every site")
    axes.set_ylabel("hold-out accuracy")
    legend(drawing, keys, names)
    return drawing


def study(settings: Settings) -> None:
    rows = rows_of(common.finished_units(settings, units(settings)))
    common.present(settings.out, [table(rows)], figure)


if __name__ == "__main__":
    common.main(Settings, study)
