"""Virtual time: how fast clients are, and what a round costs."""

from amsfl.clock.conditions import ClientConditions, client_conditions
from amsfl.clock.profile import (
    BUILT_IN,
    CLOCKS,
    COLUMNS,
    Costs,
    Overhead,
    Profile,
    check_clock,
    client_seconds,
    costs,
    profile,
    read_profile,
    read_sites,
    round_seconds,
)
from amsfl.clock.round_end import ROUND_ENDS, RoundEnd, round_end, staleness
