"""Every policy by name. A factory's keyword parameters are the policy's settings."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from amsfl.core import Plan, UserError, nearest
from amsfl.schedule.exact import exact
from amsfl.schedule.greedy import solve as _greedy
from amsfl.schedule.optimise import Policy, optimise
from amsfl.schedule.problem import Problem
from amsfl.schedule.rivals import adacomm, decaying, speed, wang
from amsfl.schedule.simple import fill, fixed, printed


def price(problem: Problem) -> Plan:
    """The default: closed form in the price of a second, what is left filled greedily."""
    return optimise(problem)


def greedy(problem: Problem) -> Plan:
    """One step at a time by gain per second; the reference for `price`."""
    return optimise(problem, _greedy)


POLICIES: dict[str, Callable[..., Policy]] = {
    "price": lambda: price,
    "greedy": lambda: greedy,
    "exact": lambda limit_s=60.0: partial(exact, limit_s=limit_s),
    "printed": printed,
    "fixed": fixed,
    "fill": fill,
    "wang": wang,
    "adacomm": adacomm,
    "decaying": decaying,
    "speed": speed,
}


def policy(name: str, **settings: Any) -> Policy:
    """The policy of that name with its settings, e.g. policy("fixed", steps=20)."""
    if name not in POLICIES:
        raise UserError(f"Unknown policy {name!r}{nearest(name, POLICIES)}.")
    known = inspect.signature(POLICIES[name]).parameters
    for key in settings:
        if key not in known:
            raise UserError(f"Policy {name!r} has no setting {key!r}{nearest(key, known)}.")
    missing = [k for k, p in known.items() if p.default is p.empty and k not in settings]
    if missing:
        raise UserError(f"Policy {name!r} needs {', '.join(missing)}; give them as settings.")
    return POLICIES[name](**settings)
