"""What a client is asked to do in a round, and its steps: how many, how fast, and when to stop.

    for step in task:  # 0, 1, ...: as many as were asked for, fewer where the site's policy stops them
        ...

Every turn of the loop is timed, and slowed where the client is to be slow. A client of your own says how long
its steps took, and how fast a step's worth fades, by

    with Measured(gradient, steps, lr) as reading:
        ...  # the local steps
    metrics = {"num-examples": rows} | reading.metrics
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType

from amsfl import sampling
from amsfl.core import UserError
from amsfl.core.records import Array
from amsfl.privacy import RECORD_LEVEL, Terms

KEPT = (0.02, 0.999)  # what is left of a gradient along itself
LEFT_OUT = 10  # batches of a round whose loss may be none
LONGEST_TEXT = 300
FIELDS: dict[str, type] = {
    "local-steps": int,
    "lr": float,
    "server-round": int,
    "batch-size": int,
    "seed": int,
    "held-back": float,
    "repeat": int,  # of the same order, where nodes do not wait for each other
    "proximal-mu": float,
    "run": str,
    "privacy": str,
    "clip": float,
    "noise": float,
    "epsilon": float,
    "delta": float,
    "privacy-steps": int,  # that the run will ask of a client
    "privacy-begun": bool,  # whether the server has taken some of them
}
SAID = (
    "train-seconds",
    "local-steps",
    "fading",
    "held-loss",
    "output-spread",
    "epsilon",
)  # to us
SPENT = "privacy is spent"  # how the refusal of a site begins that may not take a further step
WORDS = {float: "a finite number", int: "a whole number", str: "a short text", bool: "true or false"}


class Slowdown(NamedTuple):
    """A handicap, to make equal machines unequal: every step lasts at least `step_seconds` * `slowdown`, and
    `slowdown` times as long as it took."""

    slowdown: float = 1.0
    step_seconds: float = 0.0

    def rest(self, took: float) -> float:
        return max(self.slowdown * max(took, self.step_seconds) - took, 0.0)


class NoMoreData(Exception):
    """The client's rows are at their end for this round."""


class LocalTask:
    """What is asked of a client this round, and what came of it.

    `steps`, `lr`, `round` (from 0), `batch` and `seed` are the server's, `node` is Flower's node-config.
    """

    def __init__(self, config: ConfigRecord, context: Context, kind: str = MessageType.TRAIN):
        given = {key: checked(key, config[key]) for key in FIELDS if key in config}
        if kind == MessageType.TRAIN and not {"local-steps", "lr"} <= {*given}:
            raise UserError("The server's config has no local-steps or no lr: train with amsfl.flower.AMSFL.")
        self.steps, self.lr = int(given.get("local-steps", 0)), float(given.get("lr", 0.0))
        self.round, self.seed = int(given.get("server-round", 1)) - 1, int(given.get("seed", 0))
        self.repeat = int(given.get("repeat", 0))
        self.batch, self.held_share = int(given.get("batch-size", 32)), float(given.get("held-back", 0.0))
        self.mu, self.run = float(given.get("proximal-mu", 0.0)), str(given.get("run", ""))
        self.private_steps = int(given.get("privacy-steps", 0))
        self.terms, self.begun = _terms(given), bool(given.get("privacy-begun", False))
        self.correction = _vector(config.get("correction"))
        self.node: Mapping[str, Any] = dict(context.node_config)
        self.client = int(self.node.get("partition-id", context.node_id % 2**31))
        self.pace, self.seconds = pace_of(context), math.inf
        self.timed: list[float] = []
        self.done = self.skipped = 0
        self._counts = True

    def step(self, y: Array, anchor: Array, grad: Array) -> Array:
        """y - lr (g + mu (y - a) + correction)."""
        way = grad + self.mu * (y - anchor) if self.mu else grad
        way = way if self.correction is None else way + self.correction
        return np.asarray(y - np.float32(self.lr) * way, np.float32)

    def __iter__(self) -> Iterator[int]:
        while self.done < self.steps and (not self.timed or self.in_time()):
            self._counts = True
            with self.timing():
                yield self.done
            self.done += self._counts

    def in_time(self) -> bool:
        """Whether one more step still ends within the site's seconds."""
        return sum(self.timed) + float(np.mean(self.timed)) <= self.seconds

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

    def took(self, steps: int, seconds: float) -> None:
        """Steps that were not taken in this task's own loop, and how long they took together."""
        time.sleep(steps * self.pace.rest(seconds / steps))
        self.timed = [max(seconds / steps, self.pace.slowdown * self.pace.step_seconds)] * steps
        self.done = steps

    @contextmanager
    def timing(self) -> Iterator[None]:
        """One turn, timed."""
        started = time.perf_counter()
        yield
        time.sleep(self.pace.rest(time.perf_counter() - started))
        self.timed.append(time.perf_counter() - started)

    @property
    def key(self) -> Any:
        """Of the minibatches' row numbers: of (seed, round, client) alone, so that a round run again is the
        same."""
        with np.errstate(over="ignore"):  # 32-bit words wrap around on purpose
            return sampling.stream(*map(sampling.words, (self.seed, self.draw, self.client)))

    @property
    def draw(self) -> int:
        """The round, or a number that no round has, where it is asked for once more."""
        return self.round + (self.repeat << 20)


def received(message: Message, context: Context) -> tuple[ArrayRecord, LocalTask]:
    """An order's arrays, and what is asked."""
    arrays, config = message.content.array_records, message.content.config_records
    if len(arrays) != 1 or len(config) != 1:
        raise UserError("An order has one ArrayRecord and one ConfigRecord.")
    kind = message.metadata.message_type
    return next(iter(arrays.values())), LocalTask(next(iter(config.values())), context, kind)


def checked(key: str, value: Any) -> Any:
    """A field of the server's, of its kind to the letter: a 5 in place of "5" would be taken for something
    else."""
    kind = FIELDS[key]
    if kind is float and type(value) is not bool and isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    if type(value) is kind and kind is not float and (kind is not str or len(value) <= LONGEST_TEXT):  # type: ignore[arg-type]
        return value
    raise UserError(f"The server's {key!r} should be {WORDS[kind]}, and is {str(value)[:60]!r}.")


def _terms(given: Mapping[str, Any]) -> Terms | None:
    if not given.get("privacy"):
        return None
    if "clip" not in given or "delta" not in given:
        raise UserError("An order under privacy names its clip and its delta.")
    if given["privacy"] != RECORD_LEVEL.name:
        raise UserError(f"The privacy mechanism {given['privacy']!r} has no part at clients.")
    numbers = (float(given.get(key, 0.0)) for key in ("clip", "noise", "epsilon", "delta"))
    return Terms(str(given["privacy"]), *numbers)


def _vector(data: Any) -> Array | None:
    if data is None:
        return None
    if not isinstance(data, bytes) or len(data) % 4:
        raise UserError("The server's 'correction' should be the bytes of float32 numbers.")
    return np.frombuffer(data, "<f4")


def pace_of(context: Context) -> Slowdown:
    """`slowdown` and `step-seconds`, for trials of unequal speed on equal machines: of the node-config, or of
    the run-config, where `slowdowns` has one for each partition ("1,2,4")."""
    node, run = context.node_config, context.run_config
    slowdown: Any = node.get("slowdown")
    if slowdown is None:
        each = [float(part) for part in str(run.get("slowdowns", "")).split(",") if part]
        slowdown = each[int(node.get("partition-id", 0)) % len(each)] if each else 1.0
    least: Any = node.get("step-seconds", run.get("step-seconds", 0.0))
    return Slowdown(float(slowdown), float(least))


class Measured:
    """`metrics` of a client's local steps, for AMSFL.

    Args:
        gradient: `gradient()` returns the gradient of one fixed minibatch at the model as it is now, an array
            or a list of them, torch's or numpy's. It is asked twice, before the steps and after them, and is
            not part of their seconds: draw that minibatch apart from those of the steps. None: seconds alone.
        steps: How many there will be.
        lr: Their learning rate.
    """

    def __init__(self, gradient: Callable[[], Any] | None = None, steps: int = 1, lr: float = 1.0):
        self.gradient, self.steps, self.lr, self.metrics = gradient, steps, lr, dict[str, float]()

    def __enter__(self) -> "Measured":
        self.before = self.gradient() if self.gradient else None
        self.began = time.perf_counter()
        return self

    def __exit__(self, *error: Any) -> None:
        self.metrics = {"train-seconds": max(time.perf_counter() - self.began, 1e-9)}
        if self.gradient and error[0] is None:
            self.metrics |= fading(self.before, self.gradient(), self.steps, self.lr)


def fading(before: Any, after: Any, steps: int, lr: float) -> dict[str, float]:
    """-ln(<g, h>/||g||^2)/(t lr), of one minibatch's gradients before and after t steps."""
    square, along = dot(before, before), dot(before, after)
    if not (square > 0 and math.isfinite(square) and math.isfinite(along)):
        return {}
    kept = min(max(along / square, KEPT[0]), KEPT[1])
    return {"fading": -math.log(kept) / (steps * lr)}


def dot(one: Any, other: Any) -> float:
    """<one, other>, of arrays or of lists of them."""
    if not hasattr(one, "shape") and isinstance(one, Iterable):
        return sum(dot(*pair) for pair in zip(one, other, strict=True))
    return float((one * other).sum())
