"""Which method, round end and steps would reach a target soonest at given sites, before anything is deployed.

A method with a round end is one sweep, of seeds, steps and learning rates. AMSFL's come first; what takes
more than PATIENCE times as long as the best so far is not waited for.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from amsfl import clock, methods
from amsfl.core import UserError
from amsfl.core.records import Json, JsonMapping
from amsfl.planning.planner import policy_of
from amsfl.settings.checks import round_end_of
from amsfl.simulation import CustomParts, RunConfig, make_config
from amsfl.simulation.components import client_names, load_data
from amsfl.study.sweep import SweepRun, run_all

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


def forecast(
    settings: JsonMapping,
    out: Path,
    names: Sequence[str] = METHODS.split(","),
    seeds: int = 3,
    watch: Callable[[str, int, int], None] = lambda *_: None,
) -> tuple[list[ForecastRow], list[str]]:
    """Every way, the soonest first, and those that are left out and why; what is on record is not run.

    Tried are these methods, and round ends, steps and learning rates unless the settings fix them.
    """
    base = {"rounds": ROUNDS, **settings, "clock": "makespan", "stop_at_target": True, "details": ""}
    config = make_config(base)
    if config.target is None:
        raise UserError("A forecast is of the time to a target; add --target 0.95, or as in f1=0.8.")
    table, dataset = clock.read_sites(Path(config.profile)), load_data(config)
    clients = len(client_names(config, dataset)) or table.count
    base |= {"clients": clients}
    units, left_out = _units(base, names, seeds, clients)
    if not units:
        raise UserError(f"None of the methods can run with these settings: {' '.join(left_out)}")
    ways, best = list[ForecastRow](), np.inf
    for place, unit in enumerate(units):
        method = methods.make(unit[0].method)
        planned = not policy_of(unit[0], method).steps
        watch(f"{unit[0].method}, {unit[0].round_end}", place, len(units))
        limit = None if planned or not np.isfinite(best) else PATIENCE * best
        unit = [each.model_copy(update={"seconds": limit}) for each in unit]
        rows = run_all([SweepRun({}, each, CustomParts(dataset=dataset)) for each in unit], out)
        mine: dict[int, dict[float | None, ForecastRow]] = {}  # by steps, by learning rate
        for each, row in zip(unit, rows, strict=True):
            steps, title = None if planned else each.steps, method.title or each.method
            fresh = ForecastRow(each.method, title, each.round_end, steps, each.lr, [], [])
            way = mine.setdefault(each.steps, {}).setdefault(each.lr, fresh)
            way.seconds.append(row["seconds_to_target"])
            way.rounds.append(row["rounds_to_target"])
        # the learning rate that is best with hindsight
        ways += [min(some.values(), key=lambda row: (-row.reached, row.middle)) for some in mine.values()]
        best = min(best, *(way.middle for some in mine.values() for way in some.values()))
    return sorted(ways, key=lambda row: row.middle), left_out


def _units(
    base: Json, names: Sequence[str], seeds: int, clients: int
) -> tuple[list[list[RunConfig]], list[str]]:
    """The runs of each method with each round end, and why some are left out."""
    units, left_out = [], []
    most, few = (max(1, round(share * (base.get("cohort") or clients))) for share in (0.6, 0.4))
    usual = ["all", f"quorum:{most}", f"buffer:{few}"]
    ends = [base["round_end"]] if "round_end" in base else usual
    counts = [base["steps"]] if "steps" in base else STEPS
    rates = [base["lr"]] if "lr" in base else RATES
    for name in sorted(names, key=lambda name: not name.startswith("amsfl")):
        method = methods.make(name)
        for end in ends if method.facts.round_end == "all" else ["auto"]:
            one = make_config({**base, "method": name, "round_end": end})
            try:
                resolved = round_end_of(one, method, one.cohort or clients)
            except UserError as why:
                left_out.append(f"{method.title or name} with {end}: {why}")
                continue
            planned = not policy_of(one, method).steps
            own = {**base, "method": name, "round_end": resolved.name}
            units.append(
                [
                    make_config({**own, **taken, "lr": lr, "seed": seed})
                    for taken in ([{}] if planned else [{"steps": count} for count in counts])
                    for lr in ([base.get("lr")] if method.judges else rates)
                    for seed in range(one.seed, one.seed + seeds)
                ]
            )
    return units, left_out
