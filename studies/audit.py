"""Attack private models with canaries: how much of the claimed epsilon an attacker can prove.

A canary is the worst row that there can be: it has a feature of its own, which no other row has, so that only
this row and noise move that feature's weights. Two attacks, each also on runs that have too little noise,
where the claim must fall:

- one run, many canaries: all belong to the largest site, each is in its rows or not by the toss of a coin,
  and the attacker asks the last model about each. Few runs, and no more than about 3 can be proved.
- many runs, one canary: half of the runs have it. The attacker reads the weights that it moves, and every row
  is in every step, so that nothing hides it. Thousands of small runs, which catch a false claim of 8.

    python studies/audit.py --seeds 5 --epsilons 2,8
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from amsfl.core import UserError
from amsfl.data import Dataset, partition
from amsfl.privacy import Exposure, noise_for
from amsfl.privacy.audit import guess, lower_bound, lower_bound_of_runs
from amsfl.simulation import Result, RunConfig, make_config

import common
from common import Row, StudySettings, Table, Unit, grouped, option

FloatArray = npt.NDArray[np.floating[Any]]
LOUD = 5.0  # a canary's value in its own feature: its gradient is then cut to the clipping norm at first
SHARED = {"model": "softmax", "clients": 5, "batch": 32, "steps": 10, "lr": 0.5, "partition": "column"}
CONTESTANTS: dict[str, dict[str, Any]] = {
    "FedAvg": {"method": "fedavg"},
    "AMSFL, epsilon planned": {"method": "amsfl"},
    "FedAvg, its noise left out": {"method": "fedavg", "privacy": "none"},
}
SMALL, STEPS, ROUNDS, DELTA = 16, 2, 3, 1e-5  # of many runs: rows of their one site, steps, rounds
WHITE_BOX = {"FedAvg, many runs": 1.0, "FedAvg, many runs, a third of its noise": 1 / 3}


@dataclass(frozen=True, kw_only=True)
class Settings(StudySettings):
    data: str = option("digits", "data set with classes, one that `amsfl data` lists")
    epsilons: tuple[float, ...] = option((2.0, 8.0), "claimed budgets")
    canaries: int = option(200, "rows that are in by the toss of a coin")
    rounds: int = option(30, "rounds of every run with many canaries")
    runs: int = option(2000, "runs with one canary or none")
    only: str = option("", "only contestants that have this in their names")
    out: Path = option(Path("results/audit"), "folder of the results; the same command continues it")


class Planted(NamedTuple):
    """Data with canaries in it."""

    dataset: Dataset
    rows: FloatArray  # all canaries
    labels: npt.NDArray[np.int64]
    inside: npt.NDArray[np.bool_]  # which of them are in the data


def plant(pool: Dataset, canaries: int, seed: int) -> Planted:
    """The pool dealt to five sites, and canaries in the largest one's rows."""
    rng = np.random.default_rng([seed, 0xCA])
    sites, columns = int(str(SHARED["clients"])), pool.x.shape[1]
    owner = np.zeros(len(pool.y), np.int32)
    for site, rows in enumerate(sorted(partition("quantity:1", pool.y, sites, seed), key=len, reverse=True)):
        owner[rows] = site
    inside = rng.random(canaries) < 0.5
    labels = rng.integers(0, len(pool.classes), canaries)

    def widened(x: FloatArray) -> FloatArray:
        return np.concatenate([x, np.zeros((len(x), canaries), np.float32)], 1)

    rows = np.zeros((canaries, columns + canaries), np.float32)
    rows[np.arange(canaries), columns + np.arange(canaries)] = LOUD
    x, y = pool.evals["holdout"]
    dataset = pool._replace(
        name=f"{pool.name} with canaries",
        x=np.concatenate([widened(pool.x), rows[inside]]),
        y=np.concatenate([pool.y, labels[inside].astype(pool.y.dtype)]),
        evals={"holdout": (widened(x), y)},
        features=(*pool.features, *(f"canary {number}" for number in range(canaries))),
        sites=np.concatenate([owner, np.zeros(inside.sum(), np.int32)]),
        site_names=tuple(map(str, range(sites))),
        recipe=None,
    )
    return Planted(dataset, rows, labels, inside)


def plant_one(inside: bool) -> Planted:
    """One site of a few rows; the first is the canary, or empty."""
    x = np.random.default_rng(0xCA).normal(size=(SMALL, 3)).astype(np.float32)
    x[:, 2] = 0
    x[0] = 0, 0, LOUD * inside
    y = (x[:, 0] > 0).astype(np.int32)
    y[0] = 1
    holdout = {"holdout": (x[1:], y[1:])}
    dataset = Dataset("canary", x, y, holdout, ("no", "yes"), ("a", "b", "canary 0"))
    dataset = dataset._replace(sites=np.zeros(SMALL, np.int32), site_names=("0",))
    return Planted(dataset, np.array([[0, 0, LOUD]], np.float32), np.array([1]), np.array([inside]))


def scores(planted: Planted, logits: Callable[[FloatArray], Any]) -> FloatArray:
    """How much more of a canary's label the model sees in the canary than in a row of zeros."""
    own = np.asarray(logits(planted.rows), float) - np.asarray(logits(0 * planted.rows), float)
    return np.asarray(own[np.arange(len(own)), planted.labels] - own.mean(1))


def scores_of(planted: Planted, result: Result) -> FloatArray:
    task = result.parts.task
    params = task.unravel(result.params)  # type: ignore[arg-type]  # a numpy vector does as well
    return scores(planted, lambda rows: task.model.apply(params, rows))


def attack(plant_again: Callable[[int], Planted], epsilon: float) -> Callable[[RunConfig, Result], Row]:
    """What is kept of a run: guesses, and what they prove. A run without noise claims what it would have."""

    def keep(config: RunConfig, result: Result) -> Row:
        planted = plant_again(config.seed)
        guesses = guess(scores_of(planted, result), planted.inside)
        canaries = len(planted.rows)
        return {
            "seed": str(config.seed),
            "claimed": result.summary.epsilon.get("0", epsilon),
            "made": guesses.made,
            "right": guesses.right,
            "bound": lower_bound(canaries, guesses, config.delta),
        }

    return keep


def units(settings: Settings) -> Iterator[Unit]:
    """A unit is one run with many canaries, or all runs with one, or those without."""
    pool, rounds = common.holdout_loader(settings.data, settings.data_dir)(), settings.rounds
    if not pool.classes:
        raise UserError(f"The data {settings.data!r} has no classes, and canaries are rows of a class.")
    shared = SHARED | {"data": settings.data, "rounds": rounds, "eval_every": rounds, "details": False}
    planted = lru_cache(maxsize=1)(lambda seed: plant(pool, settings.canaries, seed))
    chosen = common.named(CONTESTANTS | WHITE_BOX, settings.only)
    for epsilon in settings.epsilons:
        for name, own in CONTESTANTS.items():
            claim = {} if "privacy" in own else {"epsilon": epsilon}
            for seed in settings.every_seed() if name in chosen else ():
                config = make_config(shared | own | claim | {"seed": seed})
                yield Unit(
                    f"{name}, epsilon {epsilon:g}, seed {seed}",
                    {"name": name, "epsilon": epsilon, "canaries": settings.canaries},
                    [config],
                    lambda seed=seed: planted(seed).dataset,
                    attack(planted, epsilon),
                )
        for name, part in WHITE_BOX.items():
            yield from white_box(settings, name, part, epsilon) if name in chosen else ()


def white_box(settings: Settings, name: str, part: float, epsilon: float) -> Iterator[Unit]:
    """Runs with the canary and runs without, whose noise is `part` of what the claim needs; a batch holds all
    rows, so that the canary is in every step."""
    noise = part * noise_for(Exposure(1.0, 1.0, DELTA), epsilon, STEPS * ROUNDS)
    own = {"method": "fedavg", "privacy": "record", "noise": noise, "delta": DELTA, "clients": 1}
    own |= {"steps": STEPS, "rounds": ROUNDS, "eval_every": ROUNDS, "details": False}
    for inside in (True, False):
        planted = plant_one(inside)
        yield Unit(
            f"{name}, epsilon {epsilon:g}, {'with' if inside else 'without'} the canary",
            {"name": name, "epsilon": epsilon, "inside": inside},
            [make_config(SHARED | own | {"seed": seed}) for seed in range(settings.runs // 2)],
            lambda planted=planted: planted.dataset,
            lambda config, result, planted=planted: {"score": float(scores_of(planted, result)[0])},
        )


def rows_of(units: Sequence[Row]) -> list[Row]:
    rows = [
        {"name": unit["name"], "epsilon": unit["epsilon"], **unit["trials"][0]}
        for unit in units
        if "inside" not in unit
    ]
    pairs = grouped((unit for unit in units if "inside" in unit), "name", "epsilon")
    for (name, epsilon), both in pairs.items():
        by = {unit["inside"]: np.array([row["score"] for row in unit["trials"]]) for unit in both}
        if len(by) == 2:
            bound, runs = lower_bound_of_runs(by[True], by[False], DELTA), sum(map(len, by.values()))
            said = {"seed": f"{runs} runs", "claimed": epsilon, "bound": bound}
            rows.append({"name": name, "epsilon": epsilon, "made": 0, "right": 0} | said)
    order = [*CONTESTANTS, *WHITE_BOX]
    rows.sort(key=lambda row: (row["epsilon"], order.index(row["name"]), row["seed"]))
    return [row | {"holds": row["bound"] <= row["claimed"]} for row in rows]


def table(rows: Sequence[Row]) -> Table:
    return Table(
        {
            "run": "{name}",
            "seed": "{seed}",
            "claimed epsilon": "{claimed:.2f}",
            "guesses right": lambda row: f"{row['right']} of {row['made']}" if row["made"] else "",
            "proved at 95%, at least": "{bound:.2f}",
            "the claim": lambda row: "stands" if row["holds"] else "is false",
        },
        rows,
    )


def study(settings: Settings) -> None:
    common.present(settings.out, [table(rows_of(common.finished_units(settings, units(settings))))])


if __name__ == "__main__":
    common.main(Settings, study)
