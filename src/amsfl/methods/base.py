"""What a federated method is: its arithmetic, its cost, and facts about it."""

from collections.abc import Sequence
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
    lr: float = 0.05  # the clients' rate unless the user says
    cools: bool = False  # its rate falls over the run
    readings: bool = False  # takes GDA readings
    stale: str = "change"  # what work on an older model counts as: its `change`, its `model`, or `refused`
    round_end: str = "all"  # how its rounds end unless the user says
    all_clients: bool = False  # counts uploads by shares of all data, so all clients must be at work
    server_optimizer: bool = False  # it is a server optimizer over FedAvg: no other can be put over it
    private_options: tuple[tuple[str, float], ...] = ()  # its options' defaults under privacy


class Method(NamedTuple):
    """A federated method: what it computes, what that costs, and what others must know of it."""

    name: str
    arithmetic: Arithmetic = Arithmetic()
    cost: Cost = Cost()
    facts: Facts = Facts()
    transmit: Transmit | None = None  # what happens to an upload on its way
    combine: Combine | None = None  # what happens to the uploads of a cohort before they are summed
    attacks: tuple[Attack, ...] = ()  # what false clients of a simulation do
    private_rows: RowPrivacy | None = None  # how clients step where rows are private
    private_clients: ClientPrivacy | None = None  # how the server sums where whole clients are private

    @property
    def title(self) -> str:
        """As people write it."""
        return self.facts.title or self.name

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
        return self.judges or self.arithmetic.objective is not None

    @property
    def needs_own_steps(self) -> bool:
        """Whether clients must step by this method's own rule, so that no optimizer of theirs can."""
        return not self.plain_gradient_steps

    @property
    def plain_gradient_steps(self) -> bool:
        """Whether clients step along the plain gradient of the plain loss."""
        return self.arithmetic.correct is plain_gradient and self.arithmetic.objective is None
