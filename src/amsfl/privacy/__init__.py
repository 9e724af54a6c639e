"""What clients' rows tell, and how much of that may be told: the accountant and the list of what leaves."""

from amsfl.privacy.accounting import Event, Site, composed, epsilon, noise_for, steps_within
from amsfl.privacy.clipped import clipped
from amsfl.privacy.guard import guarded
from amsfl.privacy.ledger import UNLIMITED, Ledger, lasting, ledger
from amsfl.privacy.spread import Spread, alike, by_worth

__all__ = [
    "UNLIMITED",
    "Event",
    "Ledger",
    "Site",
    "Spread",
    "alike",
    "by_worth",
    "clipped",
    "composed",
    "epsilon",
    "guarded",
    "lasting",
    "ledger",
    "noise_for",
    "steps_within",
]
