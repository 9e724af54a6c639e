"""One client's steps of a round: how many, how fast, and when to stop.

    for step in task:  # 0, 1, ...: as many as were ordered, fewer where they would not end in time
        ...

Every turn of the loop is timed, and slowed where the client is to be slow.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Context

from amsfl.core import UserError
from amsfl.flower.messages import Order

LEFT_OUT = 10  # batches of a round whose loss may be none


class Slowdown(NamedTuple):
    """A handicap, to make equal machines unequal: every step lasts at least `step_seconds` * `slowdown`,
    and `slowdown` times as long as it took."""

    slowdown: float = 1.0
    step_seconds: float = 0.0

    def rest(self, took: float) -> float:
        return max(self.slowdown * max(took, self.step_seconds) - took, 0.0)


class NoMoreData(Exception):
    """The client's rows are at their end for this round."""


class LocalTask:
    """What is asked of a client this round, and what came of it."""

    def __init__(self, order: Order, pace: Slowdown | None = None, node: Mapping[str, Any] | None = None):
        self.order = order
        self.steps, self.seconds, self.lr = order.steps, order.time_limit, order.lr
        self.round, self.client, self.seed, self.batch = order.round, order.client, order.seed, order.batch
        self.node = dict(node or {})  # Flower's node-config
        self.after = int(order.readings)  # gradients that come after the last step
        self.pace = pace or Slowdown()
        self.timed: list[float] = []
        self.done = self.skipped = 0
        self._counts = True

    def __iter__(self) -> Iterator[int]:
        while self.done < self.steps and (not self.timed or self.in_time()):
            self._counts = True
            with self._timing():
                yield self.done
            self.done += self._counts

    def in_time(self) -> bool:
        """Whether one more step, and what comes after the last one, still ends within the order's seconds."""
        return sum(self.timed) + (1 + self.after) * self.step_seconds <= self.seconds

    def leave_out(self, loss: float) -> None:
        """This turn was no step: its loss is none. A batch or two may have that; a model whose losses all
        have it is lost."""
        self._counts = False
        self.skipped += 1
        if self.skipped > LEFT_OUT:
            raise UserError(
                f"The loss was {loss} in {self.skipped} batches of one round; lower the learning rate, clip "
                "the gradients, or look for rows that are not finite."
            )

    def look(self, gradient: Callable[[Any, int], Any], x: Any, step: int) -> Any:
        """One gradient more, timed as a step is."""
        with self._timing():
            return gradient(x, step)

    def took(self, steps: int, seconds: float) -> None:
        """Steps that were not taken in this task's own loop, and how long they took together."""
        time.sleep(steps * self.pace.rest(seconds / steps))
        self.timed = [max(seconds / steps, self.pace.slowdown * self.pace.step_seconds)] * steps
        self.done = steps

    @property
    def step_seconds(self) -> float:
        """Of one step. The first compiles, warms caches and starts workers: it counts only if alone."""
        return float(np.mean(self.timed[1:] or self.timed))

    @contextmanager
    def _timing(self) -> Iterator[None]:
        started = time.monotonic()
        yield
        time.sleep(self.pace.rest(time.monotonic() - started))
        self.timed.append(time.monotonic() - started)


def pace_of(context: Context) -> Slowdown:
    """`slowdown` and `step-seconds`, for trials of unequal speed on equal machines.

    From the node-config; or, in Flower's simulation, where nodes have none of their own, from `slowdowns`
    ("1,2,4") and `step-seconds` of the run-config.
    """
    node, run = context.node_config, context.run_config
    slowdown: Any = node.get("slowdown")
    if slowdown is None:
        each = [float(part) for part in str(run.get("slowdowns", "")).split(",") if part]
        slowdown = each[int(node.get("partition-id", 0)) % len(each)] if each else 1.0
    least: Any = node.get("step-seconds", run.get("step-seconds", 0.0))
    return Slowdown(float(slowdown), float(least))
