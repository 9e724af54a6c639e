"""The robustness study: rules against attacks, by how many clients attack; what counts is the worst attack.

Ten clients, Dirichlet 0.5, the same virtual seconds for all. A unit (one contestant against one number of
attackers) is one batch of trials, all attacks and seeds at once, and one file, so that a stopped study goes
on and several processes share one. Rules are told how many to doubt; without an attack they doubt as many,
which is what caution costs. All have a cap that leaves ten clients one voice each: any other gives a lie
about rows more than an attacker's share.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from amsfl.core import Plan
from amsfl.data import Dataset
from amsfl.record import RoundRecord
from amsfl.schedule import Policy, Problem, Signals
from amsfl.schedule.optimise import as_plan
from amsfl.simulation import CustomParts, RunConfig, make_config
from amsfl.study import units as units_
from amsfl.study.units import Unit

FOES = (1, 2, 3, 4)
TARGET = 0.89
MOST = 50  # steps of the busiest client where steps are unequal; the least busy has 1
RULES = (
    "median",
    "trimmed:{f}",
    "geomedian",
    "krum:{f}",
    "multikrum:{f}",
    "centred",
    "clip",
    "nnm:{f},trimmed:{f}",
    "nnm:{f},geomedian",
    "clip,nnm:{f},geomedian",
)
SAFE = RULES[-1]
ATTACKS = (
    "signflip",
    "gaussian",
    "labelflip",
    "alie",
    "ipm",
    "mimic",
    "rows",
    "readings",
    "seconds",
)
UNEQUAL = f"1 to {MOST} steps"


def _contestants() -> dict[str, dict[str, str]]:
    found = {"FedAvg": {"method": "fedavg"}}
    for rule in RULES:
        found[f"FedAvg, {_short(rule)}"] = {"method": "fedavg", "combine": f"cap:0.1,{rule}"}
    found["AMSFL"] = {"method": "amsfl"}
    for rule in RULES[-3:]:
        found[f"AMSFL, {_short(rule)}"] = {"method": "amsfl", "combine": f"cap:0.1,{rule}"}
    for method, title in (("fedavg", "FedAvg"), ("amsfl", "AMSFL")):
        found[f"{title}, {_short(SAFE)}, {UNEQUAL}"] = {"method": method, "combine": f"cap:0.1,{SAFE}"}
    return found


def _short(rule: str) -> str:
    return rule.replace(":{f}", "")


CONTESTANTS = _contestants()
COMMON = {"clients": 10, "partition": "dirichlet:0.5", "profile": "wild", "lr": 0.2, "steps": 10}


def unequal() -> Policy:
    """From 1 to MOST steps, evenly over the clients: what rules must not take for an attack."""

    def plan(problem: Problem, signals: Signals) -> Plan:
        return as_plan(problem, np.linspace(1, MOST, len(problem.weights)).astype(np.int64))

    return Policy("unequal", plan, constant=True, steps=False)


class End(NamedTuple):
    """What is kept of a trial."""

    attack: str  # empty: none
    seed: int
    accuracy: float  # the mean of the last rounds'
    seconds: float | None  # virtual, to 89%


class Row(NamedTuple):
    """One contestant against so many attackers: means over seeds."""

    name: str
    foes: int
    honest: float  # accuracy without an attack
    worst: float  # and under the worst
    attack: str  # which that is
    seconds: float | None  # to 89% without an attack; None where not all seeds come there
    late: float | None  # and under that attack
    each: dict[str, float]  # accuracy by attack; "": none


def units(
    seeds: Sequence[int],
    foes: Sequence[int],
    seconds: float,
    names: Sequence[str] | None = None,
    attacks: Sequence[str] = ATTACKS,
) -> Iterator[Unit]:
    for count in foes:
        for name in names or CONTESTANTS:
            how = {k: v.format(f=count) for k, v in CONTESTANTS[name].items()}
            common = COMMON | how | {"seconds": seconds}
            specs = ["", *(f"{each}:{count}" for each in attacks)]
            yield Unit(
                f"{name}, {count} of {COMMON['clients']} attack",
                {"name": name, "foes": count},
                [make_config(common | {"attack": each, "seed": seed}) for each in specs for seed in seeds],
                CustomParts(policy=unequal() if name.endswith(UNEQUAL) else None),
            )


def run(
    folder: Path,
    dataset: Dataset,
    todo: Sequence[Unit],
    watch: Callable[[str, int, int], None] | None = None,
) -> None:
    """Run what is not there yet (study/units.py)."""
    units_.run(folder, dataset, todo, lambda config, result: end(config, result.rounds)._asdict(), watch)


def end(config: RunConfig, rounds: Sequence[RoundRecord]) -> End:
    accuracy = [each.metrics["holdout"]["accuracy"] for each in rounds]
    hits = (each.seconds[config.clock] for each, a in zip(rounds, accuracy, strict=True) if a >= TARGET)
    return End(config.attack.split(":")[0], config.seed, float(np.mean(accuracy[-3:])), next(hits, None))


def read(folder: Path) -> list[Row]:
    """The table of every finished unit, in the contestants' order."""
    order = list(CONTESTANTS)
    rows = [
        row(each["name"], each["foes"], [End(**one) for one in each["ends"]]) for each in units_.read(folder)
    ]
    return sorted(rows, key=lambda row: (order.index(row.name), row.foes))


def row(name: str, foes: int, ends: Sequence[End]) -> Row:
    by_attack: dict[str, list[End]] = {}
    for each in ends:
        by_attack.setdefault(each.attack, []).append(each)
    mean = {which: float(np.mean([each.accuracy for each in some])) for which, some in by_attack.items()}
    worst = min((which for which in mean if which), key=lambda which: mean[which])
    return Row(
        name, foes, mean[""], mean[worst], worst, _seconds(by_attack[""]), _seconds(by_attack[worst]), mean
    )


def as_markdown(rows: Sequence[Row]) -> str:
    lines = [
        "| contestant | attackers of 10 | no attack | worst attack | which | s to 89% | under it |",
        "| --- | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    for each in rows:
        times = (f"{s:.1f}" if s is not None else "never" for s in (each.seconds, each.late))
        cells = [each.name, str(each.foes), f"{each.honest:.3f}", f"{each.worst:.3f}", each.attack, *times]
        lines.append(f"| {' | '.join(cells)} |")
    attacks = list(dict.fromkeys(which for each in rows for which in each.each if which))
    lines += ["", f"| contestant | attackers | no attack | {' | '.join(attacks)} |"]
    lines.append(f"| --- | ---: | ---: |{' ---: |' * len(attacks)}")
    for each in rows:
        found = (f"{each.each[which]:.3f}" if which in each.each else "" for which in ("", *attacks))
        lines.append(f"| {each.name} | {each.foes} | {' | '.join(found)} |")
    return "\n".join(lines) + "\n"


def _seconds(ends: Sequence[End]) -> float | None:
    times = [each.seconds for each in ends]
    return None if None in times else float(np.mean([t for t in times if t is not None]))
