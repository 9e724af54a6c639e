"""What happens to an upload on its way to the server: its largest numbers alone, a byte a number, or both."""

from collections.abc import Callable, Iterator, Sequence

from amsfl import sampling
from amsfl.core import Key, Kind, Parts, Transmit, UserError, namespace, scatter
from amsfl.core.records import Array, is_real

BLOCK = 1024  # numbers that share a scale: layers differ in size, and a scale costs four bytes


def topk(share: float = 0.1) -> Transmit:
    """Send the `share` of the numbers that are largest; the rest waits and is added to the next upload.

    v = delta + memory;   sent = the k entries of v largest in size;   memory+ = v - sent

    Stich, Cordonnier and Jaggi 2018, arXiv 1809.07599; error feedback: Karimireddy et al. 2019, 1901.09847.
    An entry travels as a number and its place, 8 bytes.

    Args:
        share: Of the numbers, above 0 and at most 1.

    Returns:
        The transmission.
    """
    if not 0 < share <= 1:
        raise UserError(f"topk sends a share of the numbers, above 0 and at most 1, not {share:g}.")

    def init(parts: Parts) -> Array:
        return namespace(parts["delta"]).concat([0 * part for _, part in floats(parts)])

    def encode(key: Key, parts: Parts, memory: Array) -> tuple[Parts, Array]:
        sent, left, at, space = dict(parts), [], 0, namespace(memory)
        for name, part in floats(parts):
            size = part.shape[0]
            whole = part + memory[at : at + size]
            order = space.argsort(-space.abs(whole), stable=True)  # NaN comes last in both libraries ...
            index = space.sort(order[: max(1, round(share * size))])
            value = whole[index] + 0 * space.sum(whole)  # ... and must not stay behind unseen
            left.append(whole - scatter(size, index, value))
            # an empty array: its shape says how long the whole is, and weighs nothing
            sent |= {f"{name}.of": space.zeros((0, size), dtype=space.int8)}
            sent |= {f"{name}.index": space.astype(index, space.int32), f"{name}.value": value}
            del sent[name]
            at += size
        return sent, space.concat(left)

    def decode(parts: Parts) -> Parts:
        pieces = "of", "index", "value"
        return _decoded(parts, pieces, lambda of, index, value: scatter(of.shape[1], index, value))

    return Transmit(f"topk:{share:g}", encode, decode, init)


def q8() -> Transmit:
    """Every number as one byte, rounded up or down by chance so that the mean is right.

    q = floor(v / s + u),   s = max |v| / 127 over a block of 1,024 numbers,  u uniform in [0, 1)

    Alistarh et al. 2017, arXiv 1610.02132 (QSGD, with the largest entry as the norm).

    Returns:
        The transmission.
    """

    def encode(key: Key, parts: Parts, memory: Array) -> tuple[Parts, Array]:
        sent = dict(parts)
        for number, (name, part) in enumerate(floats(parts)):
            space, size = namespace(part), part.shape[0]
            padded = space.concat([part, space.zeros(-size % BLOCK, dtype=part.dtype)])
            blocks = space.reshape(padded, (-1, BLOCK))
            scale = space.max(space.abs(blocks), axis=1, keepdims=True) / 127
            ratio = blocks / (scale + (scale == 0))
            places = space.arange(padded.shape[0], dtype=space.uint32)
            chance = sampling.uniform((key[0] + key[0].dtype.type(7919 * number), key[1]), places)
            rounded = space.floor(ratio + space.astype(space.reshape(chance, ratio.shape), part.dtype))
            # what is not finite has no byte; the block's scale is then not finite either, and tells of it
            whole = space.where(space.isfinite(rounded), rounded, space.zeros_like(rounded))
            sent[f"{name}.byte"] = space.astype(space.reshape(whole, (-1,))[:size], space.int8)
            sent[f"{name}.scale"] = scale[:, 0]
            del sent[name]
        return sent, memory

    def whole(byte: Array, scale: Array) -> Array:
        space = namespace(scale)
        return space.astype(byte, scale.dtype) * space.repeat(scale, BLOCK)[: byte.shape[0]]

    return Transmit("q8", encode, lambda parts: _decoded(parts, ("byte", "scale"), whole))


def chain(links: Sequence[Transmit]) -> Transmit:
    """One after another at the client, backwards at the server; each keeps its own part of the memory."""

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


def floats(parts: Parts) -> Iterator[tuple[str, Array]]:
    """The parts that hold numbers to compress; indices and empty parts are left alone."""
    for name, part in parts.items():
        if part.size and is_real(part):
            yield name, part


def _decoded(parts: Parts, pieces: Sequence[str], whole: Callable[..., Array]) -> Parts:
    """The parts again, those whole that travel as pieces, `name.piece`: made of these in their order."""
    rest = dict(parts)
    for name in [name.removesuffix(f".{pieces[0]}") for name in parts if name.endswith(f".{pieces[0]}")]:
        rest[name] = whole(*(rest.pop(f"{name}.{piece}") for piece in pieces))
    return rest


def _no_key(parts: Parts) -> Key:
    """Of one word each, since numpy warns where a scalar overflows and not where an array does."""
    space = namespace(next(iter(parts.values())))
    return space.zeros(1, dtype=space.uint32), space.zeros(1, dtype=space.uint32)


TRANSMITS: Kind[Transmit] = Kind("transmission", Transmit, {"topk": topk, "q8": q8})


def make(given: str | Transmit) -> Transmit | None:
    """`topk:0.1,q8` as a chain, one that was passed as it is; None for nothing."""
    return TRANSMITS.chained(given, chain)


__all__ = ["TRANSMITS", "chain", "make", "q8", "topk"]
