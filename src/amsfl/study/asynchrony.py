"""The asynchrony study: who waits for whom, on clients that come and go; time to 95% of the hold-out.

Ten clients, Dirichlet 0.5, all under way at once, five profiles, clients that are always there and clients
that come and go. A contestant has all settings and seeds and, where it has to be told a learning rate and a
number of steps, all of those; a unit is what it does with one number of steps. It counts in each setting with
the pair that was best there, over all seeds: tuned with hindsight, and all alike. AMSFL is told nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from amsfl.data import Dataset
from amsfl.simulation import RunConfig, make_config
from amsfl.study import units as units_
from amsfl.study.units import Unit

PROFILES = ("mild", "wild", "slow-big", "far", "wan")
PRESENCE = ("always", "chain:4,2")  # there for 4 s, away for 2, on the mean
TARGET = 0.95
CLIENTS = 10
RATES, STEPS = (0.1, 0.3, 1.0), (5, 20, 50)
UPLOADS, WORK = 4_000, 60_000  # of a run, at most: clients' rounds, and their steps
ROWS = 5000  # of the hold-out, in its random order
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
        told = {f"{name}, {s} steps": [{"lr": r, "steps": s} for r in RATES] for s in STEPS}
        for unit, pairs in ({name: [{}]} if how["method"] == "amsfl" else told).items():
            yield Unit(
                unit,
                {"name": name},
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
    """Run what is not there yet (study/units.py), judged by a part of the hold-out."""
    x, y = dataset.evals["holdout"]
    dataset = dataset._replace(evals={"holdout": (x[:ROWS], y[:ROWS])})
    units_.run(folder, dataset, todo, lambda config, result: end(config, result)._asdict(), watch)


def end(config: RunConfig, result: Any) -> End:
    told = result.summary
    reached = told.seconds_to_target is not None
    seconds = told.seconds_to_target if reached else told.virtual_seconds
    return End(
        config.profile, config.availability, config.seed, config.lr, config.steps, float(seconds), reached
    )


def read(folder: Path) -> list[Cell]:
    """Every contestant in every setting, by the units that are finished, in the contestants' order."""
    ends: dict[str, list[End]] = {name: [] for name in CONTESTANTS}
    for unit in units_.read(folder):
        ends[unit["name"]] += [End(**one) for one in unit["ends"]]
    return [cell for name, mine in ends.items() for cell in cells(name, mine)]


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
