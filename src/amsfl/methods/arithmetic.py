"""What a method computes: a few pure functions over flat vectors.

They use operators only (`+ - * / @`, `.sum()`), so the same functions run on numpy arrays, under jax's vmap
and on torch tensors. "No state" is an empty vector, `x[:0]`, never None.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from amsfl.core import Total, Upload

Vector = Any
Number = Any  # a float, or an array of no axes
Init = Callable[[Vector], tuple[Vector, Vector]]
Correct = Callable[[Vector, Vector, Vector, Vector, Vector], Vector]
Report = Callable[[Vector, Vector, Number, Number, Vector, Vector], tuple[Upload, Vector]]
Mix = Callable[[Vector, Vector], Vector]
Model = Callable[[Vector, Vector], Vector]
Aggregate = Callable[[Vector, Total, Vector, Vector, Vector], tuple[Vector, Vector]]
Revise = Callable[[Vector, Vector, Number], tuple[Vector, Vector]]


class Distillation(NamedTuple):
    """An objective other than the plain loss: learn from a teacher, too (its vector is the server state).

    loss = (1-weight) CE + weight * mask * T^2 KL(teacher || student); engines/losses.py has it whole.
    """

    weight: Number
    temperature: Number
    rows: int  # local rows from which a client takes the teacher's class prototypes each round


def no_state(x: Vector) -> tuple[Vector, Vector]:
    return x[:0], x[:0]


def zero_state(x: Vector) -> tuple[Vector, Vector]:
    return 0 * x, 0 * x


def plain_gradient(grad: Vector, x: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
    return grad


def upload(delta: Vector, extra: Vector | None = None) -> Upload:
    return Upload(delta, delta[:0] if extra is None else extra, (delta * delta).sum())


def send_delta(
    x: Vector, anchor: Vector, steps: Number, lr: Number, server: Vector, client: Vector
) -> tuple[Upload, Vector]:
    return upload(x - anchor), client


def average(weights: Vector, steps: Vector) -> Vector:
    """Weights within the cohort; steps say what a client did, never how much it counts."""
    return weights / weights.sum()


def add_delta(
    anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
) -> tuple[Vector, Vector]:
    return anchor + total.delta, server


def anchor_itself(anchor: Vector, server: Vector) -> Vector:
    return anchor


def whole_state(server: Vector, anchor: Vector) -> Vector:
    return server


class Arithmetic(NamedTuple):
    """What a method computes. Every field has FedAvg's value.

    init(x)                                          -> server, client
    correct(grad, x, anchor, server, client)         -> grad             elementwise
    report(x, anchor, steps, lr, server, client)     -> Upload, client
    mix(weights, steps)                              -> how much each upload counts in the total
    aggregate(anchor, total, weights, steps, server) -> anchor, server
    model(anchor, server)                            -> the model that is scored and saved
    revise(anchor, server, verdict)                  -> anchor, server   after the judge's verdict
                                                        (planning/judge.py); None: the method has no judge

    `weights` are shares of all clients' data: over a full cohort they sum to 1, over a part to less.
    `total` is the uploads summed over the cohort by `mix`, so no engine has to hold all uploads; with a
    `combine` rule it is that rule's result.

    `numbers` and `build` are set by `tuned`.
    """

    init: Init = no_state
    correct: Correct = plain_gradient
    report: Report = send_delta
    mix: Mix = average
    aggregate: Aggregate = add_delta
    model: Model = anchor_itself
    objective: Distillation | None = None
    revise: Revise | None = None
    momentum: Number | None = None  # of clients' steps (client_momentum.py); None: they keep no velocity
    own_state: Model = whole_state  # of the server state: what is the method's, not a server optimizer's
    numbers: tuple[Number, ...] = ()
    build: "Callable[..., Arithmetic] | None" = None

    def with_numbers(self, numbers: Sequence[Number]) -> "Arithmetic":
        """The same arithmetic with other numbers in the places of `numbers`.

        Args:
            numbers: As many as there are.

        Returns:
            The arithmetic; itself where it has none.
        """
        return self if self.build is None else tuned(self.build, *numbers)


def tuned(build: Callable[..., Arithmetic], *numbers: Number) -> Arithmetic:
    """build(*numbers). Engines call `build` again with numbers that are arguments of a compiled program.

    So methods that differ in these numbers only are compiled once. `build` must not branch on them.

    Args:
        build: Makes the arithmetic of these numbers.
        *numbers: What it is made of.

    Returns:
        The arithmetic, which knows how it was made.
    """
    return build(*numbers)._replace(numbers=numbers, build=build)


def tuned_over(inner: Arithmetic, change: Callable[..., Arithmetic], *numbers: Number) -> Arithmetic:
    """change(inner, *numbers), tuned in these numbers and in those of `inner`."""

    def build(*both: Number) -> Arithmetic:
        return change(inner.with_numbers(both[len(numbers) :]), *both[: len(numbers)])

    return tuned(build, *numbers, *inner.numbers)
