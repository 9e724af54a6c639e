"""What real clients spend besides seconds: joules, megabytes and money, by what they say of themselves.

Bytes are counted as they travel. Joules and money are known where every client has said what a step or a
megabyte costs it; where some have not, nothing is guessed, and a note says who.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from amsfl import clock
from amsfl.clock import RoundEnd, Work
from amsfl.clock.costs import MEGABYTE, Account, accounts
from amsfl.core import UserError
from amsfl.flower.server.clients import RegisteredClient
from amsfl.schedule import Policy
from amsfl.settings.limits import limits_of
from amsfl.simulation import ServeConfig

KINDS = {"joules": ("joules_step", "joules_mb"), "cost": ("cost_mb",)}  # what there is to say of each
Lost = Sequence[tuple[int, int]]  # client, steps: work that came to nothing


class SpendingMeter:
    """The clients' accounts, and the limits on a round that the settings give."""

    def __init__(self, config: ServeConfig, policy: Policy, end: RoundEnd):
        self.config, self.policy, self.end = config, policy, end
        self.accounts: Mapping[str, Account] = {}
        self.limits: dict[str, float] = {}

    def open(self, registered: Sequence[RegisteredClient], job: Work) -> list[str]:
        """When everybody has a seat; notes on what cannot be known."""
        amounts, notes = dict[str, Any](), list[str]()
        for kind, names in KINDS.items():
            silent = [
                client.name for client in registered if not any(name in client.spends for name in names)
            ]
            if not silent:
                columns = {name: [client.spends.get(name, 0.0) for client in registered] for name in names}
                amounts |= {name: np.array(column) for name, column in columns.items()}
            elif len(silent) < len(registered):
                notes.append(
                    f"{kind} are not counted: {len(silent)} of {len(registered)} clients do not say theirs"
                )
        self.accounts = accounts(len(registered), amounts, job)
        missing = (
            "not every client says what it spends; give each SuperNode joules-step and joules-mb in its "
            "--node-config, or amsfl deploy a --profile with the columns joules_step and joules_mb."
        )
        cohort = self.config.cohort or len(registered)
        self.limits = limits_of(self.config, self.accounts, self.policy, cohort, self.end, missing)
        return notes

    def bill(self, who: Any, steps: Any, lost: Lost, sent: float) -> dict[str, float]:
        """A round's joules, megabytes and cost: of what came in, and of work that came to nothing."""
        pair = tuple(np.array([each[place] for each in lost], int) for place in (0, 1))
        totals = clock.spent(self.accounts, (who, steps), (pair[0], pair[1]))
        return totals | {"megabytes": sent / MEGABYTE}

    def each(self, who: Any, steps: Any) -> dict[str, list[float]]:
        """What each of a round's clients spent, for the record's plan."""
        account = self.accounts.get("joules")
        return {} if account is None else {"client_joules": account.of(who, steps).tolist()}


def check_amounts(spends: Mapping[str, float]) -> None:
    """A client's word on what it spends; a ValueError where it is no amount."""
    for name, value in spends.items():
        if not 0 <= value <= 1e12:
            raise ValueError(f"{name} is {value!r}, which is no amount")


def check_asked(config: ServeConfig, whole: bool) -> None:
    """A limit that goes by what each client did says who was in a round."""
    asked = [name for name in ("budget_joules", "joules") if getattr(config, name) is not None]
    if asked and whole:
        raise UserError(
            f"Setting {asked[0]!r} goes by what every client spends, and whole clients are kept private; "
            "leave one of them out."
        )
