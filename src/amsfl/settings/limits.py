"""What a round may spend besides seconds, if anybody can say so: joules, megabytes."""

from collections.abc import Mapping

import numpy as np

from amsfl.clock import RoundEnd
from amsfl.clock.costs import LIMITED, Account
from amsfl.core import UserError
from amsfl.schedule import Policy
from amsfl.settings.definitions import Training


def limits_of(
    config: Training,
    accounts: Mapping[str, Account],
    policy: Policy,
    cohort: int,
    end: RoundEnd,
    missing: str,
) -> dict[str, float]:
    """Every limit on a round by its name, if any cohort can keep to it; a server that does not wait has a
    limit on what one move's clients spend. `missing` says why joules may be unknown.

    Policies that do not look at a round's budget are not held to it: a remark says so.
    """
    for name in LIMITED:
        asked = [flag for flag in (f"budget_{name}", name) if getattr(config, flag) is not None]
        if asked and name not in accounts:
            raise UserError(f"Setting {asked[0]!r} limits {name}, and {missing}")
    budgets = {name: getattr(config, f"budget_{name}") for name in LIMITED}
    limits = {name: limit for name, limit in budgets.items() if limit is not None and policy.limited}
    for name, limit in limits.items():
        account, count = accounts[name], end.size or cohort
        once = np.sort(account.per_step + account.per_round)[::-1][:count]
        most = float(once[0] * count if end.overlap else once.sum())
        if most > limit:
            raise UserError(
                f"A round may spend {limit:g} {name}, and one step of each of its {count} clients can spend "
                f"{most:.4g}; raise --budget-{name}, or have fewer clients in a round "
                f"({'a smaller buffer:K' if end.overlap else '--cohort'})."
            )
    return limits
