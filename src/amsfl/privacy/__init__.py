"""What clients' rows tell and how that is limited: mechanisms, accounting, and the list of what leaves."""

from amsfl.privacy.accounting import (
    Event,
    Exposure,
    Ledger,
    epsilon,
    noise_for,
    poisson_gaussian,
    steps_within,
)
from amsfl.privacy.mechanisms import (
    CLIENT_LEVEL,
    RECORD_LEVEL,
    Mechanism,
    protect_rows,
)

MECHANISMS = {each.name: each for each in (RECORD_LEVEL, CLIENT_LEVEL)}
