"""Work of clients that do not wait for each other: what each began from; a move of the server as a round."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from amsfl.flower import messages
from amsfl.flower.server.replies import AcceptedReply
from amsfl.flower.server.server_state import ServerState
from amsfl.flower.server.sync_round import Came
from amsfl.planning.planner import Decision
from amsfl.simulation.event_queue import all_equal


class Job(NamedTuple):
    """One order under way."""

    order: messages.Order
    node: int
    model: messages.GlobalModel  # what it began from
    version: int  # how often the server had moved by then
    own: dict[str, Any]  # why these steps: this client's part of the plan
    shared: dict[str, Any]  # and the whole plan's
    at: float


class Landed(NamedTuple):
    job: Job
    good: AcceptedReply


class Lost(NamedTuple):
    """Work that came to nothing."""

    client: int
    begin: float
    end: float
    steps: int


def came(
    state: ServerState,
    taken: Sequence[Landed],
    lost: Sequence[Lost],
    moved: float,
    began: float,
    down: float,
) -> Came:
    """What the server moves with, as a round's record has it; seconds count from the run's beginning."""
    jobs = [each.job for each in taken]
    good = [
        each.good._replace(age=state.round - each.job.version, began=each.job.model.anchor) for each in taken
    ]
    rates = np.array([job.order.lr if job.order.lr_known else np.nan for job in jobs])
    known: Any = float(rates[0]) if all_equal(rates) else rates
    seconds = moved - began - state.seconds["makespan"]
    told = jobs[-1].shared | {key: [job.own[key] for job in jobs] for key in jobs[-1].own}
    steps = np.array([job.order.steps for job in jobs])
    timeline: dict[str, Any] = {
        "staleness": [item.age for item in good],
        "started": [job.at - began for job in jobs],
        "arrived": [item.at - began for item in good],
        "dropped": [[each.client, each.begin - began, each.end - began] for each in lost],
    }
    return Came(
        Decision(steps, None if np.isnan(rates).any() else known, seconds, told),
        messages.GlobalModel(state.anchor, state.server, state.step, state.buffers),
        np.array([item.place for item in good], int),
        list(range(len(good))),
        good,
        down,
        seconds,
        timeline,
        [(each.client, each.steps) for each in lost],
    )
