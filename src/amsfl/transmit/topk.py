"""Top-k with error feedback."""

from amsfl.core import Key, Parts, Transmit, UserError, namespace, scatter
from amsfl.core.records import Array
from amsfl.transmit.base import decoded, floats


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
        return decoded(parts, pieces, lambda of, index, value: scatter(of.shape[1], index, value))

    return Transmit(f"topk:{share:g}", encode, decode, init)
