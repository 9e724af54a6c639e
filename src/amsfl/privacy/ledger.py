"""A run's book of privacy: what every client has spent, and how many steps it has left."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import UserError
from amsfl.privacy.accounting import Site, epsilon, mark, noise_for, steps_within
from amsfl.privacy.budget_plan import Spread

Ints = np.ndarray[Any, np.dtype[np.int64]]
UNLIMITED = 2**62


class Ledger(NamedTuple):
    """Pure functions of the steps that clients have taken: what is on record says all there is to know."""

    sites: tuple[Site, ...]  # one a client; () without privacy
    budgets: tuple[float, ...]  # epsilon; () where none is set
    limits: Ints  # steps in a whole run
    whole: bool = False  # whole clients are kept private, all alike: one site, and rounds for steps

    def left(self, taken: Sequence[int]) -> Ints:
        """Steps that every client may still take.

        Args:
            taken: Steps of every client so far.

        Returns:
            One number a client.
        """
        return np.maximum(self.limits - np.asarray(taken, np.int64), 0)

    def bounds(self, taken: Sequence[int]) -> list[float]:
        """Every client's epsilon so far, or a little more: at the next mark, and never above its budget.

        Args:
            taken: Steps of every client so far.

        Returns:
            One epsilon a client.
        """
        return [self._bound(number, steps) for number, steps in enumerate(taken)] if self.sites else []

    def spent(self, taken: Sequence[int]) -> list[float]:
        """Every client's epsilon for the steps that it took.

        Args:
            taken: Steps of every client so far.

        Returns:
            One epsilon a client.
        """
        return [epsilon(site, int(steps)) for site, steps in zip(self.sites, taken, strict=False)]

    def _bound(self, number: int, steps: int) -> float:
        found = epsilon(self.sites[number], mark(int(steps)))
        within = bool(self.budgets) and steps <= self.limits[number]
        return min(found, self.budgets[number]) if within else found


NOTHING = Ledger((), (), np.zeros(0, np.int64))


def ledger(sites: Sequence[Site], budgets: Sequence[float] | None) -> Ledger:
    """The book of a run.

    Args:
        sites: What an accountant must know of each client.
        budgets: Each client's epsilon at most; None for no bound.

    Returns:
        The book; refused where nobody may take a step.
    """
    if budgets is None:
        return Ledger(tuple(sites), (), np.full(len(sites), UNLIMITED))
    each = list(zip(sites, budgets, strict=True))
    limits = np.array([steps_within(site, budget) for site, budget in each], np.int64)
    if not limits.any():
        site, budget = min(each, key=lambda pair: pair[0].chance / pair[1])
        cost, noise = epsilon(site, 1), noise_for(site, budget, 1)
        raise UserError(
            f"No client may take a single step: one costs an epsilon of {cost:.3g} where a row is in a batch "
            f"with a chance of {site.chance:.3g} and the noise is {site.noise:g}, and {budget:g} is allowed; "
            f"raise --noise (from {noise:.2g} on one step fits), lower --batch, or raise --epsilon."
        )
    return Ledger(tuple(sites), tuple(budgets), limits)


def lasting(sites: Sequence[Site], budgets: Sequence[float], spread: Spread) -> Ledger:
    """The book of a run whose noise is chosen for so many steps.

    Args:
        sites: What an accountant must know of each client.
        budgets: Each client's epsilon at most.
        spread: Steps and noise of each.

    Returns:
        The book.
    """
    noised = [site._replace(noise=float(noise)) for site, noise in zip(sites, spread.noise, strict=True)]
    return Ledger(tuple(noised), tuple(budgets), spread.steps)
