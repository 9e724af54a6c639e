"""Confusion, AUC and calibration of a model's outputs for rows of known classes."""

from typing import Any

import numpy as np

from amsfl.portable.network import Array

BINS = 10  # of confidence, equally wide
LARGE = 200  # classes; a larger confusion matrix would be most of a record, and nobody reads it


def of_classes(outputs: Array, y: Array) -> dict[str, Any]:
    """Confusion (true class by predicted one), one-against-rest AUC a class, and how sure is how right."""
    chances = np.exp(outputs - outputs.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    columns = np.ascontiguousarray(chances.T)  # numpy is quicker along many rows than across few classes
    guess, sure, classes = chances.argmax(1), columns.max(0), len(columns)
    table = np.bincount(y * classes + guess, minlength=classes**2)
    each = [auc(y == place, column) for place, column in enumerate(columns)]
    known = [value for value in each if value is not None]
    place = np.clip((sure * BINS).astype(int), -1, BINS - 1) + 1  # 0: not a number
    order = np.argsort(place.astype(np.uint8), kind="stable")
    ends = np.cumsum(np.bincount(place, minlength=BINS + 1))[:-1]
    bins = zip(*(np.split(part[order], ends)[1:] for part in (sure, guess == y)), strict=True)
    curve = [
        [float(confidence.mean()), float(right.mean()), len(confidence)]
        for confidence, right in bins
        if len(confidence)
    ]
    return {
        "confusion": table.reshape(classes, classes).tolist() if classes <= LARGE else None,
        "rows": np.bincount(y, minlength=classes).tolist(),
        "auc": each,
        "macro_auc": float(np.mean(known)) if known else None,
        "ece": sum(rows * abs(confidence - right) for confidence, right, rows in curve) / len(y),
        "reliability": curve,  # of every bin that has rows: mean confidence, share that is right, rows
    }


def auc(positive: Array, score: Array) -> float | None:
    """The chance that a row of the class is ranked above another one; ties count half (Mann and Whitney).

    Only the rows of the smaller side are looked up among the others: sorting without places takes a tenth of
    the time. All counts are whole numbers and halves, so nothing is rounded before the end.
    """
    yes, no = np.sort(score[positive]), np.sort(score[~positive])
    if not len(yes) or not len(no):
        return None
    few, many = (yes, no) if len(yes) <= len(no) else (no, yes)
    left = np.searchsorted(many, few)
    tied = many[np.minimum(left, len(many) - 1)] == few
    below = 2 * left.sum() + (np.searchsorted(many, few[tied], "right") - left[tied]).sum()
    pairs = len(yes) * len(no)
    return float((below / 2 if few is yes else pairs - below / 2) / pairs)
