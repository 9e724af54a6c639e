"""A run's privacy ledger: what every client has spent, and how many steps it has left."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import UserError
from amsfl.privacy.accounting import Exposure, epsilon, mark, noise_for, steps_within
from amsfl.privacy.budget_plan import Spread

Ints = np.ndarray[Any, np.dtype[np.int64]]
UNLIMITED = 2**62


class Ledger(NamedTuple):
    """Pure functions of the steps that clients have taken: the record of a run holds all that they need.

    A mechanism that protects whole clients has one entry for all of them, and rounds in place of steps.
    """

    exposures: tuple[Exposure, ...] = ()  # one a client; () without privacy
    budgets: tuple[float, ...] = ()  # epsilon; () where none is set
    limits: Ints = np.zeros(0, np.int64)  # steps in a whole run; nobody writes to it
    by_round: bool = False

    def units(self, steps: Sequence[int], rounds: int) -> Sequence[int]:
        """What is counted: every client's steps, those under way included; or rounds.

        Args:
            steps: Of every client so far.
            rounds: So far.

        Returns:
            One number an entry.
        """
        return [rounds] if self.by_round else steps

    def left(self, taken: Sequence[int]) -> Ints:
        """Steps that every client may still take.

        Args:
            taken: `units` so far.

        Returns:
            One number an entry.
        """
        return np.maximum(self.limits - np.asarray(taken, np.int64), 0)

    def exhausted(self, taken: Sequence[int]) -> bool:
        """Whether nobody may take another step.

        Args:
            taken: `units` so far.

        Returns:
            False where no budget is set.
        """
        return bool(self.budgets) and not self.left(taken).any()

    def bounds(self, taken: Sequence[int]) -> list[float]:
        """Every client's epsilon so far, or a little more: at the next mark, and never above its budget.

        Args:
            taken: `units` so far.

        Returns:
            One epsilon an entry.
        """
        bounds = self.spent([mark(int(steps)) for steps in taken])
        for place, (steps, budget) in enumerate(zip(taken, self.budgets, strict=False)):
            if steps <= self.limits[place]:
                bounds[place] = min(bounds[place], budget)
        return bounds

    def spent(self, taken: Sequence[int]) -> list[float]:
        """Every client's epsilon for the steps that it took.

        Args:
            taken: `units` so far.

        Returns:
            One epsilon an entry.
        """
        pairs = zip(self.exposures, taken, strict=False)
        return [epsilon(exposure, int(steps)) for exposure, steps in pairs]

    def claims(self, taken: Sequence[int], stopped_by_data: bool) -> list[float]:
        """The epsilon that a run may claim for every client.

        Where scores decided when it ended, the steps up to there are no bound: the end itself tells of rows.
        Then it is the budget that was set before the run, and none where there is no budget.

        Args:
            taken: `units` so far.
            stopped_by_data: Whether scores may have ended the run.

        Returns:
            One epsilon an entry; [] where none can be claimed.
        """
        if not stopped_by_data:
            return self.spent(taken)
        return [budget if steps else 0.0 for budget, steps in zip(self.budgets, taken, strict=False)]


NOTHING = Ledger()


def open_ledger(exposures: Sequence[Exposure], budgets: Sequence[float] | None) -> Ledger:
    """The ledger of a run whose noise is set: as many steps as each client's budget allows; None: no bound.

    Refused where nobody may take a step.
    """
    if budgets is None:
        return Ledger(tuple(exposures), (), np.full(len(exposures), UNLIMITED))
    each = list(zip(exposures, budgets, strict=True))
    limits = np.array([steps_within(exposure, budget) for exposure, budget in each], np.int64)
    if not limits.any():
        exposure, budget = min(each, key=lambda pair: pair[0].chance / pair[1])
        cost, noise = epsilon(exposure, 1), noise_for(exposure, budget, 1)
        raise UserError(
            f"No client may take a single step: one costs an epsilon of {cost:.3g} where a row is in a batch "
            f"with a chance of {exposure.chance:.3g} and the noise is {exposure.noise:g}, and {budget:g} is "
            f"allowed; raise --noise (from {noise:.2g} on one step fits), lower --batch, or raise --epsilon."
        )
    return Ledger(tuple(exposures), tuple(budgets), limits)


def spread_ledger(exposures: Sequence[Exposure], budgets: Sequence[float], spread: Spread) -> Ledger:
    """The ledger of a run whose noise was chosen for so many steps."""
    noised = (one._replace(noise=float(noise)) for one, noise in zip(exposures, spread.noise, strict=True))
    return Ledger(tuple(noised), tuple(budgets), spread.steps)
