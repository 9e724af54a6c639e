"""What a round costs by a profile, for a method's work: seconds on either clock, joules, megabytes, money."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from amsfl.clock.profile import Floats, Ints, Profile
from amsfl.core import UserError, nearest

CLOCKS = ("sum", "makespan")
MEGABYTE = 1e6


class Overhead(NamedTuple):
    """What one round of a method asks of a client besides its steps."""

    bytes_down: float
    bytes_up: float
    extra_gradients: float | Floats = 0.0  # of everybody, or of each client
    extra_per_step: float = 0.0
    fedavg_bytes: tuple[float, float] = (0.0, 0.0)  # down and up, of FedAvg in its place


class Account(NamedTuple):
    """What client i spends in a round of t steps: per_step[i] * t + start[i] + upload[i]."""

    per_step: Floats
    start: Floats  # the download, and what is computed besides the steps
    upload: Floats  # what only work that comes in has spent

    def of(self, cohort: Ints, steps: Ints, came: bool = True) -> Floats:
        """Each of these clients' share."""
        began = self.per_step[cohort] * np.asarray(steps) + self.start[cohort]
        return np.asarray(began + self.upload[cohort] if came else began)


class Costs(NamedTuple):
    """Seconds of client i for t steps: step_seconds[i] * t + comm_seconds[i]."""

    step_seconds: Floats
    comm_seconds: Floats  # everything that does not depend on the steps
    accounts: Mapping[str, Account] = {}  # what else it spends, by name
    fedavg_seconds: Floats | None = None  # comm_seconds of FedAvg in its place, where that is known


def costs(profile: Profile, job: Overhead) -> Costs:
    """What each client's steps and rounds take."""
    return Costs(
        profile.step_seconds * (1 + job.extra_per_step),
        _link_seconds(profile, job.bytes_down, job.bytes_up) + profile.step_seconds * job.extra_gradients,
        accounts(profile.clients, profile.spends, job),
        _link_seconds(profile, *job.fedavg_bytes),
    )


def _link_seconds(profile: Profile, down: float, up: float) -> Floats:
    return profile.latency + 8e-6 * (down / profile.down_mbps + up / profile.up_mbps)


def client_seconds(cost: Costs, cohort: Ints, steps: Ints) -> Floats:
    """What each of a round's clients takes, in the cohort's order."""
    return np.asarray(cost.step_seconds[cohort] * np.asarray(steps) + cost.comm_seconds[cohort])


def round_seconds(cost: Costs, cohort: Ints, steps: Ints) -> dict[str, float]:
    """One round by both models: clients one after another (sum), or side by side (makespan)."""
    each = client_seconds(cost, cohort, steps)
    return {"sum": float(each.sum()), "makespan": float(each.max())}


def check_clock(name: str) -> str:
    """The name of a clock, or a sentence that lists them."""
    if name not in CLOCKS:
        raise UserError(f"Unknown clock {name!r}{nearest(name, CLOCKS)}.")
    return name


def accounts(clients: int, known: Mapping[str, Floats], job: Overhead) -> dict[str, Account]:
    """Megabytes always; joules and cost where it is known what they are."""
    none = np.zeros(clients)
    down, up = (np.full(clients, each / MEGABYTE) for each in (job.bytes_down, job.bytes_up))
    by_name = {"megabytes": Account(none, down, up)}
    if "joules_step" in known or "joules_mb" in known:
        step, each = known.get("joules_step", none), known.get("joules_mb", none)
        extra = step * job.extra_gradients
        own = step * (1 + job.extra_per_step)
        by_name["joules"] = Account(own, each * down + extra, each * up)
    if "cost_mb" in known:
        by_name["cost"] = Account(none, *(known["cost_mb"] * each for each in (down, up)))
    return by_name


def spent(
    by_name: Mapping[str, Account], used: tuple[Ints, Ints], lost: tuple[Ints, Ints]
) -> dict[str, float]:
    """What a round spent, by name: of clients whose work arrived, and of those whose work was lost."""
    wasted = {
        name: each.of(*lost, came=False).sum() if len(lost[0]) else 0.0 for name, each in by_name.items()
    }
    return {name: float(each.of(*used).sum() + wasted[name]) for name, each in by_name.items()}


def over_limit(joules: float | None, megabytes: float | None, totals: Mapping[str, float]) -> bool:
    """Whether a run has reached one of its limits; None: any amount."""
    limits = {"joules": joules, "megabytes": megabytes}
    return any(limit is not None and totals.get(name, 0.0) >= limit for name, limit in limits.items())
