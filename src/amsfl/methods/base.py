"""What a federated method is: a few pure functions over flat vectors, and what others must know of it.

They use operators only (`+ - * / @`, `.sum()`), so the same functions run on numpy arrays, under
jax's vmap and on torch tensors. "No state" is an empty vector, `x[:0]`, never None.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from amsfl.core import Attack, Combine, Guard, Total, Transmit, Upload

Vector = Any
Init = Callable[[Vector], tuple[Vector, Vector]]
Correct = Callable[[Vector, Vector, Vector, Vector, Vector], Vector]
Report = Callable[[Vector, Vector, Any, Any, Vector, Vector], tuple[Upload, Vector]]
Mix = Callable[[Vector, Vector], Vector]
Model = Callable[[Vector, Vector], Vector]
Stride = Callable[[Any, Any], Any]
Pace = Callable[[Any, Any, Any, Any], tuple[Any, Any]]
Aggregate = Callable[[Vector, Total, Vector, Vector, Vector], tuple[Vector, Vector]]


class Distillation(NamedTuple):
    """An objective other than the plain loss: learn from a teacher, too (its vector is the server state).

    loss = (1-weight) CE + weight * mask * T^2 KL(teacher || student); engines/losses.py has it whole.
    """

    weight: float
    temperature: float
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
    x: Vector, anchor: Vector, steps: Any, lr: Any, server: Vector, client: Vector
) -> tuple[Upload, Vector]:
    return upload(x - anchor), client


def average(weights: Vector, steps: Vector) -> Vector:
    """Weights within the cohort; steps say what a client did, never how much it counts."""
    return weights / weights.sum()


def add_delta(
    anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
) -> tuple[Vector, Vector]:
    return anchor + total.delta, server


def the_anchor(anchor: Vector, server: Vector) -> Vector:
    return anchor


def whole_state(server: Vector, anchor: Vector) -> Vector:
    return server


class Method(NamedTuple):
    """A method, what it costs, and what other rooms ask of it. All but the name has FedAvg's value.

    init(x)                                          -> server, client
    correct(grad, x, anchor, server, client)         -> grad             elementwise
    stride(loss, grad_sq)                            -> length of one local step; lr is the longest. None: lr
    pace(length, growth, moved, change)              -> length, growth   for steps that look back: from the
                                                        last one's, the squares of its way and of what the
                                                        gradient changed by over it (0 at the first step)
    report(x, anchor, steps, lr, server, client)     -> Upload, client
    mix(weights, steps)                              -> how much each upload counts in the total
    aggregate(anchor, total, weights, steps, server) -> anchor, server
    model(anchor, server)                            -> what is scored and kept: the anchor, for most

    `weights` are shares of all clients' data: over a full cohort they sum to 1, over a part to less.
    `total` is the uploads summed over the cohort by `mix`, so no engine ever has to hold all uploads; with
    `combine` it is what the rule makes of them.
    """

    name: str
    init: Init = no_state
    correct: Correct = plain_gradient
    stride: Stride | None = None
    pace: Pace | None = None
    report: Report = send_delta
    mix: Mix = average
    aggregate: Aggregate = add_delta
    model: Model = the_anchor
    transmit: Transmit | None = None  # what happens to an upload on its way
    combine: Combine | None = None  # what happens to the uploads of a cohort before they are summed
    attacks: tuple[Attack, ...] = ()  # what false clients of a simulation do
    guard: Guard | None = None  # differential privacy of whole clients: how the server sums
    objective: Distillation | None = None
    clip: float = 0.0  # differential privacy: the norm that every row's gradient is cut to; 0: none
    private: tuple[tuple[str, float], ...] = ()  # options under privacy: no raw loss, little noise
    title: str = ""  # as people write it; the name if empty
    note: str = ""  # what a reader of its numbers must know
    policy: Any = "fixed"  # who chooses its steps unless the user says: a name, or a schedule.Policy
    own_rate: bool = False  # sets its learning rate from readings; the user's is not asked for
    readings: bool = False  # takes GDA readings
    stale: str = "change"  # what older work counts as: its `change`, the `model` it came to, or `refused`
    round_end: str = "all"  # how its rounds end unless the user says
    everyone: bool = False  # counts uploads by shares of all data, so all clients must be under way
    closing: bool = False  # applies the reading's own gradient as one more step: it is not wasted
    vectors_down: int = 1  # model-sized vectors sent to each client, each round; 2: the server state, too
    vectors_up: int = 1
    extra_gradients: float = 0.0  # gradient-equivalents a round beyond the steps
    extra_per_step: float = 0.0  # gradient-equivalents a step beyond its own gradient
    aloft: Any = None  # the Method where clients do not wait for each other, where it is another one
    driven: Any = None  # the Method for clients with an optimizer of their own, where it is another one
    stepless: Any = None  # the Method without a step of the server's own, in whose place an optimizer can be
    optimizes: bool = False  # it is a server's optimizer itself: there is no place for another
    own_state: Model = whole_state  # of the server state and an anchor: without what an optimizer keeps

    def told(self, server: Vector, anchor: Vector) -> Vector:
        """What clients see of the server state: the method's own where it is sent to them, else nothing.

        Args:
            server: The server's state.
            anchor: The model.

        Returns:
            That state without an optimizer's, or none of it.
        """
        return self.own_state(server, anchor) if self.vectors_down > 1 else server[:0]

    @property
    def looks(self) -> bool:
        """Whether it needs losses or gradients as they are, without clipping and noise."""
        return self.stride is not None or self.own_rate or self.closing or self.objective is not None

    @property
    def stacks(self) -> bool:
        """Whether a cohort's uploads are looked at side by side, not just summed."""
        forged = any(each.forge for each in self.attacks)
        return self.combine is not None or self.guard is not None or forged

    @property
    def plain_gradients(self) -> bool:
        """Whether clients must step along gradients by this method's own rule: no optimizer of theirs can."""
        own_length = self.stride is not None or self.pace is not None
        return self.correct is not plain_gradient or self.objective is not None or own_length or self.closing

    @property
    def plain(self) -> bool:
        """Whether clients step along the plain gradient of the plain loss."""
        return self.correct is plain_gradient and self.objective is None
