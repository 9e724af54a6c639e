"""Virtual time: how fast clients are, and what a round costs."""

from amsfl.clock.profile import BUILT_IN, Profile, profile
from amsfl.clock.time import CLOCKS, Costs, Work, check_clock, costs, round_seconds

__all__ = [
    "BUILT_IN",
    "CLOCKS",
    "Costs",
    "Profile",
    "Work",
    "check_clock",
    "costs",
    "profile",
    "round_seconds",
]
