"""What clients' rows tell and how that is limited: mechanisms, accounting, and the list of what leaves."""

from amsfl.core import UserError, nearest
from amsfl.privacy.accounting import Event, Exposure, epsilon, noise_for, poisson_gaussian, steps_within
from amsfl.privacy.client_level import CLIENT_LEVEL, private_sum
from amsfl.privacy.ledger import Ledger
from amsfl.privacy.mechanism import (
    Clients,
    Mechanism,
    PrivacySettings,
    Terms,
    pace,
    protect_clients,
    protect_rows,
    terms,
)
from amsfl.privacy.record_level import RECORD_LEVEL

MECHANISMS = {each.name: each for each in (RECORD_LEVEL, CLIENT_LEVEL)}


def mechanism(name: str) -> Mechanism:
    """`record` or `client`."""
    if name not in MECHANISMS:
        raise UserError(f"Unknown privacy mechanism {name!r}{nearest(name, MECHANISMS)}.")
    return MECHANISMS[name]


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
    "mechanism",
    "noise_for",
    "pace",
    "poisson_gaussian",
    "private_sum",
    "protect_clients",
    "protect_rows",
    "steps_within",
    "terms",
]
