"""Every policy by name. A factory's keyword parameters are the policy's settings."""

from collections.abc import Sequence

import numpy as np

from amsfl.core import Kind, Plan, UserError
from amsfl.schedule.exact import exact as solve_exactly
from amsfl.schedule.greedy import solve as one_by_one
from amsfl.schedule.lagrange import tighten
from amsfl.schedule.optimise import as_plan, optimise, optimise_all
from amsfl.schedule.policy import Policy, Signals
from amsfl.schedule.problem import Problem, caps, curve_worth, summed_limits, within
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


def plan_alone(problem: Problem, signals: Signals) -> Plan:
    """t maximises s(age) U(t) / (c t + b), client by client: gain per second, and old work counts less.

    Who is away for c t + b seconds misses (c t + b) / interval moves of the server: the age of its work.
    Each has an equal part of what further limits leave.
    """
    cost, room = summed_limits(problem)
    top = tighten(caps(problem), cost, room / len(problem.weights))
    steps = np.ones(len(problem.weights), np.int64)
    for i in range(len(steps)):
        t = np.arange(1, int(top[i]) + 1)
        client = (problem.weights[i], problem.gain[i], problem.drift[i])
        gained = np.cumsum(curve_worth(problem.curve, *client, t - 1))
        seconds = problem.step_seconds[i] * t + problem.comm_seconds[i]
        value = gained / seconds
        if signals.stale is not None and signals.interval:
            value = value * np.array([signals.stale(age) for age in seconds / signals.interval])
        steps[i] = t[np.argmax(value)]
    why = np.where(steps < top, "drift", np.where(top < problem.t_max, "budget", "cap"))
    return as_plan(problem, steps, tuple(why.tolist()))


def fair(least: float = 0.5) -> Policy:
    """The steps of `price`, but nobody has fewer than `least` times the most; less where a budget is tight.

    Slow clients and those whose steps are worth little get few steps by worth per second, and the model then
    fits their rows last. `least` = 0 is `price`, 1 gives everybody the same.
    """
    if not 0 <= least <= 1:
        raise UserError(f"The policy 'fair' takes a number from 0 to 1 for least, not {least:g}.")

    def plan(problem: Problem, signals: Signals) -> Plan:
        best = optimise(problem)
        for floor in range(int(np.ceil(least * np.max(best.steps))), 0, -1):
            raised = np.maximum(best.steps, np.minimum(floor, problem.t_max))
            if within(problem, raised):
                why = np.where(raised > best.steps, "fixed", best.why)
                return as_plan(problem, raised, tuple(why.tolist()))
        return best

    return Policy("fair", plan, readings=True, steps=False)


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
