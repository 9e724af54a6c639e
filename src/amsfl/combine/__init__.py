"""What the server makes of a cohort's uploads where a sum is not enough: one table for all."""

from amsfl.combine.chain import by_step, chain
from amsfl.combine.rules import cap, clip, krum, median, middle, trimmed, trust, voices
from amsfl.core import Combine, Kind

_ALL = cap, clip, voices, trust, median, trimmed, krum
COMBINES: Kind[Combine] = Kind("robust rule", Combine, {each.__name__: each for each in _ALL})


def make(given: str | Combine) -> Combine | None:
    """`median`, or several chained by commas as in `cap:0.2,trimmed:2`; a passed one; None for nothing."""
    return COMBINES.chained(given, chain)
