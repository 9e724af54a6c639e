"""The model that a client was last sent, so that it knows the last global step without being sent it again.

A client that was in the round before has seen the anchor from which the global step began; the server sends
the step to all others, and to everybody when it resumes a run. The anchor lives in Flower's context: a node
that was started anew has lost it, and its readings along the step then say nothing (NaN).
"""

import numpy as np
from flwr.app import ConfigRecord, Context

from amsfl.flower.messages import GlobalModel, Order, Vector, arrays, pack_arrays, scalars

NOTES, ANCHOR = "amsfl-seen", "amsfl-seen-anchor"


def direction(context: Context, order: Order, model: GlobalModel) -> Vector:
    """The last global step: as it was sent, or from the anchor before; NaN where that was lost."""
    if not order.readings or model.direction.size or order.round == 0:
        return model.direction
    if NOTES in context.state:
        notes = scalars(context.state, NOTES)
        if notes["run"] == order.run and notes["round"] == order.round - 1:
            return model.anchor - arrays(context.state, ANCHOR)["anchor"]
    return np.full_like(model.anchor, np.nan)


def keep(context: Context, order: Order, anchor: Vector) -> None:
    """For the next round."""
    if order.readings:
        context.state[NOTES] = ConfigRecord({"run": order.run, "round": order.round})
        context.state[ANCHOR] = pack_arrays({"anchor": anchor})
