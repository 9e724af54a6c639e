"""Rows kept private: every row's gradient cut at the client, noise on their sum.

    g = (sum_{i in batch} grad_i min(1, clip/||grad_i||) + noise clip z) / b,   z standard normal,  b = q rows

Every row is in a batch with chance q = batch/rows, whoever else is (Poisson sampling).
Abadi et al. 2016, arXiv 1607.00133.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from amsfl import sampling
from amsfl.clock import RoundEnd
from amsfl.core import RowPrivacy, UserError, namespace
from amsfl.methods import Method
from amsfl.planning import Policy
from amsfl.privacy.accounting import Account, poisson_gaussian
from amsfl.privacy.budget_plan import Spread, Worth, spread_by_worth, spread_evenly
from amsfl.privacy.ledger import Ledger, open_ledger, spread_ledger
from amsfl.privacy.mechanism import (
    USUAL_NOISE,
    Clients,
    Mechanism,
    PrivacySettings,
    check_settings,
    exposure,
    pace,
    standard_terms,
)


def check(settings: PrivacySettings, method: Method, policy: Policy, end: RoundEnd) -> None:
    check_settings(settings)
    if end.overlap:
        raise UserError(
            "A server that waits for nobody would wait forever once clients have spent their privacy; "
            "under privacy rounds end with all, a deadline or a quorum."
        )


def plan_ledger(
    settings: PrivacySettings, policy: Policy, clients: Clients, account: Account = poisson_gaussian
) -> Ledger:
    """Without a noise in the settings every client has its own, by the steps that the run will ask of it."""
    rows, budgets = clients.rows, clients.budgets
    able = [who for who in range(len(rows)) if budgets is None or budgets[who] > 0]
    if not able:
        raise UserError("Every client has spent its epsilon: none of them may take another step.")
    words = sampling.chance(settings.batch, rows)
    exposures = [exposure(settings, sampling.share(word)) for word in words]
    if budgets is None or settings.noise is not None:
        return open_ledger(exposures, budgets, account)
    mine, limits = [exposures[who] for who in able], [budgets[who] for who in able]
    steps = max(round(settings.planned * settings.steps * clients.part), 1)
    if policy.readings:
        own = rows[able]
        batches = np.minimum(own, settings.batch).astype(float)
        most = settings.planned * max(settings.steps, settings.most_steps)
        worth = Worth(own / own.sum(), batches, clients.numbers, most)
        planned = spread_by_worth(mine, limits, steps, worth, account)
    else:
        planned = spread_evenly(mine, limits, steps, account)
    spread = Spread(np.zeros(len(rows), np.int64), np.full(len(rows), USUAL_NOISE))
    spread.steps[able], spread.noise[able] = planned
    return spread_ledger(exposures, budgets, spread, account)


def cut(norms: Any, clip: float) -> Any:
    """What every row's gradient is multiplied by: those longer than the clip become as long as it is."""
    return clip / namespace(norms).maximum(norms, norms * 0 + clip)


def gaussian(draw: Any, scale: Any) -> Any:
    return draw(0) * scale


def row_mechanism(
    name: str,
    factors: Callable[[Any, float], Any] = cut,
    noise: Callable[[Any, Any], Any] = gaussian,
    account: Account = poisson_gaussian,
) -> Mechanism:
    """A mechanism that protects rows by other factors, another noise or another account.

    Args:
        name: As settings and orders spell it.
        factors: See core.RowPrivacy.
        noise: See core.RowPrivacy.
        account: Epsilon of events at a delta.

    Returns:
        The mechanism.
    """
    ledger = partial(plan_ledger, account=account)
    return Mechanism(
        name, check, ledger, account, pace, standard_terms(name), client=RowPrivacy(factors, noise)
    )


def record_level() -> Mechanism:
    """Rows: gradients cut and noised at every client.

    Returns:
        The mechanism.
    """
    return row_mechanism("record")
