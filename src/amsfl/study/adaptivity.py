"""The adaptivity study: time to accuracy of AMSFL against everything else, tuned with hindsight.

Settings: Dirichlet {0.1, 0.5} x profiles {mild, wild, slow-big, far, wan} x clock {sum, makespan}, five
clients, NSL-KDD hold-out, time to 89, 95 and 97%. Contestants with fixed steps take the same path whatever
the clock says, so each is run once per partition and timed under every profile; planned ones are run in
every setting. A unit (one contestant in all its settings and seeds) is one batch of trials, and one file.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from amsfl import clock, schedule
from amsfl.data import Dataset
from amsfl.record import locked, read_sealed, write_sealed
from amsfl.simulation import CustomParts, RunConfig, make_config, run_batch
from amsfl.simulation.setup import work_of

ALPHAS = (0.1, 0.5)
PROFILES = ("mild", "wild", "slow-big", "far", "wan")
TARGETS = (0.89, 0.95, 0.97)
RATES = (0.05, 0.2, 0.5, 1.0)
STEPS = (2, 5, 10, 20, 50)
ROUNDS = 300  # of planned contestants; fixed ones get half, at most
WORK = 3000  # steps of one client: a contestant of many steps a round ends after fewer rounds
ROWS = 5000  # of the hold-out, in its random order
CHUNK = 256  # trials at once: what a batch holds, not what it computes

FIXED = ("fedavg", "fedavg+exp", "feddyn", "scaffold", "fedprox")  # with equal steps, FedNova is FedAvg
RULES = {  # other people's ways of choosing steps, on FedAvg unless they come with another average, at lr 0.5
    "wang": {"method": "fedavg", "policy": "wang"},
    "adacomm": {"method": "fedavg", "policy": "adacomm"},
    "decaying": {"method": "fedavg", "policy": "decaying"},
    "speed": {"method": "fedavg", "policy": "speed"},
    "fill": {"method": "fednova", "policy": "fill"},
}
PARTS: dict[str, dict[str, float]] = {  # of AMSFL, one switched off (or set otherwise) at a time
    "no polyak, lr 0.5": {"polyak": 0.0},
    "no closing step": {"closing": 0.0},
    "plain averaging": {"balance": 0.0},
    "normalised averaging": {"balance": 1.0},
    "no secant": {"secant": 0.0},
    "no momentum": {"momentum": 0.0},
    "no averaging": {"averaging": 0.0},
    "no shrinking": {"shrinking": 0.0},
}


class Unit(NamedTuple):
    name: str
    configs: list[RunConfig]


class Track(NamedTuple):
    """One trial's way: what the analysis needs of it, and nothing else."""

    alpha: float
    profile: str  # of the partition for fixed steps, of the setting for planned ones
    clock: str
    seed: int
    lr: float
    steps: int
    accuracy: list[float]  # of the hold-out, after every round
    seconds: list[float]  # virtual, on the path's own clock


def units(seeds: Sequence[int], ablations: bool = True) -> Iterator[Unit]:
    """All of the study, dearest contestants last."""
    yield Unit("amsfl", _planned(seeds, method="amsfl"))
    for lr in RATES[:3]:
        yield Unit(f"steps lr={lr:g}", _planned(seeds, method="amsfl-steps", lr=lr))
    for name in FIXED:
        yield Unit(name, _grid(seeds, name))
    for lr in (0.05, 0.5):
        configs = _planned(seeds, method="amsfl-paper", lr=lr, rounds=WORK // 20)
        yield Unit(f"paper lr={lr:g}", configs)
    for name, how in RULES.items():
        yield Unit(name, _planned(seeds, lr=0.5, rounds=WORK // 20, **how))
    if ablations:
        for name, options in PARTS.items():
            yield Unit(name, _planned(seeds, method="amsfl", options=options, lr=0.5))


def run(
    folder: Path,
    dataset: Dataset,
    seeds: Sequence[int],
    ablations: bool = True,
    watch: Callable[[str, int, int], None] | None = None,
) -> None:
    """Run what is not there yet; every finished unit is a file, so an interrupted study goes on."""
    x, y = dataset.evals["holdout"]  # all that the study looks at, and not every row after every round
    dataset = dataset._replace(evals={"holdout": (x[:ROWS], y[:ROWS])})
    with locked(folder):
        todo = [u for u in units(seeds, ablations) if not _file(folder, u.name).exists()]
        for number, unit in enumerate(todo):
            if watch:
                watch(unit.name, number, len(todo))
            paths: list[dict[str, Any]] = []
            for begin in range(0, len(unit.configs), CHUNK):
                part = unit.configs[begin : begin + CHUNK]
                for config, result in zip(part, run_batch(part, CustomParts(dataset)), strict=True):
                    paths.append(_path(config, result.rounds)._asdict())
            write_sealed(_file(folder, unit.name), {"name": unit.name, "paths": paths})


def read(folder: Path) -> dict[str, list[Track]]:
    """Every finished unit's paths by name."""
    found = {}
    for file in sorted(folder.glob("unit-*.json")):
        content = read_sealed(file, "remove it, and the study runs it again.")
        found[content["name"]] = [Track(**path) for path in content["paths"]]
    return found


def round_seconds(name: str, path: Track, profile: str, kind: str, dim: int) -> float:
    """What one round of a fixed-steps path takes in another setting than it was run in."""
    from amsfl import methods

    method = methods.make(name.removesuffix("+exp"))
    costs = clock.costs(clock.profile(profile, 5), work_of(method, schedule.policy("fixed"), dim))
    return clock.round_seconds(costs, [0, 1, 2, 3, 4], [path.steps] * 5)[kind]


def _planned(seeds: Sequence[int], **settings: Any) -> list[RunConfig]:
    return [
        _config(alpha, profile, seed, clock=kind, **settings)
        for alpha in ALPHAS
        for profile in PROFILES
        for kind in clock.CLOCKS
        for seed in seeds
    ]


def _grid(seeds: Sequence[int], name: str) -> list[RunConfig]:
    """`mild` and `slow-big` stand for the two partitions: equal shares, and half of it with the third."""
    exp = {"extrapolation": 4.0} if name.endswith("+exp") else {}
    return [
        _config(
            alpha,
            profile,
            seed,
            method=name.removesuffix("+exp"),
            lr=lr,
            steps=steps,
            rounds=min(ROUNDS // 2, WORK // steps),
            **exp,
        )
        for lr in RATES
        for steps in STEPS
        for alpha in ALPHAS
        for profile in ("mild", "slow-big")
        for seed in seeds
    ]


def _config(alpha: float, profile: str, seed: int, **settings: Any) -> RunConfig:
    return make_config(
        {
            "partition": f"dirichlet:{alpha:g}",
            "profile": profile,
            "seed": seed,
            "rounds": ROUNDS,
            "target": TARGETS[-1],
            **settings,
        }
    )


def _path(config: RunConfig, rounds: Sequence[Any]) -> Track:
    alpha = float(config.partition.split(":")[1])
    accuracy = [round(r.metrics["holdout"]["accuracy"], 6) for r in rounds]
    seconds = [round(r.seconds[config.clock], 6) for r in rounds]
    return Track(alpha, config.profile, config.clock, config.seed, config.lr, config.steps, accuracy, seconds)


def _file(folder: Path, name: str) -> Path:
    slug = "".join(c if c.isalnum() or c in ".-" else "-" for c in name)
    return folder / f"unit-{slug}.json"
