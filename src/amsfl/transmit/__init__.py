"""What happens to an upload on its way to the server: one file each, one table for all."""

from amsfl.core import Kind, Transmit
from amsfl.transmit.base import chain
from amsfl.transmit.q8 import q8
from amsfl.transmit.topk import topk

TRANSMITS: Kind[Transmit] = Kind("transmit", "transmits", Transmit, {"topk": topk, "q8": q8})
names = TRANSMITS.names


def make(given: str | Transmit) -> Transmit | None:
    """`topk:0.1,q8` as a chain, one that was passed as it is; None for nothing.

    Args:
        given: Names with commas, `module:attribute`, or a Transmit.

    Returns:
        One transmission, or None.
    """
    return TRANSMITS.chained(given, chain)


__all__ = ["TRANSMITS", "chain", "make", "names", "q8", "topk"]
