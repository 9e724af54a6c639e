"""What a federated method is: its arithmetic, its cost, and facts about it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from amsfl.core import Attack, ClientPrivacy, Combine, RowPrivacy, Transmit
from amsfl.methods.arithmetic import Arithmetic, Number, plain_gradient


class Cost(NamedTuple):
    """What a method sends and computes beyond one model each way and one gradient a step."""

    vectors_down: int = 1  # model-sized vectors sent to each client, each round; 2: the server state, too
    vectors_up: int = 1
    extra_gradients: float = 0.0  # gradient-equivalents a round beyond the steps
    extra_per_step: float = 0.0  # gradient-equivalents a step beyond its own gradient
    extra_rows: int = 0  # of a forward pass a round: a third of a gradient for every minibatch of them


class Facts(NamedTuple):
    """What other parts of the package ask about a method."""

    title: str = ""  # as people write it; the name if empty
    note: str = ""  # what a reader of its results must know
    policy: Any = "fixed"  # who plans its steps unless the user says: a name, or a schedule.Policy
    own_rate: bool = False  # clients find its learning rate; the user's is not used
    cooling: float = 0.0  # the last part of a run over which the learning rate falls to almost nothing
    loosest: float = 1.0  # times its longest step that steps may be where uploads disagree (drift/rate.py)
    readings: bool = False  # takes GDA readings
    stale: str = "change"  # what work on an older model counts as: its `change`, its `model`, or `refused`
    round_end: str = "all"  # how its rounds end unless the user says
    all_clients: bool = False  # counts uploads by shares of all data, so all clients must be at work
    server_optimizer: bool = False  # it is a server optimizer over FedAvg: no other can be put over it
    private_options: tuple[tuple[str, float], ...] = ()  # its options' defaults under privacy
    adapted_options: tuple[tuple[str, float], ...] = ()  # that `adapt` set; clients are sent them


class Variant(NamedTuple):
    """How a run differs from the usual one, as far as a method may have to differ with it."""

    stale: bool = False  # uploads may be of older models
    part: bool = False  # some clients are not in every round, or count by more than their shares
    client_optimizer: bool = False  # clients move by an optimizer of their own
    server_optimizer: bool = False  # a server optimizer takes the server's step


class Method(NamedTuple):
    """A federated method: what it computes, what that costs, and what others must know of it.

    `adapt` gives the method for a run that is not the usual one, where that is another method.
    """

    name: str
    arithmetic: Arithmetic = Arithmetic()
    cost: Cost = Cost()
    facts: Facts = Facts()
    adapt: "Callable[[Variant], Method] | None" = None
    transmit: Transmit | None = None  # what happens to an upload on its way
    combine: Combine | None = None  # what happens to the uploads of a cohort before they are summed
    attacks: tuple[Attack, ...] = ()  # what false clients of a simulation do
    private_rows: RowPrivacy | None = None  # how clients step where rows are private
    private_clients: ClientPrivacy | None = None  # how the server sums where whole clients are private

    @property
    def title(self) -> str:
        """As people write it."""
        return self.facts.title or self.name

    def adapted(self, variant: Variant) -> "Method":
        """The method for such a run, with what was put around it.

        Args:
            variant: How the run differs from the usual one.

        Returns:
            The method.
        """
        if self.adapt is None:
            return self
        other = self.adapt(variant)
        return self._replace(
            arithmetic=other.arithmetic, cost=other.cost, facts=other.facts, adapt=other.adapt
        )

    def changed(self, change: "Callable[[Method], Method]") -> "Method":
        """change(method), for every variant of it as well.

        Args:
            change: Of one method.

        Returns:
            The changed method.
        """
        adapt = self.adapt
        if adapt is None:
            return change(self)
        return change(self)._replace(adapt=lambda variant: adapt(variant).changed(change))

    def with_numbers(self, numbers: Sequence[Number]) -> "Method":
        """The same method with other numbers in its arithmetic.

        Args:
            numbers: As many as `arithmetic.numbers`.

        Returns:
            The method.
        """
        return self._replace(arithmetic=self.arithmetic.with_numbers(numbers))

    @property
    def judges(self) -> bool:
        """Whether its server goes back to an older model when clients' held-back rows say so."""
        return self.arithmetic.revise is not None

    @property
    def needs_raw_values(self) -> bool:
        """Whether it needs losses or gradients without clipping and noise."""
        own = self.arithmetic
        return own.stride is not None or self.facts.own_rate or own.closing or own.objective is not None

    @property
    def needs_own_steps(self) -> bool:
        """Whether clients must step by this method's own rule, so that no optimizer of theirs can."""
        own_length = self.arithmetic.stride is not None or self.arithmetic.pace is not None
        return not self.plain_gradient_steps or own_length or self.arithmetic.closing

    @property
    def plain_gradient_steps(self) -> bool:
        """Whether clients step along the plain gradient of the plain loss."""
        return self.arithmetic.correct is plain_gradient and self.arithmetic.objective is None
