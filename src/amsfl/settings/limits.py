"""What a run may spend besides seconds, if anybody can say so: joules, megabytes."""

from collections.abc import Mapping

from amsfl.clock.costs import LIMITED, Account
from amsfl.core import UserError
from amsfl.settings.definitions import Training


def check_limits(config: Training, accounts: Mapping[str, Account], missing: str) -> None:
    """Whether it is known what is limited; `missing` says why joules may be unknown."""
    for name in LIMITED:
        if getattr(config, name) is not None and name not in accounts:
            raise UserError(f"Setting {name!r} limits {name}, and {missing}")
