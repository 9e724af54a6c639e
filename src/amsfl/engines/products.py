"""Products of two matrices, each turned or not: XLA's, or on Arm, for large layers, those of scipy's BLAS.

On Arm, XLA's products reach 27 GFLOP/s where OpenBLAS reaches 33, and a turned left side has to be copied for
them; a BLAS takes every side as it lies. A call of it from a compiled program (blas.py) costs some 15
microseconds, so small products stay XLA's. On x86 (a Xeon with AVX512) XLA reaches 110 to 140 and OpenBLAS
80 to 120, so there all are XLA's. That is decided by the kind of processor and never by a clock: the same
seed has to give the same bits. Where devices share a model, the compiler has to part its products: XLA's.
`python benchmarks/products.py` measures both.
"""

from collections.abc import Sequence
from functools import cache
from platform import machine
from threading import Thread

import jax
import jax.numpy as jnp

from amsfl.engines import blas
from amsfl.engines.devices import is_parted
from amsfl.portable.network import LayerSpec

LAYER = 40_000  # weights from which a layer's products are BLAS's,
LARGE = 8e6  # if they take so many multiplications and additions
ARM = ("aarch64", "arm64")


def times(
    a: jax.Array, b: jax.Array, turn_a: bool = False, turn_b: bool = False, layer: int = 0
) -> jax.Array:
    """a b of two matrices, with a or b or both turned, for a layer of so many weights."""
    arithmetic = 2 * a.size * b.shape[0 if turn_b else 1]
    single = a.dtype == b.dtype == jnp.float32
    if layer >= LAYER and arithmetic >= LARGE and single and not is_parted() and library() is not None:
        return blas.times(a, b, turn_a, turn_b)
    if turn_a and not turn_b and a.size > b.size + a.shape[1] * b.shape[1] and jax.default_backend() == "cpu":
        return _laid_out(_laid_out(b.T) @ a).T  # the other side and the product are less to turn
    return (_laid_out(a.T) if turn_a else a) @ (b.T if turn_b else b)


def named(parts: Sequence[LayerSpec]) -> str | None:
    """The BLAS that a network's rounding depends on; None where its products are all XLA's."""
    sizes = [part.inputs * part.outputs * (9 if part.kind == "conv" else 1) for part in parts]
    kinds = ("dense", "conv")
    large = any(size >= LAYER and part.kind in kinds for size, part in zip(sizes, parts, strict=True))
    return library() if large else None


def library() -> str | None:
    """The BLAS by name, where there is one and it is the faster one."""
    return _found() if jax.default_backend() == "cpu" and machine() in ARM else None


@cache
def _found() -> str | None:
    """In a thread of its own: whoever asks may be in the middle of tracing a program."""
    found: list[str | None] = []
    thread = Thread(target=lambda: found.append(blas.library()))
    thread.start()
    thread.join()
    return found[0]


def _laid_out(side: jax.Array) -> jax.Array:
    """As rows in memory on the CPU; elsewhere products take a turned side as it is."""
    return jax.lax.optimization_barrier(side) if jax.default_backend() == "cpu" else side
