"""What the server makes of a cohort's uploads where a sum is not enough: one table for all."""

from amsfl.combine.base import by_step, chain, link_names, weighed
from amsfl.combine.centre import centred, geomedian
from amsfl.combine.limits import cap, clip
from amsfl.combine.median import median
from amsfl.combine.memory import trust, voices
from amsfl.combine.neighbours import krum, multikrum, nnm
from amsfl.combine.trimmed import trimmed
from amsfl.combine.weighted import middle
from amsfl.core import Combine, Kind

_ALL = median, trimmed, geomedian, krum, multikrum, centred, nnm, voices, trust, clip, cap
COMBINES: Kind[Combine] = Kind("combine rule", "combines", Combine, {each.__name__: each for each in _ALL})
names = COMBINES.names
RECOMMENDED = "cap:0.1,clip,voices,trust:2"  # among ten clients of which two may be false


def make(given: str | Combine) -> Combine | None:
    """`median`, or several chained by commas as in `nnm:2,trimmed:2`; a passed one; None for nothing.

    Args:
        given: Names with commas, `module:attribute`, or a Combine.

    Returns:
        One rule, or None.
    """
    return COMBINES.chained(given, chain)


__all__ = [
    "COMBINES",
    "RECOMMENDED",
    "by_step",
    "chain",
    "link_names",
    "make",
    "median",
    "middle",
    "names",
    "weighed",
]
