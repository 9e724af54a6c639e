"""What clients' rows tell and how that is limited: mechanisms, accounting, and the list of what leaves."""

from amsfl.core import Kind
from amsfl.privacy.accounting import Event, Exposure, epsilon, noise_for, poisson_gaussian, steps_within
from amsfl.privacy.client_level import client_level
from amsfl.privacy.ledger import Ledger
from amsfl.privacy.mechanism import (
    Clients,
    Mechanism,
    PrivacySettings,
    Terms,
    protect_clients,
    protect_rows,
)
from amsfl.privacy.record_level import record_level, row_mechanism

MECHANISMS: Kind[Mechanism] = Kind(
    "privacy mechanism", "privacy", Mechanism, {"record": record_level, "client": client_level}
)

__all__ = [
    "MECHANISMS",
    "Clients",
    "Event",
    "Exposure",
    "Ledger",
    "Mechanism",
    "PrivacySettings",
    "Terms",
    "client_level",
    "epsilon",
    "noise_for",
    "poisson_gaussian",
    "protect_clients",
    "protect_rows",
    "record_level",
    "row_mechanism",
    "steps_within",
]
