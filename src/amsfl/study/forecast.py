"""Which method, round end and steps would reach a target soonest at given sites, before anything is deployed.

A unit is a method with a round end: all its seeds, steps and learning rates are one batch. AMSFL's come
first; what takes more than PATIENCE times as long as the best so far is not waited for. Each unit is a file
of its own, so that a forecast which was stopped goes on where it was.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from amsfl import clock, methods
from amsfl.core import DiskError, UserError
from amsfl.data import Dataset
from amsfl.planning.planner import policy_of
from amsfl.record import dumps, read_sealed, write_sealed
from amsfl.settings.round_ends import round_end_of
from amsfl.simulation import CustomParts, RunConfig, make_config, run_batch
from amsfl.simulation.setup import client_names, load_data

PATIENCE = 10.0
ROUNDS = 300  # at most
METHODS = "amsfl,fedavg,fedbuff"
STEPS, RATES = (5, 20, 50), (0.05, 0.2, 0.5)


class Row(NamedTuple):
    """One way to run it: the seconds to the target of every seed, None where it was not reached."""

    method: str
    title: str
    round_end: str
    steps: int | None  # None: planned, client by client
    lr: float | None  # None: its own; else the best of those tried
    seconds: list[float | None]
    rounds: list[int | None]

    @property
    def reached(self) -> int:
        return sum(each is not None for each in self.seconds)

    @property
    def middle(self) -> float:
        """The geometric mean over seeds; where one never gets there, the median, which may be forever."""
        known = [np.inf if each is None else each for each in self.seconds]
        return float(np.exp(np.log(known).mean()) if np.isfinite(known).all() else np.median(known))


class Unit(NamedTuple):
    method: str
    round_end: str
    trials: list[RunConfig]  # seeds, of each steps and lr

    @property
    def name(self) -> str:
        return f"{self.method}, {self.round_end}".replace("/", "-").replace(":", "-")


class Forecast(NamedTuple):
    rows: list[Row]  # the soonest first
    clients: int
    seeds: int
    left_out: list[str]  # and why


def forecast(
    settings: Mapping[str, Any],
    out: Path,
    names: Sequence[str],
    ends: Sequence[str] = (),
    steps: Sequence[int] = STEPS,
    rates: Sequence[float] = RATES,
    seeds: int = 3,
    watch: Callable[[str, int, int], None] | None = None,
) -> Forecast:
    """Run every unit that is not on record yet.

    Args:
        settings: Of all runs; profile and target among them.
        out: The folder of what is finished.
        names: Of methods.
        ends: Round ends of the methods that have none of their own; by default all, quorum and buffer.
        steps: Tried, where a method does not plan them.
        rates: Learning rates tried, where a method does not set its own.
        seeds: Of each: partition, first model, sampling, luck.
        watch: Hears of each unit before it runs.

    Returns:
        The rows, the soonest first.
    """
    base = dict(settings) | {"clock": "makespan", "stop_at_target": True, "details": False}
    base = {"rounds": ROUNDS, **base}
    config = make_config(base)
    if config.target is None:
        raise UserError("A forecast is of the time to a target; add --target 0.95, or as in f1=0.8.")
    table = clock.read_sites(Path(config.profile))
    dataset = load_data(config)
    sites = client_names(config, dataset)
    clients = len(sites) or table.count
    base |= {"clients": clients}
    chosen = list(ends) or _usual(config.cohort or clients)
    found, left_out = _units(base, names, chosen, steps, rates, seeds, clients)
    if not found:
        raise UserError(f"None of the methods can run so: {' '.join(left_out)}")
    known = sha256(dumps(base).encode() + Path(config.profile).read_bytes()).hexdigest()
    rows, best = list[Row](), np.inf
    for place, unit in enumerate(found):
        path = out / f"{unit.name}.json"
        key = {"made_from": known, "trials": [dumps(each.model_dump()) for each in unit.trials]}
        mine = _on_record(path, key)
        if mine is None:
            if watch:
                watch(unit.name, place, len(found))
            mine = _run(unit, dataset, best)
            out.mkdir(parents=True, exist_ok=True)
            write_sealed(path, {"key": key, "rows": [row._asdict() for row in mine]})
        rows += mine
        best = min([best, *(row.middle for row in mine)])
    return Forecast(sorted(_best_rates(rows), key=lambda row: row.middle), clients, seeds, left_out)


def _usual(cohort: int) -> list[str]:
    """Waiting for all, for most, for few."""
    return ["all", f"quorum:{max(1, round(0.6 * cohort))}", f"buffer:{max(1, round(0.4 * cohort))}"]


def _units(
    base: Mapping[str, Any],
    names: Sequence[str],
    ends: Sequence[str],
    steps: Sequence[int],
    rates: Sequence[float],
    seeds: int,
    clients: int,
) -> tuple[list[Unit], list[str]]:
    found, left_out = [], []
    for name in sorted(names, key=lambda name: not name.startswith("amsfl")):
        method = methods.make(name)
        for end in ends if method.facts.round_end == "all" else ["auto"]:
            one = make_config({**base, "method": name, "round_end": end})
            try:
                resolved = round_end_of(one, method, one.cohort or clients)
            except UserError as why:
                left_out.append(f"{method.title or name} with {end}: {why}")
                continue
            said = resolved.name
            planned = not policy_of(one, method).steps
            trials = [
                make_config(
                    {**base, "method": name, "round_end": said, "steps": count, "lr": lr, "seed": seed}
                )
                for count in ([one.steps] if planned else steps)
                for lr in ([one.lr] if method.facts.own_rate else rates)
                for seed in range(one.seed, one.seed + seeds)
            ]
            found.append(Unit(name, said, trials))
    return found, left_out


def _run(unit: Unit, dataset: Dataset, best: float) -> list[Row]:
    method = methods.make(unit.method)
    planned = not policy_of(unit.trials[0], method).steps
    limit = None if planned or not np.isfinite(best) else PATIENCE * best
    trials = [each.model_copy(update={"seconds": limit}) for each in unit.trials]
    summaries = [result.summary for result in run_batch(trials, CustomParts(dataset=dataset))]
    rows: dict[tuple[int, float], Row] = {}
    for config, summary in zip(trials, summaries, strict=True):
        fresh = Row(
            unit.method,
            method.title or unit.method,
            unit.round_end,
            None if planned else config.steps,
            None if method.facts.own_rate else config.lr,
            [],
            [],
        )
        row = rows.setdefault((config.steps, config.lr), fresh)
        row.seconds.append(summary.seconds_to_target)
        row.rounds.append(summary.rounds_to_target)
    return list(rows.values())


def _best_rates(rows: Sequence[Row]) -> Iterator[Row]:
    """Of each method, round end and steps the learning rate that is best with hindsight."""
    groups: dict[tuple[str, str, int | None], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.method, row.round_end, row.steps), []).append(row)
    for some in groups.values():
        yield min(some, key=lambda row: (-row.reached, row.middle))


def _on_record(path: Path, key: dict[str, Any]) -> list[Row] | None:
    """What of the same settings is finished; what is damaged or of other settings is run again."""
    if not path.exists():
        return None
    try:
        found = read_sealed(path, "it is run again.")
    except DiskError:
        return None
    return [Row(**row) for row in found["rows"]] if found["key"] == key else None
