"""What a federated method is: a frozen dataclass whose numbers are its fields, with a few pure functions.

They work on flat vectors, with operators only (`+ - * / @`, `.sum()`), so the same lines run on numpy arrays
and under jax's vmap. "No state" is an empty vector, `x[:0]`, never None.
"""

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple

from amsfl.core import Attack, ClientPrivacy, Combine, RowPrivacy, Total, Transmit, Upload
from amsfl.core.records import Array

Vector = Any
Number = Any  # a float, or an array of no axes
STATIC = {"static": True}  # metadata of a field on which a method branches: other values, other programs


class Facts(NamedTuple):
    """What other parts of the package ask about a method, and what the clock charges for it."""

    name: str
    title: str = ""  # as people write it; the name if empty
    note: str = ""  # what a reader of its results must know
    policy: Any = "fixed"  # who plans its steps unless the user says: a name, or a Policy
    lr: float = 0.05  # the clients' rate unless the user says
    cools: bool = False  # its rate falls over the run
    readings: bool = False  # takes GDA readings
    stale: str = "change"  # what work on an older model counts as: its `change`, its `model`, or `refused`
    round_end: str = "all"  # how its rounds end unless the user says
    all_clients: bool = False  # counts uploads by shares of all data, so all clients must be at work
    server_optimizer: bool = False  # it is a server optimizer over FedAvg: no other can be put over it
    private_options: tuple[tuple[str, float], ...] = ()  # its options' defaults under privacy
    vectors_down: int = 1  # model-sized vectors sent to each client, each round; 2: the server state, too
    vectors_up: int = 1
    extra_gradients: float = 0.0  # gradient-equivalents a round beyond the steps
    extra_per_step: float = 0.0  # gradient-equivalents a step beyond its own gradient
    extra_rows: int = 0  # of a forward pass a round: a third of a gradient for every minibatch of them


@dataclass(frozen=True)
class Method:
    """FedAvg's functions; a method is a subclass that replaces some of them.

    `weights` are shares of all clients' data: over a full cohort they sum to 1, over a part to less.
    `total` is the uploads summed over the cohort by `mix`, so no engine has to hold all uploads; with a rule
    over uploads it is that rule's result.
    """

    facts: ClassVar[Facts] = Facts("")
    judges: ClassVar[bool] = False  # whether its server goes back to an older model (planning/learning.py)
    objective: ClassVar[Any] = None  # of clients, where it is not the plain loss
    client_optimizer: ClassVar[Any] = None  # of clients' steps (engines/optimizers.py); None: plain SGD

    def init(self, x: Vector) -> tuple[Vector, Vector]:
        """The server's state and a client's."""
        return x[:0], x[:0]

    def correct(self, grad: Vector, x: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
        """What a client steps along; elementwise."""
        return grad

    def report(
        self, x: Vector, anchor: Vector, steps: Number, lr: Number, server: Vector, client: Vector
    ) -> tuple[Upload, Vector]:
        """What a client sends after its steps, and its new state."""
        return upload(x - anchor), client

    def mix(self, weights: Vector, steps: Vector) -> Vector:
        """How much each upload counts in the total; steps say what a client did, not how much it counts."""
        return weights / weights.sum()

    def aggregate(
        self, anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        """The next anchor and the server's new state."""
        return anchor + total.delta, server

    def model(self, anchor: Vector, server: Vector) -> Vector:
        """The model that is scored and saved."""
        return anchor

    def revise(self, anchor: Vector, server: Vector, verdict: Number) -> tuple[Vector, Vector]:
        """Anchor and server state after the judge's verdict, where the method `judges`."""
        return anchor, server

    def own_state(self, server: Vector, anchor: Vector) -> Vector:
        """Of the server state: what is the method's, not a server optimizer's."""
        return server

    def as_fedavg(self, name: str) -> bool:
        """Whether one of these functions is FedAvg's."""
        return getattr(type(self), name) is getattr(Method, name)

    @property
    def name(self) -> str:
        return self.facts.name

    @property
    def title(self) -> str:
        """As people write it."""
        return self.facts.title or self.facts.name

    @property
    def needs_raw_values(self) -> bool:
        """Whether it needs losses or gradients without clipping and noise."""
        return self.judges or self.objective is not None


class Federation(NamedTuple):
    """A method, and what stands between its clients and its server."""

    method: Method
    transmit: Transmit | None = None  # what happens to an upload on its way
    rule: Combine | None = None  # what happens to the uploads of a cohort before they are summed
    attacks: tuple[Attack, ...] = ()  # what false clients of a simulation do
    private_rows: RowPrivacy | None = None  # how clients step where rows are private
    private_clients: ClientPrivacy | None = None  # how the server sums where whole clients are private

    @property
    def compares_uploads(self) -> bool:
        """Whether a cohort's uploads are compared with each other, not just summed."""
        forged = any(map(attrgetter("forge"), self.attacks))
        return self.rule is not None or self.private_clients is not None or forged


def upload(delta: Vector, extra: Vector | None = None) -> Upload:
    """An upload of a change, and of a second vector where there is one."""
    return Upload(delta, delta[:0] if extra is None else extra, (delta * delta).sum())


def average(weights: Vector) -> Vector:
    """Weights within the cohort."""
    return weights / weights.sum()


def join(*parts: Vector) -> Vector:
    """One vector from several: a server state of more than one part. Sent to clients it must be of one."""
    return parts[0].__array_namespace__().concat(parts)


def where(condition: Array, yes: Array, no: Array) -> Array:
    """`yes` where the condition holds, else `no`; unlike a product with 0 it lets no NaN through."""
    return yes.__array_namespace__().where(condition, yes, no)


def least(a: Array, b: Array) -> Array:
    """The smaller of two numbers with operators alone, to the bit; not finite where either is not."""
    return a * (a < b) + b * (a >= b)


def clip(value: Array, low: Array, high: Array) -> Array:
    """`value`, but at least `low` and at most `high`."""
    return least(value * (value > low) + low * (value <= low), high)
