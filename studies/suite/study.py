"""AMSFL on many kinds of data, models, clients and profiles, against rivals tuned with hindsight.

Hours on two cores; `--cases` runs a part.

    python studies/suite --cases choosing --data-dir DIR --fashion-dir DIR
    python studies/suite --cases fresh5 --fedavg --out results/fedavg    # minutes a case
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from amsfl.clock import CLOCKS
from amsfl.data import Dataset
from amsfl.simulation import Result, RunConfig, make_config

import common
import speedups
from . import scores
from .cases import Case, pick
from .data import case_data
from .sources import Folders
from common import Row, StudySettings, Unit, option
from speedups import ABLATIONS, RATES, STEPS, WORK

ROUNDS = 150
Keep = Callable[[RunConfig, Result], Row]
RIVALS = ("fedavg", "fedavg+exp", "fedprox", "feddyn", "scaffold")
PEERS = ("fedavgm", "fedadam", "fedyogi", "fedsps", "delta-sgd")  # they adapt in their own ways
SEVEN = ((0.05, 5), (0.05, 20), (0.2, 5), (0.2, 20), (0.8, 5), (0.8, 20), (1.0, 2))  # lr, steps
TUNED, DEFAULTS = "fedavg, seven settings", "fedavg, our defaults"
HELD_BACK = {"nothing held back": {"held_back": 0.0}}  # a setting, not an option of the method
OTHER_STEPS = {  # AMSFL with other ways of choosing steps: policy, and steps to try
    "amsfl, fixed steps": ("fixed", STEPS),
    "amsfl, speed-proportional steps": ("speed", (5, 20, 50)),
    "amsfl, deadline-filling steps": ("fill", (5, 20)),
}


@dataclass(frozen=True, kw_only=True)
class Settings(StudySettings):
    cases: str = option(
        "all", "names with commas, or choosing, held-out, all, fresh to fresh8, few-labels, mnist-labels"
    )
    fashion_dir: str | None = option(None, "folder of the Fashion-MNIST files")
    fedavg: bool = option(False, "against FedAvg alone, at seven settings and at our defaults: accuracies")
    peers: bool = option(False, "also FedAvgM, FedAdam and others that adapt")
    ablations: bool = option(False, "also AMSFL with one part off, and with other ways of choosing steps")
    seeds: int = option(2, "seeds of every setting")
    first_seed: int = option(0, "the first of them")
    out: Path = option(Path("results/suite"), "folder of the results; the same command continues it")


def units(settings: Settings) -> Iterator[Unit]:
    """A unit is one contestant in one case: all its settings and seeds."""
    folders = Folders(settings.data_dir, settings.fashion_dir)
    for case in pick(settings.cases):
        load = lru_cache(maxsize=1)(partial(case_data, case, folders))
        for name, configs, fixed in _contestants(case, settings):
            track = partial(speedups.timed_track, profiles=case.profiles) if fixed else speedups.planned_track
            keep = partial(_with_majority, load, track)
            yield Unit(f"{case.name}--{name}", {"case": case.name, "name": name}, configs, load, keep)


def _with_majority(load: Callable[[], Dataset], track: Keep, config: RunConfig, result: Result) -> Row:
    return track(config, result) | {"majority": scores.majority(load().evals["holdout"][1])}


def _contestants(case: Case, settings: Settings) -> Iterator[tuple[str, list[RunConfig], bool]]:
    """Name, runs, and whether the steps are the same in every setting. AMSFL comes first."""
    seeds = settings.every_seed()
    yield "amsfl", _planned(case, seeds, method="amsfl"), False
    if settings.fedavg:
        yield TUNED, _fixed(case, seeds, SEVEN, method="fedavg"), True
        yield DEFAULTS, [_config(case, case.profiles[0], seed, method="fedavg") for seed in seeds], True
        return
    for name in (*RIVALS, *(PEERS if settings.peers else ())):
        own = {"extrapolation": 4.0} if name.endswith("+exp") else {}
        grid = [(lr, steps) for lr in RATES for steps in STEPS]
        yield name, _fixed(case, seeds, grid, method=name.removesuffix("+exp"), **own), True
    if not settings.ablations:
        return
    for name, options in ABLATIONS.items():
        yield name, _planned(case, seeds, method="amsfl", options=options, lr=0.5), False
    for name, own in HELD_BACK.items():
        yield name, _planned(case, seeds, method="amsfl", **own), False
    for name, (policy, every_steps) in OTHER_STEPS.items():
        own = {"method": "amsfl", "policy": policy}
        yield name, [run for steps in every_steps for run in _planned(case, seeds, steps=steps, **own)], False


def _planned(case: Case, seeds: range, **own: Any) -> list[RunConfig]:
    return [
        _config(case, profile, seed, clock=kind, **own)
        for profile in case.profiles
        for kind in CLOCKS
        for seed in seeds
    ]


def _fixed(case: Case, seeds: range, grid: Sequence[tuple[float, int]], **own: Any) -> list[RunConfig]:
    return [
        _config(case, case.profiles[0], seed, lr=lr, steps=steps, rounds=min(ROUNDS, WORK // steps), **own)
        for lr, steps in grid
        for seed in seeds
    ]


def _config(case: Case, profile: str, seed: int, **own: Any) -> RunConfig:
    names = ("model", "clients", "cohort", "batch")
    shared = {name: getattr(case, name) for name in names} | {"partition": case.scheme, "rounds": ROUNDS}
    return make_config(shared | {"profile": profile, "seed": seed} | own)


def study(settings: Settings) -> None:
    read = common.finished_units(settings, units(settings))
    if settings.fedavg:
        every = [scores.against_fedavg(case, DEFAULTS) for case in scores.by_case(read, [TUNED])]
        return common.present(settings.out, [scores.fedavg_table(every)], rows=every)
    cases = scores.by_case(read, RIVALS)
    rows = [row for case in cases for row in scores.rows_of(case)]
    shown = [scores.table(rows)]
    if any(row["who"] != "amsfl" for row in rows):
        shown.append(scores.ablation_table(rows))
    dots = [dot for row in rows if row["who"] == "amsfl" for dot in row["targets"]]
    common.present(settings.out, shown, lambda _: speedups.figure(dots), rows)
