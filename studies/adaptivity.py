"""Time to 89, 95 and 97% of NSL-KDD's hold-out: AMSFL against everything else, tuned with hindsight.

Twenty settings: Dirichlet 0.1 and 0.5, five profiles, two clocks; five clients. Contestants with fixed steps
are run once for each partition and timed in all settings; those that plan steps are run in each. Takes about
an hour on two cores.

    python studies/adaptivity.py --data-dir DIR
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from amsfl.clock import CLOCKS
from amsfl.simulation import Result, RunConfig, make_config

import common
import speedups
from common import Row, StudySettings, Table, Unit, grouped, option
from speedups import ABLATIONS, RATES, STEPS, WORK, Track, candidates

ALPHAS = (0.1, 0.5)
PROFILES = ("mild", "wild", "slow-big", "far", "wan")
PARTITIONS = {  # the profile that fixed steps are run with, and those that deal the rows as it does
    "mild": ("mild", "wild", "far", "wan"),
    "slow-big": ("slow-big",),  # half of the rows are the third client's
}
TARGETS = (0.89, 0.95, 0.97)
ROUNDS = 300  # of contestants that plan; fixed ones get half, at most
ROWS = 5000  # of the hold-out
FIXED = ("fedavg", "fedavg+exp", "feddyn", "scaffold", "fedprox")  # with equal steps, FedNova is FedAvg
RULES = {  # other ways of choosing steps, at lr 0.5
    "speed": {"method": "fedavg", "policy": "speed"},
    "fill": {"method": "fednova", "policy": "fill"},
}
Tracks = Mapping[str, Sequence[Track]]


@dataclass(frozen=True, kw_only=True)
class Settings(StudySettings):
    data: str = option("nslkdd", "nslkdd or nslkdd-synth")
    ablations: bool = option(True, "also AMSFL with one part off at a time")
    out: Path = option(Path("results/adaptivity"), "folder of the results; the same command continues it")


def units(settings: Settings) -> Iterator[Unit]:
    """A unit is one contestant in all settings and with all seeds."""
    load, seeds = common.holdout_loader(settings.data, settings.data_dir, ROWS), settings.every_seed()
    data = {"data": settings.data}

    def planned(name: str, **own: Any) -> Unit:
        configs = [
            _config(alpha, profile, seed, clock=kind, **data, **own)
            for alpha in ALPHAS
            for profile in PROFILES
            for kind in CLOCKS
            for seed in seeds
        ]
        return Unit(name, {"name": name}, configs, load, keep_planned)

    yield planned("amsfl", method="amsfl")
    for lr in RATES[:3]:
        yield planned(f"steps lr={lr:g}", method="amsfl-steps", lr=lr)
    for name in FIXED:
        own = {"extrapolation": 4.0} if name.endswith("+exp") else {}
        configs = [
            _config(
                alpha, profile, seed, method=name.removesuffix("+exp"), lr=lr, steps=steps,
                rounds=min(ROUNDS // 2, WORK // steps), **data, **own,
            )
            for lr in RATES for steps in STEPS for alpha in ALPHAS for profile in PARTITIONS for seed in seeds
        ]  # fmt: skip
        yield Unit(name, {"name": name}, configs, load, keep_fixed)
    for lr in (0.05, 0.5):
        yield planned(f"paper lr={lr:g}", method="amsfl-paper", lr=lr, rounds=WORK // 20)
    for name, rule in RULES.items():
        yield planned(name, lr=0.5, rounds=WORK // 20, **rule)
    for name, options in ABLATIONS.items() if settings.ablations else ():
        yield planned(name, method="amsfl", options=options, lr=0.5)


def _config(alpha: float, profile: str, seed: int, **own: Any) -> RunConfig:
    shared = {"partition": f"dirichlet:{alpha:g}", "rounds": ROUNDS, "target": TARGETS[-1]}
    return make_config(shared | {"profile": profile, "seed": seed} | own)


def keep_planned(config: RunConfig, result: Result) -> Row:
    return speedups.planned_track(config, result, config.partition)


def keep_fixed(config: RunConfig, result: Result) -> Row:
    return speedups.timed_track(config, result, PARTITIONS[config.profile], config.partition)


def rows_of(tracks: Tracks) -> list[Row]:
    """Every comparison that the finished units allow."""
    grids = {name: candidates(name, tracks[name]) for name in FIXED if name in tracks}
    versus: Callable[..., Iterator[Row]] = partial(speedups.compare, targets=TARGETS)
    rows: list[Row] = []
    for lr in RATES[:3]:
        name, rivals = f"steps lr={lr:g}", {}
        if "fedavg" in grids and name in tracks:
            rivals = {label: some for label, some in grids["fedavg"].items() if some[0].lr == lr}
            own = candidates(name, tracks[name])
            rows += versus(
                f"planned steps alone, lr {lr:g}", own, "FedAvg, best fixed steps, same lr", rivals
            )
    if "amsfl" not in tracks or not grids:
        return rows
    ours = candidates("amsfl", tracks["amsfl"])
    everything = {label: some for grid in grids.values() for label, some in grid.items()}
    best = "best of everything tuned, with hindsight"
    rows += versus("AMSFL", ours, best, everything)
    for name, grid in grids.items():
        rows += versus("AMSFL", ours, f"{name}, best lr and steps", grid)
    usual = "fedavg, lr 0.05, 20 steps"
    if usual in everything:
        rows += versus("AMSFL", ours, "FedAvg, 20 steps, lr 0.05", {usual: everything[usual]})
    for name in RULES:
        if name in tracks:
            rows += versus("AMSFL", ours, f"{name} rule, lr 0.5", candidates(name, tracks[name]))
    papers = [track for name in tracks if name.startswith("paper") for track in tracks[name]]
    if papers:
        rows += versus("AMSFL", ours, "AMSFL as printed, best lr", candidates("paper", papers))
    for name in ABLATIONS:
        if name in tracks:
            rows += versus(f"AMSFL, {name}", candidates(name, tracks[name]), best, everything)
    return rows


def table(rows: Sequence[Row]) -> Table:
    """A line for each pair, a column for each target."""
    lines = [
        {
            "who": who,
            "against": against,
            **{
                f"to {row['target']:.0%}": "{mean:.2f} ({low:.2f} to {high:.2f})".format(**row)
                for row in group
            },
            "worst": min(row["worst"] for row in group),
            "best": max(row["best"] for row in group),
            "missed": max(row["missed"] for row in group),
        }
        for (who, against), group in grouped(rows, "who", "against").items()
    ]
    shown = {f"to {target:.0%}": f"{{to {target:.0%}}}" for target in TARGETS}
    ends = {"worst": "{worst:.2f}", "best": "{best:.1f}", "not reached": "{missed:.0%}"}
    return Table({"who": "{who}", "against": "{against}"} | shown | ends, lines)


def study(settings: Settings) -> None:
    tracks = {
        u["name"]: [Track(**trial) for trial in u["trials"]]
        for u in common.finished_units(settings, units(settings))
    }
    rows = rows_of(tracks)
    common.present(settings.out, [table(rows)], speedups.figure, rows)


if __name__ == "__main__":
    common.main(Settings, study)
