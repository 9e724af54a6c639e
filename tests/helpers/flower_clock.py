"""The Flower server in one process, on a clock of its own: clients answer after as many seconds as asked."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from amsfl.clock import RoundEnd
from amsfl.flower import NumpyTrainer, numpy_client
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.server import server as server_module
from amsfl.flower.server import transport
from amsfl.flower.server.options import ServerOptions
from amsfl.flower.server.server import FlowerServer
from amsfl.settings.custom import CustomParts
from amsfl.simulation import serve_config

POLL = 0.004  # seconds of that clock between two looks


class ClockedGrid(InProcessGrid):
    """Client i replies to an order after seconds[i]; to a question after one poll."""

    def __init__(self, app: Any, seconds: list[float]):
        nodes = [{"partition-id": i, "known-step-seconds": each} for i, each in enumerate(seconds)]
        super().__init__(app, nodes)
        self.seconds, self.time, self.due = seconds, 0.0, dict[str, float]()

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def push_messages(self, messages: Any) -> Any:
        todo = list(messages)
        ids = list(super().push_messages(todo))
        for key, message in zip(ids, todo, strict=True):
            work = self.seconds[message.metadata.dst_node_id - 1000] if "order" in message.content else POLL
            self.due[key] = self.time + work
        return ids

    def answer(self, message: Any) -> Any:
        reply = super().answer(message)
        if "report" in reply.content:
            reply.content["report"]["step_seconds"] = self.seconds[message.metadata.dst_node_id - 1000]
        return reply

    def pull_messages(self, message_ids: Any) -> Any:
        ready = [key for key in message_ids if self.due[key] <= self.time]
        return super().pull_messages(sorted(ready, key=self.due.__getitem__))


def moves_of(end: RoundEnd, seconds: list[float], moves: int) -> list[tuple[Any, ...]]:
    """Of each move of the server: when, who, how old each result was, and its weight."""
    start = np.zeros(2, np.float32)
    app = numpy_client(lambda context: NumpyTrainer(10, start, lambda x, step, order: (1.0, 0 * x + 1e-3)))
    grid = ClockedGrid(app, seconds)
    settings = {"method": "fedavg", "clients": len(seconds), "rounds": moves, "steps": 1, "lr": 0.1}
    config = serve_config({**settings, "poll": POLL, "patience": 1e6, "clock": "makespan", "give_up": "1000"})
    with pytest.MonkeyPatch.context() as patch:
        ours = partial(transport.Transport, now=lambda: grid.time, sleep=grid.sleep)
        patch.setattr(server_module, "Transport", ours)
        server = FlowerServer(grid, config, ServerOptions(start=start, own=CustomParts(round_end=end)))
        _, records = server.run()
    began = min(records[0].started, default=0.0)
    return [
        (
            record.seconds["makespan"] - began,
            record.cohort,
            record.staleness or [0] * len(record.cohort),
            [share * len(record.mix) for share in record.mix],  # all clients have as many rows
        )
        for record in records
    ]
