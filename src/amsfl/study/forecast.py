"""Which method, round end and steps would reach a target soonest at given sites, before anything is deployed.

A unit is a method with a round end: all its seeds, steps and learning rates are one batch. AMSFL's come
first; what takes more than PATIENCE times as long as the best so far is not waited for. Each unit is a file
of its own, so that a forecast which was stopped goes on where it was.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from amsfl import clock, methods
from amsfl.core import DiskError, UserError
from amsfl.core.records import Json, JsonMapping
from amsfl.data import Dataset
from amsfl.planning.planner import policy_of
from amsfl.record import dumps, read_sealed, write_sealed
from amsfl.settings.checks import round_end_of
from amsfl.simulation import CustomParts, RunConfig, make_config, provenance, run_batch
from amsfl.simulation.components import client_names, load_data

PATIENCE = 10.0
ROUNDS = 300  # at most
METHODS = "amsfl,fedavg,fedbuff"
STEPS, RATES = (5, 20, 50), (0.05, 0.2, 0.5)


class ForecastRow(NamedTuple):
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
        seconds = [np.inf if each is None else each for each in self.seconds]
        return float(np.exp(np.log(seconds).mean()) if np.isfinite(seconds).all() else np.median(seconds))


class ForecastUnit(NamedTuple):
    method: str
    round_end: str
    trials: list[RunConfig]  # seeds, of each steps and lr

    @property
    def name(self) -> str:
        return f"{self.method}, {self.round_end}".replace("/", "-").replace(":", "-")


class Forecast(NamedTuple):
    rows: list[ForecastRow]  # the soonest first
    clients: int
    seeds: int
    left_out: list[str]  # and why


class ForecastGrid(NamedTuple):
    """What a forecast tries."""

    methods: Sequence[str]
    round_ends: Sequence[str] = ()  # of methods without one of their own; by default all, quorum and buffer
    steps: Sequence[int] = STEPS  # where a method does not plan them
    rates: Sequence[float] = RATES  # where a method does not set its own
    seeds: int = 3  # of each: partition, first model, sampling, random delays


def forecast(
    settings: JsonMapping,
    out: Path,
    grid: ForecastGrid,
    watch: Callable[[str, int, int], None] | None = None,
) -> Forecast:
    """Run every unit that is not on record yet."""
    base = {"rounds": ROUNDS, **settings, "clock": "makespan", "stop_at_target": True, "details": ""}
    config = make_config(base)
    if config.target is None:
        raise UserError("A forecast is of the time to a target; add --target 0.95, or as in f1=0.8.")
    table = clock.read_sites(Path(config.profile))
    dataset = load_data(config)
    sites = client_names(config, dataset)
    clients = len(sites) or table.count
    base |= {"clients": clients}
    if not grid.round_ends:
        cohort = config.cohort or clients
        most, few = (max(1, round(share * cohort)) for share in (0.6, 0.4))
        grid = grid._replace(round_ends=["all", f"quorum:{most}", f"buffer:{few}"])
    units, left_out = _units(base, grid, clients)
    if not units:
        raise UserError(f"None of the methods can run with these settings: {' '.join(left_out)}")
    inputs = [base, provenance.of_data(dataset), provenance.versions()]
    rows, best = list[ForecastRow](), np.inf
    for place, unit in enumerate(units):
        path = out / f"{unit.name}.json"
        made_from = sha256(dumps([*inputs, provenance.of_files(unit.trials[0])]).encode()).hexdigest()
        key = {"made_from": made_from, "trials": [dumps(each.model_dump()) for each in unit.trials]}
        mine = _on_record(path, key)
        if mine is None:
            if watch:
                watch(unit.name, place, len(units))
            mine = _run(unit, dataset, best)
            out.mkdir(parents=True, exist_ok=True)
            write_sealed(path, {"key": key, "rows": [row._asdict() for row in mine]})
        rows += mine
        best = min([best, *(row.middle for row in mine)])
    # of each method, round end and steps the learning rate that is best with hindsight
    groups: dict[tuple[str, str, int | None], list[ForecastRow]] = {}
    for row in rows:
        groups.setdefault((row.method, row.round_end, row.steps), []).append(row)
    ways = [min(some, key=lambda row: (-row.reached, row.middle)) for some in groups.values()]
    return Forecast(sorted(ways, key=lambda row: row.middle), clients, grid.seeds, left_out)


def _units(base: JsonMapping, grid: ForecastGrid, clients: int) -> tuple[list[ForecastUnit], list[str]]:
    units, left_out = [], []
    for name in sorted(grid.methods, key=lambda name: not name.startswith("amsfl")):
        method = methods.make(name)
        for end in grid.round_ends if method.facts.round_end == "all" else ["auto"]:
            one = make_config({**base, "method": name, "round_end": end})
            try:
                resolved = round_end_of(one, method, one.cohort or clients)
            except UserError as why:
                left_out.append(f"{method.title or name} with {end}: {why}")
                continue
            planned = not policy_of(one, method).steps
            own = {**base, "method": name, "round_end": resolved.name}
            trials = [
                make_config({**own, "steps": count, "lr": lr, "seed": seed})
                for count in ([one.steps] if planned else grid.steps)
                for lr in ([None] if method.judges else grid.rates)
                for seed in range(one.seed, one.seed + grid.seeds)
            ]
            units.append(ForecastUnit(name, resolved.name, trials))
    return units, left_out


def _run(unit: ForecastUnit, dataset: Dataset, best: float) -> list[ForecastRow]:
    method = methods.make(unit.method)
    planned = not policy_of(unit.trials[0], method).steps
    limit = None if planned or not np.isfinite(best) else PATIENCE * best
    trials = [each.model_copy(update={"seconds": limit}) for each in unit.trials]
    summaries = [result.summary for result in run_batch(trials, CustomParts(dataset=dataset))]
    rows: dict[tuple[int, float | None], ForecastRow] = {}
    for config, summary in zip(trials, summaries, strict=True):
        steps, lr = None if planned else config.steps, config.lr
        fresh = ForecastRow(unit.method, method.title or unit.method, unit.round_end, steps, lr, [], [])
        row = rows.setdefault((config.steps, config.lr), fresh)
        row.seconds.append(summary.seconds_to_target)
        row.rounds.append(summary.rounds_to_target)
    return list(rows.values())


def _on_record(path: Path, key: Json) -> list[ForecastRow] | None:
    """What of the same settings is finished; what is damaged or of other settings is run again."""
    if not path.exists():
        return None
    try:
        content = read_sealed(path, "it is run again.")
    except DiskError:
        return None
    return [ForecastRow(**row) for row in content["rows"]] if content["key"] == key else None
