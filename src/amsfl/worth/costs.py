"""What each client took of a run: seconds that it alone caused, steps, bytes, joules, money, epsilon."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from amsfl.record import RoundRecord

Floats = np.ndarray[Any, np.dtype[np.float64]]


class ClientCost(NamedTuple):
    """Over all rounds, whatever the record says; None where it does not."""

    seconds: float  # by which rounds were longer than they would have been without it
    steps: int
    megabytes: float
    joules: float | None
    money: float | None
    epsilon: float | None  # of privacy, at most


def client_costs(rounds: Sequence[RoundRecord], clients: int, clock: str) -> list[ClientCost]:
    """Of every client, in the order of their numbers."""
    seconds, megabytes, joules, money = (np.zeros(clients) for _ in range(4))
    steps = np.zeros(clients, np.int64)
    for each in rounds:
        who = np.asarray(each.cohort, np.int64)
        np.add.at(steps, who, np.asarray(each.steps, np.int64))
        np.add.at(megabytes, who, (each.bytes_up + each.bytes_down) / 1e6 / max(len(who), 1))
        np.add.at(seconds, who, caused(each, clock))
        for name, into in (("client_joules", joules), ("client_cost", money)):
            if name in each.plan:
                np.add.at(into, who, each.plan[name])
    known = [any(name in each.plan for each in rounds) for name in ("client_joules", "client_cost")]
    lost = next((each.epsilon for each in reversed(rounds) if each.epsilon), [])
    return [
        ClientCost(
            float(seconds[who]),
            int(steps[who]),
            float(megabytes[who]),
            float(joules[who]) if known[0] else None,
            float(money[who]) if known[1] else None,
            lost[who if len(lost) == clients else 0] if lost else None,  # one for all: every client's
        )
        for who in range(clients)
    ]


def caused(each: RoundRecord, clock: str) -> Floats:
    """Seconds of a round that each of its cohort alone caused: its own if they take turns, else those after
    all others were in. A server that waits for a moment, not for somebody, is kept by nobody."""
    took = np.asarray(each.plan.get("client_seconds", [0.0] * len(each.cohort)), float)
    if clock == "sum" or not len(took):
        return took
    end = each.seconds["makespan"]
    begin = end - each.round_seconds.get("makespan", float(took.max()))
    arrived = np.asarray(each.arrived, float) if each.arrived else begin + took
    last = np.argmax(arrived)
    others = np.delete(arrived, last)
    alone = np.zeros(len(took))
    if each.arrived and end > arrived[last] + 1e-9:
        return alone
    alone[last] = arrived[last] - max(begin, others.max() if len(others) else begin)
    return alone
