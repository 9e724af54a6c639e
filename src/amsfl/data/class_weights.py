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
        present = counts > 0
        weights = np.where(present, len(y) / (present.sum() * np.maximum(counts, 1)), 0.0)
    else:
        named = _parse_weights(text, classes)
        weights = np.array([named.get(name, 1.0) for name in classes])
    return tuple((weights * len(y) / (weights @ counts)).tolist())


def _parse_weights(text: str, classes: Sequence[str]) -> dict[str, float]:
    weights = {}
    for pair in text.split(","):
        name, sign, number = (part.strip() for part in pair.rpartition("="))
        try:
            weights[name] = float(number)
        except ValueError:
            sign = ""
        if not sign or not 0 < weights[name] < np.inf:
            raise UserError(
                f"Class weights {pair!r}: write balanced, or NAME=NUMBER with commas, above 0: yes=5,no=1."
            )
        if name not in classes:
            raise UserError(f"There is no class {name!r} to weigh{nearest(name, classes)}.")
    return weights
