"""What a run tells step rules of itself, round by round: weighted means of what clients report."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from amsfl import drift
from amsfl.clock.sites import Floats
from amsfl.core import Reading
from amsfl.schedule import Signals


class ReportedMeans(NamedTuple):
    """The last values; None where nothing was reported yet."""

    spent: float = 0.0  # seconds, as planned
    previous: int | None = None
    loss0: float | None = None
    loss: float | None = None
    slope: float | None = None
    curvature: float | None = None
    convexity: float | None = None

    def signals(self, number: int, steps: int, lr: float | None) -> Signals:
        """As policies take them, for round `number`."""
        return Signals(
            round=number,
            steps=steps,
            lr=lr,
            # before the first reading every rule sees a bowl of slope and curvature one
            slope=1.0 if self.slope is None else self.slope,
            curvature=1.0 if self.curvature is None else self.curvature,
            convexity=self.convexity,
        )


def fold_in(
    before: Sequence[ReportedMeans],
    weights: Floats,
    steps: Floats,
    lr: Floats,
    seconds: Sequence[float],
    reading: Reading,
) -> list[ReportedMeans]:
    """One round's readings folded in, of many federations at once, arrays [federations, clients].

    What is not finite, or was not taken, leaves the old value; lr is NaN where nobody knew one.
    """
    share = weights / weights.sum(-1, keepdims=True)
    loss, square, change, moved, along = (
        np.asarray(field, float)
        for field in (reading.loss, reading.grad_sq, reading.diff_sq, reading.delta_sq, reading.grad_diff)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = {
            "loss": loss,
            "slope": np.sqrt(square),
            "curvature": np.sqrt(change / moved),
            "convexity": np.maximum(-along / (square * steps * lr), 0.0),
        }
        fresh = {}
        for name, values in columns.items():
            whole = np.isfinite(values) & (values != 0)
            mean = drift.sum_of(share * values, whole) / drift.sum_of(share, whole)
            fresh[name] = [
                each if some else None for each, some in zip(mean.tolist(), whole.any(-1), strict=True)
            ]
    most = np.max(steps, -1).tolist()
    return [
        _folded(old, spent, int(top), {name: part[place] for name, part in fresh.items()})
        for place, (old, spent, top) in enumerate(zip(before, seconds, most, strict=True))
    ]


def _folded(old: ReportedMeans, seconds: float, most: int, fresh: dict[str, float | None]) -> ReportedMeans:
    reported = {name: value for name, value in fresh.items() if value is not None}
    new = old._replace(spent=old.spent + seconds, previous=most, **reported)
    return new if old.loss0 is not None else new._replace(loss0=new.loss)
