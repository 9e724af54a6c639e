"""Virtual time: how fast clients are, and what a round costs."""

from amsfl.clock.conditions import ClientConditions, client_conditions
from amsfl.clock.costs import (
    CLOCKS,
    Account,
    Costs,
    Overhead,
    check_clock,
    client_seconds,
    costs,
    over_limit,
    round_seconds,
    spent,
)
from amsfl.clock.profile import BUILT_IN, COLUMNS, Profile, Sites, profile, read_profile, read_sites
from amsfl.clock.round_end import (
    ROUND_ENDS,
    ArrivalGroup,
    RoundEnd,
    Waiting,
    check_progress,
    results_taken,
    round_end,
    staleness,
)

__all__ = [
    "BUILT_IN",
    "CLOCKS",
    "COLUMNS",
    "ROUND_ENDS",
    "Account",
    "ArrivalGroup",
    "ClientConditions",
    "Costs",
    "Overhead",
    "Profile",
    "RoundEnd",
    "Sites",
    "Waiting",
    "check_clock",
    "check_progress",
    "client_conditions",
    "client_seconds",
    "costs",
    "over_limit",
    "profile",
    "read_profile",
    "read_sites",
    "results_taken",
    "round_end",
    "round_seconds",
    "spent",
    "staleness",
]
