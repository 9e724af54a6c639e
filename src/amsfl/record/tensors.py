"""Vectors that are mapped from files: what of them is in memory can be let go."""

import mmap
from typing import Any

import numpy as np


def mapping(array: Any) -> mmap.mmap | None:
    """What an array is mapped from, where it is a file."""
    base: Any = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.obj if isinstance(base, memoryview) else base.base
    return base if isinstance(base, mmap.mmap) else None


def release(array: Any) -> None:
    """Let go of the memory that reading an array's file has taken, where it is mapped from a file."""
    file = mapping(array)
    if file is not None and hasattr(mmap, "MADV_DONTNEED"):
        file.madvise(mmap.MADV_DONTNEED)
