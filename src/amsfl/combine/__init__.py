"""What the server makes of a cohort's uploads where a sum is not enough: one file each, one table for all."""

from amsfl.combine.base import chain
from amsfl.combine.median import median
from amsfl.core import Combine, Kind

COMBINES: Kind[Combine] = Kind("combine rule", "combines", Combine, {"median": median})
names = COMBINES.names


def make(given: str | Combine) -> Combine | None:
    """`median`, or several chained by commas; one that was passed as it is; None for nothing."""
    return COMBINES.chained(given, chain)


__all__ = ["COMBINES", "chain", "make", "median", "names"]
