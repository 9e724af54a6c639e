"""The asynchrony study: who waits for whom, on clients that come and go; time to 95% of the hold-out.

Ten clients, Dirichlet 0.5, all under way at once, five profiles, clients that are always there and clients
that come and go. A unit (one contestant) is one file: all its settings, seeds and, where it has to be told a
learning rate and a number of steps, all of those. Such a contestant counts in each setting with the pair that
was best there, over all seeds: tuned with hindsight, and all alike. AMSFL is told nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from amsfl.data import Dataset
from amsfl.federation import Own, RunConfig, make_config, run_batch
from amsfl.record import locked, write_sealed
from amsfl.study import units as units_

PROFILES = ("mild", "wild", "slow-big", "far", "wan")
PRESENCE = ("always", "chain:4,2")  # there for 4 s, away for 2, on the mean
TARGET = 0.95
CLIENTS = 10
RATES, STEPS = (0.1, 0.3, 1.0), (5, 20, 50)
UPLOADS, WORK = 4_000, 60_000  # of a run, at most: clients' rounds, and their steps
ROWS = 5000  # of the hold-out, in its random order
CHUNK = 128  # trials at once
BASE = "FedAvg, all"
CONTESTANTS: dict[str, dict[str, Any]] = {
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


class Unit(NamedTuple):
    name: str
    configs: list[RunConfig]


class End(NamedTuple):
    """What is kept of a trial."""

    profile: str
    availability: str
    seed: int
    lr: float
    steps: int
    seconds: float  # virtual, to the target; where it was not reached, until the trial ended
    reached: bool


class Cell(NamedTuple):
    """One contestant in one setting: the mean over seeds, by the pair that was best there."""

    name: str
    profile: str
    availability: str
    seconds: float
    reached: bool  # by all seeds; else `seconds` is a lower bound
    lr: float
    steps: int


def units(seeds: Sequence[int], names: Sequence[str] | None = None) -> Iterator[Unit]:
    for name in names or CONTESTANTS:
        how = CONTESTANTS[name]
        pairs = [{}] if how["method"] == "amsfl" else [{"lr": r, "steps": s} for r in RATES for s in STEPS]
        yield Unit(
            name,
            [
                _config(how | pair, profile, presence, seed)
                for pair in pairs
                for presence in PRESENCE
                for profile in PROFILES
                for seed in seeds
            ],
        )


def _config(how: dict[str, Any], profile: str, presence: str, seed: int) -> RunConfig:
    """As many rounds as the work allows; looked at about four times while everyone comes in once."""
    kind, _, enough = how["round_end"].partition(":")
    each = int(enough) if kind == "buffer" else CLIENTS  # of a round that a quorum ends, the late ones, too
    rounds = min(UPLOADS, WORK // how.get("steps", 20)) // each
    return make_config(
        {
            "clients": CLIENTS,
            "partition": "dirichlet:0.5",
            "clock": "makespan",
            "target": TARGET,
            "details": False,
            "profile": profile,
            "availability": presence,
            "seed": seed,
            "rounds": rounds,
            "eval_every": max(1, CLIENTS // (4 * each)),
            **how,
        }
    )


def run(
    folder: Path,
    dataset: Dataset,
    todo: Sequence[Unit],
    watch: Callable[[str, int, int], None] | None = None,
) -> None:
    """Run what is not there yet; a unit that was run with other settings is run again."""
    x, y = dataset.evals["holdout"]
    dataset = dataset._replace(evals={"holdout": (x[:ROWS], y[:ROWS])})
    with locked(folder):
        for number, unit in enumerate(todo):
            file, settings = units_.file_of(folder, unit.name), units_.settings_of(dataset, unit.configs)
            if units_.finished(file, settings):
                continue
            if watch:
                watch(unit.name, number, len(todo))
            ends: list[dict[str, Any]] = []
            for part in _alike(unit.configs):
                ends += [
                    end(*each)._asdict() for each in zip(part, run_batch(part, Own(dataset)), strict=True)
                ]
            write_sealed(file, {"name": unit.name, "settings": settings, "ends": ends})


def _alike(configs: Sequence[RunConfig]) -> Iterator[list[RunConfig]]:
    """Batches: trials of equal steps, which end after equal rounds."""
    for steps in sorted({each.steps for each in configs}):
        mine = [each for each in configs if each.steps == steps]
        for begin in range(0, len(mine), CHUNK):
            yield mine[begin : begin + CHUNK]


def end(config: RunConfig, result: Any) -> End:
    told = result.summary
    reached = told.seconds_to_target is not None
    seconds = told.seconds_to_target if reached else told.virtual_seconds
    return End(
        config.profile, config.availability, config.seed, config.lr, config.steps, float(seconds), reached
    )


def read(folder: Path) -> list[Cell]:
    """Every finished contestant in every setting, in the contestants' order."""
    order = list(CONTESTANTS)
    found = sorted(units_.read(folder), key=lambda each: order.index(each["name"]))
    return [cell for each in found for cell in cells(each["name"], [End(**one) for one in each["ends"]])]


def cells(name: str, ends: Sequence[End]) -> Iterator[Cell]:
    """By setting, the pair of learning rate and steps with the least mean; one that all seeds reach is
    better than any that some do not."""
    groups: dict[tuple[str, str], dict[tuple[float, int], list[End]]] = {}
    for each in ends:
        pairs = groups.setdefault((each.profile, each.availability), {})
        pairs.setdefault((each.lr, each.steps), []).append(each)
    for (profile, presence), pairs in groups.items():
        tried = [
            Cell(
                name,
                profile,
                presence,
                sum(each.seconds for each in some) / len(some),
                all(each.reached for each in some),
                *pair,
            )
            for pair, some in pairs.items()
        ]
        yield min(tried, key=lambda cell: (not cell.reached, cell.seconds))
