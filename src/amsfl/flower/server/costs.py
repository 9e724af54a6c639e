"""What clients cost, from measured time: seconds a step, and everything else a round takes.

A client reports one step's seconds by its own monotonic clock; the server sees when its reply came.
What is left of that, arrival - steps * step_seconds, is communication in the planner's sense: transport,
Flower's process start, the extra gradient, and waiting for polls. A Flower SuperNode that is idle asks
for work every three seconds, and the server looks for replies every so often: that wait is luck, not
the client's. So each client gets the LOWEST such rest of its last rounds (its own part, waits out), and
all clients get the same mean wait on top (what a round will take all the same). Steps are the median of
the last rounds: one bad round moves neither.
"""

from typing import Any, NamedTuple

import numpy as np

from amsfl.clock import Costs

LAST = 5
GUESS = Costs(np.array([0.05]), np.array([5.0]))  # before anybody was measured: a plan needs some number


class Measured(NamedTuple):
    """Memory that JSON can hold: the last measurements of every client."""

    step: list[list[float]]
    rest: list[list[float]]


def start(clients: int) -> Measured:
    return Measured([[] for _ in range(clients)], [[] for _ in range(clients)])


def observe(
    old: Measured, client: int, steps: int, step_seconds: float, elapsed: float, poll: float
) -> Measured:
    """One accepted reply, `elapsed` from push to pull; it waited half a `poll` for the server on average."""
    rest = max(0.0, elapsed - steps * step_seconds - poll / 2)
    step = [[*past, step_seconds][-LAST:] if who == client else past for who, past in enumerate(old.step)]
    rests = [[*past, rest][-LAST:] if who == client else past for who, past in enumerate(old.rest)]
    return Measured(step, rests)


def costs(measured: Measured) -> Costs:
    """The planner's costs; clients never measured get the median of the others."""
    step = np.array([np.median(past) if past else np.nan for past in measured.step])
    floor = np.array([min(past) if past else np.nan for past in measured.rest])
    return Costs(
        _filled(np.maximum(step, 1e-6), GUESS.step_seconds[0]),
        _filled(floor, GUESS.comm_seconds[0]) + wait(measured),
    )


def wait(measured: Measured) -> float:
    """Mean seconds that a reply waits for polls and for luck, over all clients."""
    waits = [float(np.median(past)) - min(past) for past in measured.rest if past]
    return float(np.mean(waits)) if waits else 0.0


def _filled(values: Any, guess: float) -> Any:
    known = np.isfinite(values)
    return np.where(known, values, np.median(values[known]) if known.any() else guess)
