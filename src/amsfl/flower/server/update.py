"""All that one round's good replies change: the model, the planner's memory, costs, seats and sizes."""

from typing import Any

import numpy as np

from amsfl.clock.staleness import Weight as Worth
from amsfl.core import Reading
from amsfl.flower import messages
from amsfl.flower.server import clients, costs, reply_checks
from amsfl.flower.server.replies import AcceptedReply, combine, effective
from amsfl.flower.server.server_state import ServerState
from amsfl.methods import Method
from amsfl.planning.planner import Decision, Planner


def learn(
    state: ServerState,
    method: Method,
    planner: Planner,
    model: messages.GlobalModel,
    who: Any,
    taken: Decision,
    good: list[AcceptedReply],
    poll: float,
    worth: Worth,
    private: tuple[Any, Any] | None = None,
) -> tuple[Reading, dict[str, Any]]:
    """The readings, and what a rule made of the clients.

    `who` are the clients of `good`, `taken` is the plan with the steps that they ran.
    """
    shares = clients.weights(state.clients)[who]
    state.anchor, state.server, state.buffers, weighed = combine(
        method, model, good, shares, effective(good), worth, private
    )
    state.step = state.anchor - model.anchor
    columns = ([item.reply.reading[place] for item in good] for place in range(len(Reading._fields)))
    reading = Reading(*(np.array(column, float) for column in columns))
    if good:
        state.memory = planner.learn(state.memory, who, taken, reading)
    for item in good:
        reply = item.reply
        state.measured = costs.observe(
            state.measured,
            item.place,
            reply.steps,
            reply.step_seconds,
            item.seconds,
            poll,
            method.combine is not None,
        )
        state.clients[item.place] = state.clients[item.place]._replace(accepted=reply.round)
        state.steps[item.place] += reply.steps
    for part in state.sizes:
        sizes = [item.sizes[part] for item in good if item.lr is not None]
        state.sizes[part] = reply_checks.remember(state.sizes[part], sizes)
    state.round += 1
    return reading, weighed


def notes(good: list[AcceptedReply]) -> list[str]:
    """What must be known of clients whose work was taken all the same."""
    gone = [item.place for item in good if item.reply.lost_state]
    left_out = [(item.place, item.reply.skipped) for item in good if item.reply.skipped]
    return [f"client {place} had lost its state and began anew" for place in gone] + [
        f"client {place} left out {count} batches whose loss was not finite" for place, count in left_out
    ]
