"""What clients' rows tell and how that is limited: mechanisms, accounting, and the list of what leaves."""

from amsfl.privacy.accounting import Event, Exposure, epsilon, noise_for, poisson_gaussian, steps_within
from amsfl.privacy.client_level import CLIENT_LEVEL
from amsfl.privacy.ledger import Ledger
from amsfl.privacy.mechanism import Clients, Mechanism, PrivacySettings, Terms, protect_rows
from amsfl.privacy.record_level import RECORD_LEVEL

MECHANISMS = {each.name: each for each in (RECORD_LEVEL, CLIENT_LEVEL)}


__all__ = [
    "CLIENT_LEVEL",
    "MECHANISMS",
    "RECORD_LEVEL",
    "Clients",
    "Event",
    "Exposure",
    "Ledger",
    "Mechanism",
    "PrivacySettings",
    "Terms",
    "epsilon",
    "noise_for",
    "poisson_gaussian",
    "protect_rows",
    "steps_within",
]
