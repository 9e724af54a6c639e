"""What a policy is: a rule from numbers to steps, and what it wants to know."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from amsfl.core import Plan, UserError
from amsfl.schedule.problem import Ints, Problem


class Signals(NamedTuple):
    """What a run can tell a policy beyond the problem; None where nobody knows.

    The readings' are weighted means over the last cohort.
    """

    round: int = 0  # counted from 0
    steps: int = 20  # the user's, for rules that start from a number
    lr: float | None = None
    left: float | None = None  # seconds until the run ends
    previous: int | None = None  # the most steps of the round before
    loss0: float | None = None  # at the first anchor
    loss: float | None = None  # at the last one
    slope: float | None = None  # gradient norm
    curvature: float | None = None  # secant smoothness, ||dg|| / ||delta||
    convexity: float | None = None  # curvature along the gradient
    interval: float | None = None  # seconds between two moves of a server that does not wait
    own_steps: Ints | None = None  # the user's for every client, where epochs make them unequal
    stale: Callable[[float], float] | None = None  # and what work counts there by its age in moves


class Policy(NamedTuple):
    """plan(problem, signals) -> Plan, and what it needs; a policy is also called like its plan function.

    Whoever writes one returns `as_plan(problem, steps, why)`.
    """

    name: str
    plan: Callable[[Problem, Signals], Plan]
    readings: bool = False  # plans by gain and drift, so clients take GDA readings
    losses: bool = False  # wants the loss at the anchor, which is free
    constant: bool = False  # looks at the problem's costs alone: planned once for a cohort
    steps: bool = True  # may look at the user's number of steps
    limited: bool = True  # keeps to a round's budget
    spends: bool = False  # spends a round's budget; without one it gets that of a round of equal steps
    together: Callable[[Sequence[Problem], Sequence[Signals]], list[Plan]] | None = None  # many trials' plans

    def __call__(self, problem: Problem, signals: Signals | None = None) -> Plan:
        return self.plan(problem, signals or Signals())


def require_numbers(policy: str, **numbers: float | None) -> list[float]:
    """The numbers, all of them known; otherwise which are missing and how to give them."""
    missing = [name for name, number in numbers.items() if number is None]
    if missing:
        give = " ".join(f"--set {name}=NUMBER" for name in missing)
        raise UserError(f"The policy {policy!r} needs {', '.join(missing)}; give {give}.")
    return [float(number) for number in numbers.values() if number is not None]


def whole_number(policy: str, name: str, number: float) -> int:
    """A setting that counts something, within bounds that plans can hold."""
    if not 1 <= number <= 10**6 or number != int(number):
        raise UserError(
            f"The policy {policy!r} takes a whole number from 1 to 1,000,000 for {name}, not {number:g}."
        )
    return int(number)
