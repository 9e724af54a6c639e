"""8-bit quantisation."""

from amsfl import sampling
from amsfl.core import Key, Parts, Transmit, namespace
from amsfl.core.records import Array
from amsfl.transmit.base import decoded, floats

BLOCK = 1024  # numbers that share a scale: layers differ in size, and a scale costs four bytes


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

    return Transmit("q8", encode, lambda parts: decoded(parts, ("byte", "scale"), whole))
