"""An upload on its way: encoded by the client, decoded by the server, and what it weighs."""

import numpy as np

from amsfl.core import Key, Parts, Transmit, Upload
from amsfl.core.records import Array
from amsfl.methods import Method
from amsfl.protocol.server import sent_state

FLOAT = 4  # bytes of a number as it travels, whatever precision a simulation works in


def encode(transmit: Transmit | None, key: Key, upload: Upload, memory: Array) -> tuple[Parts, Array]:
    """The arrays that leave the client, by name, and what it remembers of them."""
    parts = {"delta": upload.delta, "extra": upload.extra}
    return (parts, memory) if transmit is None else transmit.encode(key, parts, memory)


def decode(transmit: Transmit | None, parts: Parts) -> Upload:
    """What the server makes of them. ||delta||^2 it works out itself: that need not be believed."""
    whole = parts if transmit is None else transmit.decode(parts)
    return Upload(whole["delta"], whole["extra"], (whole["delta"] * whole["delta"]).sum())


def encode_and_decode(
    transmit: Transmit | None, key: Key, upload: Upload, memory: Array
) -> tuple[Upload, Array]:
    """Both ends at once, for engines."""
    if transmit is None:
        return upload, memory
    parts, memory = encode(transmit, key, upload, memory)
    return decode(transmit, parts), memory


def initial_client_state(method: Method, x: Array) -> tuple[Array, Array]:
    """A client's state at the start: the method's own, and what it remembers of transmissions."""
    upload, client = empty_upload(method, x)
    if method.transmit is None:
        return client, x[:0]
    return client, method.transmit.init({"delta": upload.delta, "extra": upload.extra})


def empty_upload(method: Method, x: Array) -> tuple[Upload, Array]:
    """An upload of nothing as the server has it, for its shapes, and the client state it was made from."""
    server, client = method.arithmetic.init(x)
    upload, _ = method.arithmetic.report(x, x, 1, 1.0, sent_state(method, server, x), client)
    return Upload(0 * upload.delta, 0 * upload.extra, upload.delta_sq), client


def upload_bytes(method: Method, dim: int) -> float:
    """Bytes that a client's vectors take on the way up: what they weigh follows from their shapes."""
    if method.transmit is None:
        return float(FLOAT * dim * method.cost.vectors_up)
    return float(sum(part_bytes(part) for part in empty_parts(method, dim).values()))


def empty_parts(method: Method, dim: int) -> Parts:
    """The arrays that a client of this method sends, all of them zero: their names, shapes and types.

    A method's states are vectors of the model's length and single numbers. So the length of its second vector
    follows from models of one and of two numbers; to try it with a large model takes many times its memory.
    """
    one, two = (empty_upload(method, np.zeros(few, np.float32))[0].extra.size for few in (1, 2))
    delta, extra = np.zeros(dim, np.float32), np.zeros(one + (two - one) * (dim - 1), np.float32)
    upload, transmit = Upload(delta, extra, np.float32(0)), method.transmit
    memory = delta[:0] if transmit is None else transmit.init({"delta": delta, "extra": extra})
    key = np.zeros((), np.uint32), np.zeros((), np.uint32)
    with np.errstate(all="ignore"):
        return encode(method.transmit, key, upload, memory)[0]


def part_bytes(part: Array) -> int:
    """Bytes of one array."""
    kind = np.dtype(part.dtype)
    return int(part.size * (min(FLOAT, kind.itemsize) if kind.kind == "f" else kind.itemsize))
