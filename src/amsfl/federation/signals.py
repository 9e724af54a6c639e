"""What a run tells step rules of itself, round by round: weighted means of what clients report."""

from typing import Any, NamedTuple

import numpy as np

from amsfl.core import Reading
from amsfl.schedule import Signals


class Heard(NamedTuple):
    """The last values; None where nothing was heard yet."""

    spent: float = 0.0  # seconds, as planned
    previous: int | None = None
    loss0: float | None = None
    loss: float | None = None
    slope: float | None = None
    curvature: float | None = None
    convexity: float | None = None

    def signals(self, number: int, steps: int, lr: float | None, seconds: float | None) -> Signals:
        """As policies take them, for round `number`, in a run of so many `seconds`."""
        return Signals(
            round=number,
            steps=steps,
            lr=lr,
            left=None if seconds is None else max(seconds - self.spent, 0.0),
            previous=self.previous,
            loss0=self.loss0,
            loss=self.loss,
            # before the first reading every rule sees a bowl of slope and curvature one
            slope=1.0 if self.slope is None else self.slope,
            curvature=1.0 if self.curvature is None else self.curvature,
            convexity=self.convexity,
        )


def heard(old: Heard, weights: Any, steps: Any, lr: float | None, seconds: float, reading: Reading) -> Heard:
    """One round's readings folded in; what is not finite, or was not taken, leaves the old value."""
    share = weights / weights.sum()
    fields = Reading(*(np.asarray(field, float) for field in reading))
    with np.errstate(divide="ignore", invalid="ignore"):
        along = -fields.grad_diff / (fields.grad_sq * steps * (np.nan if lr is None else lr))
        found = {
            "loss": fields.loss,
            "slope": np.sqrt(fields.grad_sq),
            "curvature": np.sqrt(fields.diff_sq / fields.delta_sq),
            "convexity": np.maximum(along, 0.0),
        }
    fresh = {}
    for name, values in found.items():
        whole = np.isfinite(values) & (values != 0)
        if whole.any():
            fresh[name] = float((share * values)[whole].sum() / share[whole].sum())
    new = old._replace(spent=old.spent + seconds, previous=int(np.max(steps)), **fresh)
    return new if old.loss0 is not None else new._replace(loss0=new.loss)
