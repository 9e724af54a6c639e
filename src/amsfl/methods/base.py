"""What a federated method is: a few pure functions over flat vectors.

They use operators only (`+ - * / @`, `.sum()`), so the same functions run on numpy arrays, under
jax's vmap and on torch tensors. "No state" is an empty vector, `x[:0]`, never None.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from amsfl.core import Upload

Vector = Any
Init = Callable[[Vector], tuple[Vector, Vector]]
Correct = Callable[[Vector, Vector, Vector, Vector, Vector], Vector]
Report = Callable[[Vector, Vector, Any, Any, Vector, Vector], tuple[Upload, Vector]]
Mix = Callable[[Vector, Vector], Vector]
Model = Callable[[Vector, Vector], Vector]
Stride = Callable[[Any, Any, Any], Any]
Aggregate = Callable[[Vector, Upload, Vector, Vector, Vector], tuple[Vector, Vector]]


class Distillation(NamedTuple):
    """An objective other than the plain loss: learn from a teacher, too (its vector is the server state).

    loss = (1-weight) CE + weight * mask * T^2 KL(teacher || student); engines/losses.py has it whole.
    """

    weight: float
    temperature: float
    rows: int  # local rows from which a client takes the teacher's class prototypes each round


class Method(NamedTuple):
    """A method and what it costs. Every field but the name has FedAvg's value as its default.

    init(x)                                          -> server, client
    correct(grad, x, anchor, server, client)         -> grad             elementwise
    report(x, anchor, steps, lr, server, client)     -> Upload, client
    mix(weights, steps)                              -> how much each upload counts in the total
    aggregate(anchor, total, weights, steps, server) -> anchor, server
    model(anchor, server)                            -> what is scored and kept: the anchor, for most
    stride(lr, loss, grad_sq)                        -> length of one local step, at most lr; None: lr itself

    `weights` are shares of all clients' data: over a full cohort they sum to 1, over a part to less.
    `total` is the Upload summed over the cohort by `mix`, so no engine ever has to hold all uploads.
    """

    name: str
    init: Init
    correct: Correct
    report: Report
    mix: Mix
    aggregate: Aggregate
    model: Model
    stride: Stride | None = None
    vectors_down: int = 1  # model-sized vectors sent to each client, each round
    vectors_up: int = 1
    extra_gradients: float = 0.0  # gradient-equivalents a round beyond the steps
    extra_per_step: float = 0.0  # gradient-equivalents a step beyond its own gradient
    readings: bool = False  # takes GDA readings, and plans by them
    closing: bool = False  # applies the reading's own gradient as one more step: it is not wasted
    objective: Distillation | None = None
    note: str = ""  # what a reader of its numbers must know


def the_anchor(anchor: Vector, server: Vector) -> Vector:
    return anchor


def no_state(x: Vector) -> tuple[Vector, Vector]:
    return x[:0], x[:0]


def zero_state(x: Vector) -> tuple[Vector, Vector]:
    return 0 * x, 0 * x


def plain_gradient(grad: Vector, x: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
    return grad


def send_delta(
    x: Vector, anchor: Vector, steps: Any, lr: Any, server: Vector, client: Vector
) -> tuple[Upload, Vector]:
    return upload(x - anchor), client


def upload(delta: Vector, extra: Vector | None = None) -> Upload:
    return Upload(delta, delta[:0] if extra is None else extra, (delta * delta).sum())


def average(weights: Vector, steps: Vector) -> Vector:
    """Weights within the cohort; steps say what a client did, never how much it counts."""
    return weights / weights.sum()


def add_delta(
    anchor: Vector, total: Upload, weights: Vector, steps: Vector, server: Vector
) -> tuple[Vector, Vector]:
    return anchor + total.delta, server


UNCAPPED = 1e6  # an lr that caps no stride: what the first minibatch says is then the cap of its round


def clip(value: Any, low: Any, high: Any) -> Any:
    """max and min with operators alone: (a + b ± |a - b|) / 2."""
    raised = (value + low + abs(value - low)) / 2
    return (raised + high - abs(raised - high)) / 2
