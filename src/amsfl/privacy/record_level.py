"""Rows kept private: every row's gradient cut at the client, noise on their sum.

    g = (sum_{i in batch} grad_i min(1, clip/||grad_i||) + noise clip z) / b,   z standard normal,  b = q rows

Every row is in a batch with chance q = batch/rows, whoever else is (Poisson sampling).
Abadi et al. 2016, arXiv 1607.00133.
"""

import numpy as np

from amsfl import sampling
from amsfl.clock import RoundEnd
from amsfl.core import UserError
from amsfl.methods import Method
from amsfl.planning import Policy
from amsfl.privacy.budget_plan import Spread, Worth, spread_by_worth, spread_evenly
from amsfl.privacy.ledger import Ledger, open_ledger, spread_ledger
from amsfl.privacy.mechanism import (
    USUAL_NOISE,
    Clients,
    Mechanism,
    PrivacySettings,
    check_settings,
    exposure,
)


def check(settings: PrivacySettings, method: Method, policy: Policy, end: RoundEnd) -> None:
    check_settings(settings)
    if end.overlap:
        raise UserError(
            "A server that waits for nobody would wait forever once clients have spent their privacy; "
            "under privacy rounds end with all, a deadline or a quorum."
        )


def plan_ledger(settings: PrivacySettings, policy: Policy, clients: Clients) -> Ledger:
    """Without a noise in the settings every client has its own, by the steps that the run will ask of it."""
    rows, budgets = clients.rows, clients.budgets
    able = [who for who in range(len(rows)) if budgets is None or budgets[who] > 0]
    if not able:
        raise UserError("Every client has spent its epsilon: none of them may take another step.")
    words = sampling.chance(settings.batch, rows)
    exposures = [exposure(settings, sampling.share(word)) for word in words]
    if budgets is None or settings.noise is not None:
        return open_ledger(exposures, budgets)
    mine, limits = [exposures[who] for who in able], [budgets[who] for who in able]
    steps = max(round(settings.planned * settings.steps * clients.part), 1)
    if policy.readings:
        own = rows[able]
        batches = np.minimum(own, settings.batch).astype(float)
        most = settings.planned * max(settings.steps, settings.most_steps)
        worth = Worth(own / own.sum(), batches, clients.numbers, most)
        planned = spread_by_worth(mine, limits, steps, worth)
    else:
        planned = spread_evenly(mine, limits, steps)
    spread = Spread(np.zeros(len(rows), np.int64), np.full(len(rows), USUAL_NOISE))
    spread.steps[able], spread.noise[able] = planned
    return spread_ledger(exposures, budgets, spread)


RECORD_LEVEL = Mechanism("record", True, check, plan_ledger)
