"""How much a row of each class counts in training: from counts that sites add up, or as the user says."""

from collections.abc import Sequence

import numpy as np

from amsfl.core import UserError, nearest
from amsfl.data.dataset import IntArray


def class_weights(text: str, y: IntArray, classes: Sequence[str]) -> tuple[float, ...] | None:
    """`balanced` or `NAME=NUMBER,...`, scaled so that a training row counts 1 on average; None for ''.

    Balanced: n / (classes that are there x rows of the class), from the counts of all sites together. A class
    that a site does not have has its weight all the same; who is not named keeps 1.
    """
    if not text:
        return None
    if not classes:
        raise UserError(
            f"Class weights {text!r} are of classes, and here numbers are predicted; leave them out."
        )
    counts = np.bincount(y, minlength=len(classes))
    if text == "balanced":
        there = counts > 0
        found = np.where(there, len(y) / (there.sum() * np.maximum(counts, 1)), 0.0)
    else:
        given = _given(text, classes)
        found = np.array([given.get(name, 1.0) for name in classes])
    return tuple((found * len(y) / (found @ counts)).tolist())


def _given(text: str, classes: Sequence[str]) -> dict[str, float]:
    found = {}
    for pair in text.split(","):
        name, sign, number = (part.strip() for part in pair.rpartition("="))
        try:
            found[name] = float(number)
        except ValueError:
            sign = ""
        if not sign or not 0 < found[name] < np.inf:
            raise UserError(
                f"Class weights {pair!r}: write balanced, or NAME=NUMBER with commas, above 0: yes=5,no=1."
            )
        if name not in classes:
            raise UserError(f"There is no class {name!r} to weigh{nearest(name, classes)}.")
    return found
