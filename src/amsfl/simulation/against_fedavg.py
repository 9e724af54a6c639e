"""What a planned run saved against FedAvg with equal steps, as forecast from the run's own record.

FedAvg is given as many rounds and as many steps in all: everybody takes the run's mean number of steps in
every round, and nothing of what the run's own method asks for besides (`extra_seconds` of a round's plan; of
real clients only a reading's gradient is known). What is neither steps nor that stays as it was. Whether
FedAvg would have needed more rounds or fewer, no record of another method says.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from amsfl.core.records import Json
from amsfl.record import RoundRecord
from amsfl.worth import interval


class FedAvgForecast(NamedTuple):
    """FedAvg for as many rounds, and what was saved against it; below 0: what more was spent."""

    steps: float  # of everybody in every round
    seconds: float
    seconds_saved: list[float]  # with a 90% interval by the spread over rounds
    megabytes: float
    megabytes_saved: float


def forecast_fedavg(
    rounds: Sequence[RoundRecord], clock: str, bytes_each: float, step_seconds: Sequence[float] | None = None
) -> FedAvgForecast | None:
    """FedAvg in place of the rounds of a run that waits for its whole cohort.

    A client of FedAvg sends and receives `bytes_each` in a round. Without `step_seconds` of every client each
    round's plan has them. None where rounds do not say how long clients took.
    """
    rounds = [each for each in rounds if each.cohort]
    needed = {"client_seconds"} if step_seconds is not None else {"client_seconds", "step_seconds"}
    if not rounds or not all(needed <= each.plan.keys() for each in rounds):
        return None
    clients = sum(len(each.cohort) for each in rounds)
    steps = sum(sum(each.steps) for each in rounds) / clients
    took = [_round(each, clock, steps, step_seconds) for each in rounds]
    saved = interval(np.array(took) - [each.round_seconds[clock] for each in rounds])
    megabytes = clients * bytes_each / 1e6
    sent = sum(each.bytes_up + each.bytes_down for each in rounds) / 1e6
    whole = [len(rounds) * part for part in saved]
    return FedAvgForecast(steps, float(sum(took)), whole, megabytes, megabytes - sent)


def _round(each: RoundRecord, clock: str, steps: float, step_seconds: Sequence[float] | None) -> float:
    own = each.plan["step_seconds"] if step_seconds is None else np.asarray(step_seconds)[each.cohort]
    pace, took = np.asarray(own, float), np.asarray(each.plan["client_seconds"], float)
    extra = np.asarray(each.plan.get("extra_seconds", pace * bool(each.readings)), float)
    seconds = np.maximum(took - extra - pace * np.asarray(each.steps), 0) + pace * steps
    return float(seconds.sum() if clock == "sum" else seconds.max())


def sentence(verdict: Json) -> str:
    """The verdict of a summary in a line; "" where there is none."""
    if not verdict:
        return ""
    saved = verdict["seconds_saved"][0]
    low, high = sorted(part if saved >= 0 else -part for part in verdict["seconds_saved"][1:])
    megabytes = verdict["megabytes_saved"]
    return (
        f"FedAvg with {verdict['steps']:.1f} steps of everybody would have taken {verdict['seconds']:.4g} s "
        f"for as many rounds and steps: {abs(saved):.3g} s {'saved' if saved >= 0 else 'more spent'} "
        f"({low:.3g} to {high:.3g}), {abs(megabytes):.3g} MB {'less' if megabytes >= 0 else 'more'} sent"
    )
