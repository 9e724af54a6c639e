"""What the server makes of a cohort's uploads where a sum is not enough: one file each, one table for all."""

from amsfl.combine.base import by_step, chain, link_names, weighed
from amsfl.combine.cap import cap
from amsfl.combine.centred import centred
from amsfl.combine.clip import clip
from amsfl.combine.geomedian import geomedian
from amsfl.combine.krum import krum, multikrum
from amsfl.combine.median import median
from amsfl.combine.nnm import nnm
from amsfl.combine.trimmed import trimmed
from amsfl.combine.trust import trust
from amsfl.combine.voices import voices
from amsfl.combine.weighted import middle
from amsfl.core import Combine, Kind

COMBINES: Kind[Combine] = Kind(
    "combine rule",
    "combines",
    Combine,
    {
        "median": median,
        "trimmed": trimmed,
        "geomedian": geomedian,
        "krum": krum,
        "multikrum": multikrum,
        "centred": centred,
        "nnm": nnm,
        "voices": voices,
        "trust": trust,
        "clip": clip,
        "cap": cap,
    },
)
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
