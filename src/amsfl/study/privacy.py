"""The privacy study: accuracy against epsilon, with steps alike for all sites and with epsilon planned.

Five sites of very unequal size, every one with the same epsilon. All contestants have the same rounds and, in
the mean, the same steps; learning rates (and the noise, where one is for all) are the best with hindsight,
each contestant's own. A unit is one contestant at one epsilon: all learning rates and seeds as one batch.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from amsfl.simulation import Result, RunConfig, make_config
from amsfl.study import units
from amsfl.study.units import Unit

PLANNED = "AMSFL, epsilon planned"
CONTESTANTS: dict[str, dict[str, Any]] = {
    "FedAvg, equal steps, one noise": {"method": "fedavg", "noise": (2.0, 4.0, 8.0)},
    "FedAvg, equal steps": {"method": "fedavg"},
    "AMSFL, equal steps": {"method": "amsfl", "policy": "fixed"},
    PLANNED: {"method": "amsfl"},
}
EPSILONS = (1.0, 2.0, 4.0, 8.0)
RATES = (0.25, 0.5, 1.0)
COMMON = {"clients": 5, "batch": 32, "steps": 10, "details": False}


class End(NamedTuple):
    """What is kept of a trial."""

    seed: int
    lr: float
    noise: float | None  # None: each site its own
    accuracy: float
    spent: float  # the most of any site


class Row(NamedTuple):
    """One contestant at one epsilon: means over seeds with the best learning rate and noise."""

    name: str
    epsilon: float
    accuracy: float
    error: float  # standard error of that mean
    lr: float
    noise: float | None
    spent: float
    behind: float  # what planning epsilon is worth over this one, seed by seed
    behind_error: float


def todo(
    seeds: Sequence[int], epsilons: Sequence[float], rounds: int, model: str, partition: str
) -> Iterator[Unit]:
    common = COMMON | {"rounds": rounds, "eval_every": rounds, "model": model, "partition": partition}
    for epsilon in epsilons:
        for name, how in CONTESTANTS.items():
            noises = how.get("noise", (None,))
            each = [(lr, noise, seed) for lr in RATES for noise in noises for seed in seeds]
            configs = [
                make_config(
                    common | how | {"epsilon": epsilon, "lr": lr, "noise": noise, "seed": seed},
                )
                for lr, noise, seed in each
            ]
            yield Unit(f"{name} {epsilon:g}", {"name": name, "epsilon": epsilon}, configs)


def end(config: RunConfig, result: Result) -> dict[str, Any]:
    summary = result.summary
    accuracy = 0.0 if summary.accuracy is None else summary.accuracy
    spent = max(summary.epsilon.values())
    return End(config.seed, config.lr, config.noise, accuracy, spent)._asdict()


def read(folder: Path) -> list[Row]:
    """The table of every finished unit, by epsilon and in the contestants' order."""
    order, best = list(CONTESTANTS), {}
    for unit in units.read(folder):
        ends = [End(**each) for each in unit["ends"]]
        best[unit["epsilon"], unit["name"]] = _best(ends)
    return [
        _row(name, epsilon, best[epsilon, name], best.get((epsilon, PLANNED)))
        for epsilon, name in sorted(best, key=lambda key: (key[0], order.index(key[1])))
    ]


def _best(ends: Sequence[End]) -> list[End]:
    """The trials of the learning rate and noise with the highest mean, seed by seed."""
    groups: dict[Any, list[End]] = {}
    for each in ends:
        groups.setdefault((each.lr, each.noise), []).append(each)
    return max(groups.values(), key=lambda some: float(np.mean([each.accuracy for each in some])))


def _row(name: str, epsilon: float, ends: Sequence[End], planned: Sequence[End] | None) -> Row:
    accuracy = np.array([each.accuracy for each in ends])
    ours = {each.seed: each.accuracy for each in planned or ()}
    gaps = np.array([ours[each.seed] - each.accuracy for each in ends if each.seed in ours])
    behind = (float(gaps.mean()), _error(gaps)) if len(gaps) else (float("nan"), float("nan"))
    first, spent = ends[0], max(each.spent for each in ends)
    return Row(name, epsilon, float(accuracy.mean()), _error(accuracy), first.lr, first.noise, spent, *behind)


def _error(values: Any) -> float:
    return float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else float("nan")


def as_markdown(rows: Sequence[Row]) -> str:
    lines = [
        "| epsilon | contestant | accuracy | planning is worth | lr | noise | epsilon spent |",
        "| ---: | --- | ---: | ---: | ---: | --- | ---: |",
    ]
    for row in rows:
        gap = "" if row.name == PLANNED else f"{100 * row.behind:+.1f} ± {200 * row.behind_error:.1f}"
        noise = "by site" if row.noise is None else f"{row.noise:g} for all"
        accuracy = f"{row.accuracy:.3f} ± {2 * row.error:.3f}"
        cells = [f"{row.epsilon:g}", row.name, accuracy, gap, f"{row.lr:g}", noise, f"{row.spent:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    said = "Means over seeds ± two standard errors; planning's worth is in points of accuracy, seed by seed."
    return "\n".join(lines) + f"\n\n{said}\n"
