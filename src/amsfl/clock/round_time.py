"""Virtual time: what a round costs by a profile, for a method's work, on either clock."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from amsfl.clock.profile import Profile
from amsfl.clock.sites import Floats
from amsfl.clock.spending import Account, accounts
from amsfl.core import UserError, nearest

CLOCKS = ("sum", "makespan")


class Work(NamedTuple):
    """What one round of a method asks of a client besides its steps."""

    bytes_down: float
    bytes_up: float
    extra_gradients: float = 0.0
    extra_per_step: float = 0.0


class Costs(NamedTuple):
    """Seconds of client i for t steps: step_seconds[i] * t + comm_seconds[i]."""

    step_seconds: Floats
    comm_seconds: Floats  # everything that does not depend on the steps
    accounts: Mapping[str, Account] = {}  # what else it spends, by name


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
    )


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
