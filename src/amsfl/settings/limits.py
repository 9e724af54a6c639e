"""What a run may spend besides seconds, if anybody can say so: joules."""

from collections.abc import Mapping

from amsfl.clock.costs import Account
from amsfl.core import UserError
from amsfl.settings.definitions import Training


def check_limits(config: Training, accounts: Mapping[str, Account], missing: str) -> None:
    """Whether it is known what is limited; `missing` says why joules may be unknown."""
    if config.joules is not None and "joules" not in accounts:
        raise UserError(f"Setting 'joules' limits joules, and {missing}")
