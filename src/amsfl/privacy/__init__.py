"""What clients' rows tell, and how much of that may be told: the accountant and the list of what leaves."""

from amsfl.privacy.accounting import Event, Site, composed, epsilon, noise_for, steps_within
from amsfl.privacy.budget_plan import Spread, alike, by_worth
from amsfl.privacy.client_level import guarded
from amsfl.privacy.ledger import UNLIMITED, Ledger, lasting, ledger
from amsfl.privacy.record_level import with_clipping

__all__ = [
    "UNLIMITED",
    "Event",
    "Ledger",
    "Site",
    "Spread",
    "alike",
    "by_worth",
    "composed",
    "epsilon",
    "guarded",
    "lasting",
    "ledger",
    "noise_for",
    "steps_within",
    "with_clipping",
]
