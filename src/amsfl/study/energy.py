"""The energy study: the same run to its target under tighter and tighter limits on a round's joules.

Where clients spend unequal joules, fewer of them can be had for more seconds: a limit is a point on that
trade-off. By default limits are multiples of what one step of every client costs, and none at all.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import UserError
from amsfl.data import Dataset
from amsfl.simulation import CustomParts, Result, RunConfig, make_config
from amsfl.simulation.setup import prepare
from amsfl.study import units
from amsfl.study.units import Unit

TIMES = (1.05, 1.3, 1.7, 2.5, 4.0)  # what one step of everybody costs; and no limit
FREE = "no limit"


class End(NamedTuple):
    """What is kept of a trial; seconds and joules to the target, or to where it ended."""

    seed: int
    seconds: float
    joules: float
    rounds: int
    steps: int
    reached: bool


class Row(NamedTuple):
    """One limit: means over seeds."""

    limit: float | None  # joules a round; None: as many as it likes
    seconds: float
    joules: float
    rounds: float
    steps: float  # of a round, all clients together
    reached: bool  # by all seeds; else seconds and joules are lower bounds
    ends: list[End]

    @property
    def name(self) -> str:
        return FREE if self.limit is None else f"{self.limit:g} J"


def limits(settings: dict[str, Any], dataset: Dataset) -> list[float | None]:
    """Multiples of the least that a round can spend, rounded to three digits, and none."""
    config = make_config({**settings, "seed": 0})
    account = prepare(config, [0], CustomParts(dataset)).costs[0].accounts.get("joules")
    if account is None:
        raise UserError(
            f"The profile {config.profile!r} does not say what clients spend; give a table with the columns "
            "joules_step and joules_mb, or take --profile battery."
        )
    cohort = config.cohort or config.clients
    least = np.sort(account.per_step + account.per_round)[::-1][:cohort].sum()
    return [*(float(f"{each * least:.3g}") for each in TIMES), None]


def todo(settings: dict[str, Any], budgets: Sequence[float | None], seeds: Sequence[int]) -> Iterator[Unit]:
    for limit in budgets:
        configs = [make_config(settings | {"budget_joules": limit, "seed": seed}) for seed in seeds]
        yield Unit(FREE if limit is None else f"{limit:g} joules a round", {"limit": limit}, configs)


def end(config: RunConfig, result: Result) -> dict[str, Any]:
    told = result.summary
    reached = told.seconds_to_target is not None
    seconds = told.seconds_to_target if reached else told.virtual_seconds
    joules = told.joules_to_target if reached else told.joules
    steps = sum(told.steps.values())
    return End(config.seed, seconds or 0.0, joules or 0.0, told.rounds, steps, reached)._asdict()


def read(folder: Path) -> list[Row]:
    """Every finished limit, the tightest first."""
    found = [(unit["limit"], [End(**each) for each in unit["ends"]]) for unit in units.read(folder)]
    found.sort(key=lambda pair: np.inf if pair[0] is None else pair[0])
    return [_row(limit, ends) for limit, ends in found]


def _row(limit: float | None, ends: list[End]) -> Row:
    seconds, joules, rounds = (
        float(np.mean([getattr(each, name) for each in ends])) for name in ("seconds", "joules", "rounds")
    )
    steps = float(np.mean([each.steps / each.rounds for each in ends]))
    return Row(limit, seconds, joules, rounds, steps, all(each.reached for each in ends), ends)


def best(rows: Sequence[Row]) -> set[str]:
    """Limits that no other beats in both seconds and joules; of those that got there."""
    there = [row for row in rows if row.reached]
    return {
        row.name
        for row in there
        if not any(o.seconds <= row.seconds and o.joules <= row.joules and o is not row for o in there)
    }


def as_markdown(rows: Sequence[Row]) -> str:
    lines = [
        "| joules a round | seconds to the target | joules to it | rounds | steps a round | beaten by none |",
        "| ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    front = best(rows)
    for row in rows:
        sign = "" if row.reached else "> "
        cells = [
            f"{sign}{row.seconds:.1f}",
            f"{sign}{row.joules:.0f}",
            f"{row.rounds:.1f}",
            f"{row.steps:.0f}",
        ]
        lines.append(f"| {row.name} | {' | '.join(cells)} | {'yes' if row.name in front else ''} |")
    return "\n".join(lines) + "\n"
