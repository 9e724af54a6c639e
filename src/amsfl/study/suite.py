"""The suite: AMSFL on data, models, clients and profiles of many kinds, against rivals tuned with hindsight.

A unit is one contestant in one case, all its settings and seeds as one batch, and one file; so a suite that
was stopped goes on. Who takes the same steps whatever the clock says is run once a seed and timed in every
setting; who plans is run in every setting.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from amsfl import clock
from amsfl.data import Dataset
from amsfl.record import locked, read_sealed, write_sealed
from amsfl.simulation import CustomParts, Result, RunConfig, make_config, run_batch
from amsfl.study.adaptivity import CHUNK, PARTS, RATES, STEPS, WORK
from amsfl.study.suite_cases import CASES, Case

ROUNDS = 150

OURS = "amsfl"
RIVALS = ("fedavg", "fedavg+exp", "fedprox", "feddyn", "scaffold")
PEERS = ("fedavgm", "fedadam", "fedyogi", "feddua", "fedsps", "delta-sgd")  # they adapt in their own ways
WITHOUT_PLANS = {  # ours with all but the plan: other people's ways of choosing steps
    "amsfl, fixed steps": ("fixed", STEPS),
    "amsfl, speed-proportional steps": ("speed", (5, 20, 50)),
    "amsfl, deadline-filling steps": ("fill", (5, 20)),
}


class Unit(NamedTuple):
    case: Case
    name: str
    configs: list[RunConfig]
    fixed: bool  # the same path in every setting


class Track(NamedTuple):
    """One trial: where it was after every round, and when by the clocks of each setting it stands for."""

    seed: int
    lr: float
    steps: int
    accuracy: list[float]
    seconds: dict[str, list[float]]  # 'profile|clock' -> when each round ended; a single number: each took it


def units(
    cases: Sequence[Case], seeds: Sequence[int], peers: bool = False, ablations: bool = False
) -> Iterator[Unit]:
    """Cases one after another, ours first."""
    for case in cases:
        yield Unit(case, OURS, _planned(case, seeds, method="amsfl"), False)
        for name in (*RIVALS, *(PEERS if peers else ())):
            exp = {"extrapolation": 4.0} if name.endswith("+exp") else {}
            grid = _fixed(case, seeds, RATES, STEPS, method=name.removesuffix("+exp"), **exp)
            yield Unit(case, name, grid, True)
        if not ablations:
            continue
        for name, options in PARTS.items():
            yield Unit(case, name, _planned(case, seeds, method="amsfl", options=options, lr=0.5), False)
        for name, (policy, most) in WITHOUT_PLANS.items():
            if policy == "fixed":
                yield Unit(
                    case, name, _fixed(case, seeds, (0.05,), most, method="amsfl", policy=policy), True
                )
                continue
            many = [
                config
                for steps in most
                for config in _planned(case, seeds, method="amsfl", policy=policy, steps=steps)
            ]
            yield Unit(case, name, many, False)


def run(
    folder: Path,
    todo: Sequence[Unit],
    data_dir: str | None = None,
    watch: Callable[[Unit, int, int], None] | None = None,
) -> None:
    """Run what is not there yet."""
    with locked(folder):
        left = [unit for unit in todo if not _file(folder, unit).exists()]
        loaded: tuple[str, Dataset] | None = None
        for number, unit in enumerate(left):
            if watch:
                watch(unit, number, len(left))
            if loaded is None or loaded[0] != unit.case.name:
                loaded = unit.case.name, unit.case.data(data_dir)
            write_sealed(_file(folder, unit), _done(unit, loaded[1]))


def _done(unit: Unit, data: Dataset) -> dict[str, Any]:
    """A unit's runs, as its file holds them."""
    tracks = []
    for begin in range(0, len(unit.configs), CHUNK):
        part = unit.configs[begin : begin + CHUNK]
        results = run_batch(part, CustomParts(data))
        tracks += [_track(unit, *pair)._asdict() for pair in zip(part, results, strict=True)]
    truth = np.bincount(data.evals["holdout"][1])
    majority = float(truth.max() / truth.sum())
    return {"case": unit.case.name, "name": unit.name, "majority": majority, "tracks": tracks}


class Found(NamedTuple):
    """What is on record of a case: the share of its largest class, and tracks by contestant."""

    majority: float
    tracks: dict[str, list[Track]]


def read(folder: Path) -> dict[str, Found]:
    """Every finished unit, by case in the suite's order."""
    found: dict[str, Found] = {}
    for file in sorted(folder.glob("unit-*.json")):
        content = read_sealed(file, "remove it, and the suite runs it again.")
        case = found.setdefault(content["case"], Found(content["majority"], {}))
        case.tracks[content["name"]] = [Track(**track) for track in content["tracks"]]
    return {name: found[name] for name in CASES if name in found}


def settings(case: Case) -> list[str]:
    return [f"{profile}|{kind}" for profile in case.profiles for kind in clock.CLOCKS]


def _planned(case: Case, seeds: Sequence[int], **extra: Any) -> list[RunConfig]:
    return [
        _config(case, profile, seed, clock=kind, **extra)
        for profile in case.profiles
        for kind in clock.CLOCKS
        for seed in seeds
    ]


def _fixed(
    case: Case, seeds: Sequence[int], rates: Sequence[float], steps: Sequence[int], **extra: Any
) -> list[RunConfig]:
    return [
        _config(case, case.profiles[0], seed, lr=lr, steps=each, rounds=min(ROUNDS, WORK // each), **extra)
        for lr in rates
        for each in steps
        for seed in seeds
    ]


def _config(case: Case, profile: str, seed: int, **extra: Any) -> RunConfig:
    return make_config(
        {
            "model": case.model,
            "clients": case.clients,
            "cohort": case.cohort,
            "partition": case.partition,
            "batch": case.batch,
            "profile": profile,
            "seed": seed,
            "rounds": ROUNDS,
            **extra,
        }
    )


def _track(unit: Unit, config: RunConfig, result: Result) -> Track:
    accuracy = [round(r.metrics["holdout"]["accuracy"], 5) for r in result.rounds]
    if not unit.fixed:
        own = f"{config.profile}|{config.clock}"
        seconds = {own: [float(f"{r.seconds[config.clock]:.6g}") for r in result.rounds]}
        return Track(config.seed, config.lr, config.steps, accuracy, seconds)
    seconds = {}
    for profile in unit.case.profiles:
        speeds = clock.profile(profile, len(result.parts.task.shards.size[0]), config.seed)
        costs = clock.costs(speeds, result.parts.work)
        each = [clock.round_seconds(costs, np.array(r.cohort), r.steps) for r in result.rounds]
        for kind in clock.CLOCKS:
            took = np.array([times[kind] for times in each])
            same = np.ptp(took) < 1e-9
            seconds[f"{profile}|{kind}"] = took[:1].tolist() if same else np.cumsum(took).tolist()
    return Track(config.seed, config.lr, config.steps, accuracy, seconds)


def _file(folder: Path, unit: Unit) -> Path:
    slug = "".join(c if c.isalnum() or c in ".-" else "-" for c in f"{unit.case.name}--{unit.name}")
    return folder / f"unit-{slug}.json"
