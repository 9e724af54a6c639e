"""What clients spend besides seconds: joules, megabytes, money: for steps, downloads, uploads."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from amsfl.clock.sites import Floats

if TYPE_CHECKING:
    from amsfl.clock.round_time import Work

MEGABYTE = 1e6


class Account(NamedTuple):
    """What client i spends in a round of t steps: per_step[i] * t + start[i] + upload[i]."""

    per_step: Floats
    start: Floats  # the download, and what is computed besides the steps
    upload: Floats  # what only work that comes in has spent

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


def accounts(clients: int, known: Mapping[str, Floats], job: "Work") -> dict[str, Account]:
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
    found = {"megabytes": Account(none, down, up)}
    if "joules_step" in known or "joules_mb" in known:
        step, each = known.get("joules_step", none), known.get("joules_mb", none)
        extra = step * job.extra_gradients
        found["joules"] = Account(step * (1 + job.extra_per_step), each * down + extra, each * up)
    if "cost_mb" in known:
        found["cost"] = Account(none, known["cost_mb"] * down, known["cost_mb"] * up)
    return found


def spent(told: Mapping[str, Account], came: tuple[Any, Any], lost: tuple[Any, Any]) -> dict[str, float]:
    """What a round came to, by name: of work that came in, and of work that came to nothing.

    Args:
        told: Of `accounts`.
        came: Clients and their steps.
        lost: The same of those whose work was not used; it has cost all but the upload.

    Returns:
        Totals by name.
    """
    wasted = {name: each.of(*lost, came=False).sum() if len(lost[0]) else 0.0 for name, each in told.items()}
    return {name: float(each.of(*came).sum() + wasted[name]) for name, each in told.items()}
