"""Which rows a minibatch holds: a counter-based generator, the same on every engine and device.

Row numbers are a hash of (seed, round, client, step, place), so a batch can be drawn anywhere, in any
order, without state: engines agree, resumed runs agree, and drawing costs a handful of integer
operations (jax's threefry took a fifth of a client step on two cores). Sampling is i.i.d. with
replacement, so clients with fewer rows than a batch need no special case.
The functions use operators only: numpy and jax arrays both pass through.
"""

from typing import Any

import numpy as np

Array = Any
U32 = np.uint32
PROTOTYPES = 0xFFFF  # a step number that no run reaches: the stream for FedCSDA's prototype rows


def scramble(x: Array) -> Array:
    """A bijection of 32-bit words with low bias (constants: C. Wellons, hash-prospector, public domain)."""
    x = (x ^ (x >> U32(16))) * U32(0x7FEB352D)
    x = (x ^ (x >> U32(15))) * U32(0x846CA68B)
    return x ^ (x >> U32(16))


def stream(seed: Array, round_: Array, client: Array) -> tuple[Array, Array]:
    """Two key words for one client's round. Arguments are uint32 arrays (0-d is fine)."""
    first = scramble(scramble(scramble(seed + U32(0x9E3779B9)) + round_) + client)
    return first, scramble(first ^ U32(0xB5297A4D))


def draw(key: tuple[Array, Array], step: Array, places: Array, rows: Array) -> Array:
    """Row numbers in [0, rows) for the given places of step's minibatch (places: arange, uint32)."""
    bits = scramble(scramble((step << U32(16)) + places + key[0]) ^ key[1])
    # 24 bits make an exact float32 in [0, 1); the product can round up to `rows` itself, hence the clip
    picked = ((bits >> U32(8)).astype(np.float32) * np.float32(2**-24) * rows.astype(np.float32)).astype(
        np.int32
    )
    return picked - (picked >= rows)


def uniform(key: tuple[Array, Array], places: Array) -> Array:
    """Float32 numbers in [0, 1), one a place, from a stream of their own: no minibatch shares them."""
    bits = scramble(scramble(places + scramble(key[0] + U32(0x68E31DA4))) ^ key[1])
    return (bits >> U32(8)).astype(np.float32) * np.float32(2**-24)


def words(values: Any) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Python or numpy integers as the uint32 arrays that the functions above expect."""
    return np.asarray(values, np.int64).astype(np.uint32)
