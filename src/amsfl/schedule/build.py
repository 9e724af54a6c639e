"""Build a Problem from what a person or a round provides; every mistake is one sentence."""

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from amsfl.core import UserError, nearest
from amsfl.schedule.problem import TOLERANCE, Curve, Floats, Ints, Kind, Problem, Resource

T_MAX = 1000
MOST_STEPS = 10**9  # of one client in one round: sums over any number of clients stay whole numbers
DRIFT_SHARE = 0.05  # without readings a step is worth 5% of the first step less than the one before it


def problem(
    weights: ArrayLike,
    step_seconds: ArrayLike,
    comm_seconds: ArrayLike = 0.0,
    gain: ArrayLike = 1.0,
    drift: ArrayLike | None = None,
    *,
    curve: Curve = "linear",
    t_max: ArrayLike = T_MAX,
    kind: Kind = "sum",
    budget: float | None = None,
    resources: Sequence[Resource] = (),
    clients: Sequence[str] | None = None,
) -> Problem:
    """A checked Problem. Every column is one number per client, or one number for all.

    Without drift (no readings) it is 5% of the mean gain for everyone: linear worth reaches zero after 20
    steps, so that a plan makes sense even when no budget is given.

    Args:
        weights: Shares of the data, on any scale.
        step_seconds: Of one local step.
        comm_seconds: Of a round's communication.
        gain: Worth of a first step.
        drift: How fast worth falls from step to step.
        curve: `linear` or `geometric` fall.
        t_max: Most steps.
        kind: `sum`, one client after another, or `makespan`.
        budget: Seconds of a round; without one, the most gain per second.
        resources: Further limits.
        clients: Names.

    Returns:
        The problem, for any policy.
    """
    size = max((np.size(x) for x in (weights, step_seconds, comm_seconds, gain)), default=0)
    if size == 0:
        raise UserError("There are no clients to plan for; give at least one.")
    names = tuple(str(c) for c in clients) if clients is not None else tuple(str(i) for i in range(size))
    if len(names) != size:
        raise UserError(f"There are {len(names)} client names for {size} clients; give one name per client.")
    for word, base, option in ((curve, get_args(Curve), "curve"), (kind, get_args(Kind), "kind")):
        if word not in base:
            raise UserError(f"Unknown {option} {word!r}{nearest(str(word), base)}.")
    a = column("gain", gain, names)
    d = column("drift", DRIFT_SHARE * float(a.mean()) if drift is None else drift, names)
    made = Problem(
        weights=column("weight", weights, names),
        step_seconds=column("step_seconds", step_seconds, names, positive=True),
        comm_seconds=column("comm_seconds", comm_seconds, names),
        gain=a,
        drift=d,
        t_max=_whole_steps(t_max, names),
        curve=curve,
        kind=kind,
        budget=None if budget is None else float(budget),
        resources=tuple(_resource(r, names) for r in resources),
        clients=names,
    )
    _feasible(made)
    return made


def with_worth(base: Problem, gain: ArrayLike, drift: ArrayLike) -> Problem:
    """The same problem with other gains and drifts, checked as `problem` checks them.

    Args:
        base: Of `problem`.
        gain: Worth of a first step.
        drift: How fast worth falls from step to step.

    Returns:
        The problem, for any policy.
    """
    names = base.clients
    return replace(base, gain=column("gain", gain, names), drift=column("drift", drift, names))


def column(name: str, values: ArrayLike, clients: Sequence[str], *, positive: bool = False) -> Floats:
    """One finite number of at least zero per client, or a sentence naming the client and the column."""
    array = np.asarray(values, np.float64)
    if array.ndim == 0:
        array = np.full(len(clients), array)
    if array.shape != (len(clients),):
        raise UserError(f"{name} has {array.size} entries for {len(clients)} clients; give one per client.")
    bad = ~np.isfinite(array) | (array < 0) | (positive & (array == 0))
    if bad.any():
        i = int(np.argmax(bad))
        need = "a finite number above 0" if positive else "a finite number of at least 0"
        raise UserError(
            f"Client {clients[i]} has {name} {array[i]:g}, but it must be {need}; "
            "correct it or leave the client out."
        )
    return array


def _whole_steps(t_max: ArrayLike, clients: Sequence[str]) -> Ints:
    too_many = UserError(f"t_max is more than {MOST_STEPS:,} steps; give fewer.")
    if isinstance(t_max, int | float) and t_max > MOST_STEPS:  # whole numbers can be larger than floats
        raise too_many
    limit = np.floor(column("t_max", t_max, clients, positive=True))
    if (limit < 1).any():
        raise UserError("t_max is below 1, but every client takes at least one step; give 1 or more.")
    if (limit > MOST_STEPS).any():
        raise too_many
    return limit.astype(np.int64)


def _resource(r: Resource, clients: Sequence[str]) -> Resource:
    if not (np.isfinite(r.limit) and r.limit >= 0):
        raise UserError(f"The limit on {r.name} is {r.limit:g}; give a finite number of at least 0.")
    per_step = column(f"{r.name} a step", r.per_step, clients)
    return Resource(r.name, per_step, column(f"{r.name} a round", r.per_round, clients), float(r.limit))


def _feasible(p: Problem) -> None:
    """One step per client must fit; otherwise say by how much it does not and whom to leave out."""
    once = p.step_seconds + p.comm_seconds
    if p.budget is not None:
        if np.isnan(p.budget):
            raise UserError("The budget is nan; give seconds, or leave --budget out.")
        if p.kind == "sum":
            _room(p, f"Budget {p.budget:.4g} s", once, p.budget, "s", "raise --budget")
        elif once.max() > p.budget * (1 + TOLERANCE):
            late = np.flatnonzero(once > p.budget * (1 + TOLERANCE))
            _short(p, f"Budget {p.budget:.4g} s", float(once.max()), "s", "raise --budget", late)
    for r in p.resources:
        _room(p, f"Limit {r.limit:.4g} {r.name}", r.per_step + r.per_round, r.limit, r.name, "raise it")


def _room(p: Problem, what: str, once: Floats, limit: float, unit: str, remedy: str) -> None:
    total = float(once.sum())
    if total <= limit * (1 + TOLERANCE):
        return
    # The dearest first: the fewest clients that make room for the rest.
    order = np.argsort(-once, kind="stable")
    rest = total - np.cumsum(once[order])
    drop = order[: int(np.argmax(rest <= limit * (1 + TOLERANCE))) + 1]
    _short(p, what, total, unit, remedy, np.sort(drop))


def _short(p: Problem, what: str, need: float, unit: str, remedy: str, drop: Ints) -> None:
    head = f"{what} is below one step per client ({need:.4g} {unit})"
    if drop.size >= len(p.clients):
        raise UserError(f"{head}, and no client alone fits; {remedy}.")
    shown = ", ".join(p.clients[i] for i in drop[:10])
    more = f" and {drop.size - 10} more" if drop.size > 10 else ""
    raise UserError(f"{head}; {remedy} or drop client{'s' if drop.size > 1 else ''} {shown}{more}.")
