"""Chance of the system's own: nobody who knows a run's seed can work it out.

Real clients draw batches and noise from here, real servers their cohorts. A simulation draws both from its
seed (amsfl.sampling), and protects nobody.
"""

import os
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

PARTS = 4  # normal numbers that one is the sum of: the last bits of a single one tell what it was added to


def chosen(word: int, rows: int) -> Ints:
    """The places of the rows that are in, each by itself with the chance of `word` (sampling.chance): the
    largest of 2^32 words by which a row is in."""
    return np.flatnonzero(np.frombuffer(os.urandom(4 * rows), np.uint32) <= np.uint32(word))


def normal(size: int) -> Floats:
    """Standard normal numbers, in double precision."""
    count = -(-size // 2)
    bits = np.frombuffer(os.urandom(2 * 8 * PARTS * count), np.uint64).reshape(2, PARTS, count)
    radius, angle = ((bits >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53  # above 0, below 1
    length, turn = np.sqrt(-2 * np.log(radius)), 2 * np.pi * angle
    pairs = np.concatenate([length * np.cos(turn), length * np.sin(turn)], axis=1)
    return np.asarray(pairs.sum(0)[:size] / PARTS**0.5)
