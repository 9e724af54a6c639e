"""What clients' rows tell, and how much of that may be told: the accountant and the list of what leaves."""

from amsfl.privacy.accounting import Site, epsilon, noise_for, steps_within
from amsfl.privacy.ledger import UNLIMITED, Ledger, ledger

__all__ = ["UNLIMITED", "Ledger", "Site", "epsilon", "ledger", "noise_for", "steps_within"]
