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
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType

from amsfl import sampling
from amsfl.core import UserError
from amsfl.privacy import RECORD_LEVEL, Terms

KEPT = (0.02, 0.999)  # what is left of a gradient along itself
LEFT_OUT = 10  # batches of a round whose loss may be none
LONGEST_TEXT = 300
FlatVector = np.ndarray[Any, np.dtype[np.float32]]
FIELDS: dict[str, Any] = {  # of an order, and what they are where it does not say
    "local-steps": 0,
    "lr": 0.0,
    "server-round": 1,
    "batch-size": 32,
    "seed": 0,
    "held-back": 0.0,
    "repeat": 0,  # of the same order, where nodes do not wait for each other
    "proximal-mu": 0.0,
    "run": "",
    "privacy": "",
    "clip": 0.0,
    "noise": 0.0,
    "epsilon": 0.0,
    "delta": 0.0,
    "privacy-steps": 0,  # that the run will ask of a client
    "privacy-begun": False,  # whether the server has taken some of them
}
SAID = ("train-seconds", "local-steps", "fading", "held-loss", "output-spread", "epsilon")  # to us
SPENT = "privacy is spent"  # how the refusal of a site begins that may not take a further step
WORDS = {float: "a finite number", int: "a whole number", str: "a short text", bool: "true or false"}


class NoMoreData(Exception):
    """The client's rows are at their end for this round."""


class LocalTask:
    """What is asked of a client this round, and what came of it.

    `steps`, `lr`, `round` (from 0), `batch` and `seed` are the server's, `node` is Flower's node-config.
    """

    def __init__(self, config: ConfigRecord, context: Context, kind: str = MessageType.TRAIN):
        given = FIELDS | {key: checked(key, config[key]) for key in FIELDS if key in config}
        if kind == MessageType.TRAIN and not (given["local-steps"] and given["lr"]):
            raise UserError("The server's config has no local-steps or no lr: train with amsfl.flower.AMSFL.")
        self.steps, self.lr, self.mu = given["local-steps"], given["lr"], given["proximal-mu"]
        self.round, self.repeat = given["server-round"] - 1, given["repeat"]
        self.seed, self.run, self.batch = given["seed"], given["run"], given["batch-size"]
        self.held_share, self.private_steps = given["held-back"], given["privacy-steps"]
        self.terms, self.begun = _terms(given), given["privacy-begun"]
        self.correction = _vector(config.get("correction"))
        self.node: Mapping[str, Any] = dict(context.node_config)
        self.client = int(self.node.get("partition-id", context.node_id % 2**31))
        (self.slowdown, self.least), self.seconds = pace_of(context), math.inf
        self.timed: list[float] = []
        self.done = self.skipped = 0
        self._counts = True

    def step(self, y: Array, anchor: Array, grad: Array) -> Array:
        """y - lr (g + mu (y - a) + correction)."""
        way = grad + self.mu * (y - anchor) if self.mu else grad
        way = way if self.correction is None else way + self.correction
        return np.asarray(y - np.float32(self.lr) * way, np.float32)

    def __iter__(self) -> Iterator[int]:
        while self.done < self.steps and sum(self.timed) + float(np.mean(self.timed or 0)) <= self.seconds:
            self._counts, started = True, time.perf_counter()
            yield self.done
            self._wait(time.perf_counter() - started)
            self.timed.append(time.perf_counter() - started)
            self.done += self._counts

    def leave_out(self, loss: float) -> None:
        """This turn was no step: its loss is none. A batch or two may have that; a model whose losses all
        have it is lost."""
        self._counts = False
        self.skipped += 1
        if self.skipped > LEFT_OUT:
            how = "lower the learning rate, clip the gradients, or look for rows that are not finite"
            raise UserError(f"The loss was {loss} in {self.skipped} batches of one round; {how}.")

    def took(self, steps: int, seconds: float) -> None:
        """Steps that were not taken in this task's own loop, and how long they took together."""
        self.timed = [self._wait(seconds / steps) for _ in range(steps)]
        self.done = steps

    def _wait(self, took: float) -> float:
        """A step's seconds, after it was made as slow as it is to be."""
        slow = self.slowdown * max(took, self.least)
        time.sleep(max(slow - took, 0.0))
        return max(slow, took)

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
    records, configs = message.content.array_records, message.content.config_records
    if len(records) != 1 or len(configs) != 1:
        raise UserError("An order has one ArrayRecord and one ConfigRecord.")
    arrays, config = next(iter(records.values())), next(iter(configs.values()))
    task = LocalTask(config, context, message.metadata.message_type)
    if task.correction is not None and task.correction.size != flat(arrays).size:
        raise UserError(f"The correction has {task.correction.size} numbers, and the model has others.")
    return arrays, task


def checked(key: str, value: Any) -> Any:
    """A field of the server's, of its kind to the letter: a 5 in place of "5" would be taken for something
    else."""
    kind = type(FIELDS[key])
    if kind is float and type(value) is not bool and isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    if type(value) is kind and kind is not float and (kind is not str or len(value) <= LONGEST_TEXT):
        return value
    raise UserError(f"The server's {key!r} should be {WORDS[kind]}, and is {str(value)[:60]!r}.")


def _terms(given: Mapping[str, Any]) -> Terms | None:
    if not given["privacy"]:
        return None
    if given["privacy"] != RECORD_LEVEL.name:
        raise UserError(f"The privacy mechanism {given['privacy']!r} has no part at clients.")
    return Terms(given["privacy"], given["clip"], given["noise"], given["epsilon"], given["delta"])


def _vector(data: Any) -> Array | None:
    if data is None:
        return None
    if not isinstance(data, bytes) or len(data) % 4:
        raise UserError("The server's 'correction' should be the bytes of float32 numbers.")
    return np.frombuffer(data, "<f4")


def pace_of(context: Context) -> tuple[float, float]:
    """A handicap, to make equal machines unequal: every step lasts `slowdown` times as long as it took, and
    at least that many times `step-seconds`.

    Both are of the node-config, or of the run-config, where `slowdowns` has one for each partition ("1,2,4").
    """
    node, run = context.node_config, context.run_config
    each = [float(part) for part in str(run.get("slowdowns", "")).split(",") if part] or [1.0]
    slowdown: Any = node.get("slowdown", each[int(node.get("partition-id", 0)) % len(each)])
    least: Any = node.get("step-seconds", run.get("step-seconds", 0.0))
    return float(slowdown), float(least)


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


def flat(arrays: ArrayRecord) -> FlatVector:
    """The float arrays, one after another."""
    parts = [each.numpy().ravel() for each in arrays.values() if each.numpy().dtype.kind == "f"]
    return np.concatenate([np.zeros(0), *parts]).astype(np.float32)


def unflat(vector: FlatVector, like: ArrayRecord) -> ArrayRecord:
    """The same form as `like`, whose whole numbers stay."""
    parts, place = {}, 0
    for key, each in like.items():
        part = each.numpy()
        if part.dtype.kind == "f":
            each = Array(np.asarray(vector[place : place + part.size].reshape(part.shape), part.dtype))
            place += part.size
        parts[key] = each
    return ArrayRecord(parts)
