"""What a round costs by a profile, for a method's work: seconds on either clock, joules, megabytes, money."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from amsfl.clock.profile import Profile
from amsfl.clock.sites import Floats
from amsfl.core import UserError, nearest

CLOCKS = ("sum", "makespan")
MEGABYTE = 1e6


class Work(NamedTuple):
    """What one round of a method asks of a client besides its steps."""

    bytes_down: float
    bytes_up: float
    extra_gradients: float | Floats = 0.0  # of everybody, or of each client
    extra_per_step: float = 0.0
    vector_bytes: float = 0.0  # of a vector more down, for clients that need one


class Account(NamedTuple):
    """What client i spends in a round of t steps: per_step[i] * t + start[i] + upload[i]."""

    per_step: Floats
    start: Floats  # the download, and what is computed besides the steps
    upload: Floats  # what only work that comes in has spent
    vector: Floats | float = 0.0  # what a vector more down takes
    gradient: Floats | float = 0.0  # what a gradient more takes

    @property
    def per_round(self) -> Floats:
        return self.start + self.upload

    def of(self, cohort: Any, steps: Any, came: bool = True) -> Floats:
        """Each of these clients' share.

        Args:
            cohort: Their numbers.
            steps: Of each.
            came: Whether the upload arrived; without it, nothing was sent up.

        Returns:
            One number a client.
        """
        began = self.per_step[cohort] * np.asarray(steps) + self.start[cohort]
        return np.asarray(began + self.upload[cohort] if came else began)


class Costs(NamedTuple):
    """Seconds of client i for t steps: step_seconds[i] * t + comm_seconds[i]."""

    step_seconds: Floats
    comm_seconds: Floats  # everything that does not depend on the steps
    accounts: Mapping[str, Account] = {}  # what else it spends, by name
    vector_seconds: Floats | float = 0.0  # of a vector more down


def costs(profile: Profile, job: Work) -> Costs:
    """What each client's steps and rounds take.

    Args:
        profile: How fast clients are.
        job: What the method computes and sends.

    Returns:
        Seconds a step and seconds a round, one of each a client; and what else is spent.
    """
    transfer = 8e-6 * (job.bytes_down / profile.down_mbps + job.bytes_up / profile.up_mbps)
    return Costs(
        profile.step_seconds * (1 + job.extra_per_step),
        profile.latency + transfer + profile.step_seconds * job.extra_gradients,
        accounts(profile.clients, profile.spends, job),
        8e-6 * job.vector_bytes / profile.down_mbps,
    )


def with_extras(cost: Costs, clients: Any, vectors: Any, gradients: Any) -> Costs:
    """The costs of a round in which some clients receive a vector more, or compute a gradient more.

    Args:
        cost: Of `costs`.
        clients: Places of those clients.
        vectors: How many more each receives.
        gradients: How many more each computes.

    Returns:
        Costs in which that is part of a round.
    """
    more_vectors, more_gradients = np.zeros(len(cost.comm_seconds)), np.zeros(len(cost.comm_seconds))
    more_vectors[clients], more_gradients[clients] = vectors, gradients
    extra = more_vectors * cost.vector_seconds + more_gradients * cost.step_seconds
    accounts = {
        name: each._replace(start=each.start + more_vectors * each.vector + more_gradients * each.gradient)
        for name, each in cost.accounts.items()
    }
    return cost._replace(comm_seconds=cost.comm_seconds + extra, accounts=accounts)


def client_seconds(cost: Costs, cohort: Any, steps: Any) -> Floats:
    """What each of a round's clients takes, in the cohort's order.

    Args:
        cost: Of `costs`.
        cohort: Places of this round's clients.
        steps: Theirs, in the same order.

    Returns:
        Seconds, one a client of the cohort.
    """
    return np.asarray(cost.step_seconds[cohort] * np.asarray(steps) + cost.comm_seconds[cohort])


def round_seconds(cost: Costs, cohort: Any, steps: Any) -> dict[str, float]:
    """One round by both models: clients one after another (sum), or side by side (makespan).

    Args:
        cost: Of `costs`.
        cohort: Places of this round's clients.
        steps: Theirs, in the same order.

    Returns:
        Seconds by clock: `sum`, `makespan`.
    """
    each = client_seconds(cost, cohort, steps)
    return {"sum": float(each.sum()), "makespan": float(each.max())}


def check_clock(name: str) -> str:
    """The name of a clock, or a sentence that lists them.

    Args:
        name: `sum` or `makespan`.

    Returns:
        The same name.
    """
    if name not in CLOCKS:
        raise UserError(f"Unknown clock {name!r}{nearest(name, CLOCKS)}.")
    return name


def accounts(clients: int, known: Mapping[str, Floats], job: Work) -> dict[str, Account]:
    """Megabytes always; joules and cost where it is known what they are.

    Args:
        clients: How many.
        known: Joules of a step and of a megabyte, and a megabyte's cost, by their columns' names.
        job: What the method computes and sends.

    Returns:
        Accounts by name.
    """
    none = np.zeros(clients)
    down, up = (np.full(clients, each / MEGABYTE) for each in (job.bytes_down, job.bytes_up))
    vector = np.full(clients, job.vector_bytes / MEGABYTE)
    by_name = {"megabytes": Account(none, down, up, vector)}
    if "joules_step" in known or "joules_mb" in known:
        step, each = known.get("joules_step", none), known.get("joules_mb", none)
        extra = step * job.extra_gradients
        own = step * (1 + job.extra_per_step)
        by_name["joules"] = Account(own, each * down + extra, each * up, each * vector, step)
    if "cost_mb" in known:
        by_name["cost"] = Account(none, *(known["cost_mb"] * each for each in (down, up, vector)))
    return by_name


def spent(by_name: Mapping[str, Account], used: tuple[Any, Any], lost: tuple[Any, Any]) -> dict[str, float]:
    """What a round came to, by name: of work that came in, and of work that came to nothing.

    Args:
        by_name: Of `accounts`.
        used: Clients and their steps.
        lost: The same of those whose work was not used; it has cost all but the upload.

    Returns:
        Totals by name.
    """
    wasted = {
        name: each.of(*lost, came=False).sum() if len(lost[0]) else 0.0 for name, each in by_name.items()
    }
    return {name: float(each.of(*used).sum() + wasted[name]) for name, each in by_name.items()}
