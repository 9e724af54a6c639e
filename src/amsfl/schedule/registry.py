"""Every policy by name. A factory's keyword parameters are the policy's settings."""

from collections.abc import Sequence

from amsfl.core import Kind, Plan
from amsfl.schedule.asynchronous import plan_alone
from amsfl.schedule.exact import exact as solve_exactly
from amsfl.schedule.fair import fair
from amsfl.schedule.greedy import solve as one_by_one
from amsfl.schedule.optimise import optimise, optimise_all
from amsfl.schedule.policy import Policy, Signals
from amsfl.schedule.problem import Problem
from amsfl.schedule.published_rules import adacomm, decaying, speed, wang
from amsfl.schedule.simple import fill, fixed, printed


def price() -> Policy:
    """The default: closed form in the price of a second, what is left filled greedily.

    Where clients do not wait for each other each is planned alone, by its own gain per second.

    Returns:
        The policy.
    """

    return Policy("price", _by_price, readings=True, steps=False, together=_together)


def _by_price(problem: Problem, signals: Signals) -> Plan:
    return optimise(problem) if signals.stale is None else plan_alone(problem, signals)


def _together(problems: Sequence[Problem], signals: Sequence[Signals]) -> list[Plan]:
    if all(each.stale is None for each in signals):
        return optimise_all(problems)
    return [_by_price(*each) for each in zip(problems, signals, strict=True)]


def greedy() -> Policy:
    """One step at a time by gain per second; the reference for `price`.

    Returns:
        The policy.
    """
    return Policy("greedy", lambda problem, _: optimise(problem, one_by_one), readings=True, steps=False)


def exact(limit_s: float = 60.0) -> Policy:
    """Integer programming (HiGHS), to certify the other two.

    Args:
        limit_s: Seconds after which it gives up.

    Returns:
        The policy.
    """
    return Policy("exact", lambda problem, _: solve_exactly(problem, limit_s), readings=True, steps=False)


POLICIES: Kind[Policy] = Kind(
    "policy",
    "policies",
    Policy,
    {
        "price": price,
        "greedy": greedy,
        "fair": fair,
        "exact": exact,
        "printed": printed,
        "fixed": fixed,
        "fill": fill,
        "wang": wang,
        "adacomm": adacomm,
        "decaying": decaying,
        "speed": speed,
    },
)
names = POLICIES.names


def policy(given: str | Policy, **settings: float) -> Policy:
    """A policy by name with its settings, e.g. policy("fixed", steps=20), or as it was passed.

    Args:
        given: A name, `module:attribute`, or a Policy.
        **settings: Its numbers.

    Returns:
        The policy.
    """
    return POLICIES.of(given, {key: _typed(value) for key, value in settings.items()})


def _typed(value: float) -> float:
    """20.0, as files and flags have it, is the whole number 20."""
    return int(value) if abs(value) < 2**53 and float(value).is_integer() else value
