"""What transmissions share: a chain of them, and the arrays that they work on."""

from collections.abc import Callable, Iterator, Sequence

from amsfl.core import Key, Parts, Transmit, namespace
from amsfl.core.records import Array
from amsfl.core.seams import is_real


def floats(parts: Parts) -> Iterator[tuple[str, Array]]:
    """The parts that hold numbers to compress or to disturb; indices and empty parts are left alone."""
    for name, part in parts.items():
        if part.size and is_real(part):
            yield name, part


def decoded(parts: Parts, pieces: Sequence[str], whole: Callable[..., Array]) -> Parts:
    """The parts again, those whole that travel as pieces, `name.piece`: made of these in their order."""
    rest = dict(parts)
    for name in [name.removesuffix(f".{pieces[0]}") for name in parts if name.endswith(f".{pieces[0]}")]:
        rest[name] = whole(*(rest.pop(f"{name}.{piece}") for piece in pieces))
    return rest


def chain(links: Sequence[Transmit]) -> Transmit:
    """One after another at the client, backwards at the server; each keeps its own part of the memory.

    Args:
        links: In the order of the client.

    Returns:
        One transmission.
    """

    def init(parts: Parts) -> Array:
        pieces = []
        for link in links:
            pieces.append(link.init(parts))
            parts = link.encode(_no_key(parts), parts, pieces[-1])[0]
        return namespace(pieces[0]).concat(pieces)

    def encode(key: Key, parts: Parts, memory: Array) -> tuple[Parts, Array]:
        kept, at = [], 0
        for number, link in enumerate(links):
            size = link.init(parts).shape[0]
            fresh = key[0] + key[0].dtype.type(number), key[1]  # links must not share their chance
            parts, piece = link.encode(fresh, parts, memory[at : at + size])
            kept.append(piece)
            at += size
        return parts, namespace(memory).concat(kept)

    def decode(parts: Parts) -> Parts:
        for link in reversed(links):
            parts = link.decode(parts)
        return parts

    return Transmit(",".join(link.name for link in links), encode, decode, init)


def _no_key(parts: Parts) -> Key:
    """Of one word each, since numpy warns where a scalar overflows and not where an array does."""
    space = namespace(next(iter(parts.values())))
    return space.zeros(1, dtype=space.uint32), space.zeros(1, dtype=space.uint32)
