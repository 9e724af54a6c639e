"""Flower's messages in one process, on a clock of its own: nodes answer after as many seconds as asked."""

from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from amsfl.clock import RoundEnd
from amsfl.flower import AMSFL, InProcessGrid, RoundGrid

POLL = 0.004  # seconds of that clock between two looks
PLAIN: dict[str, Any] = {"momentum": 0.0, "balance": 0.0, "cooling": False, "judge": False}

Seconds = Callable[[int, Message], float]  # of a node, by its number, for a message


class VirtualGrid(InProcessGrid):
    """Node i replies to a message after seconds(i, message)."""

    def __init__(self, app: ClientApp, nodes: int, seconds: Seconds):
        super().__init__(app, [{"partition-id": i} for i in range(nodes)])
        self.seconds_of, self.time, self.due = seconds, 1e9, dict[str, float]()
        self.gone = set[int]()

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def get_node_ids(self) -> Any:
        return [node for node in super().get_node_ids() if node - 1000 not in self.gone]

    def push_messages(self, messages: Any) -> Any:
        todo = list(messages)
        ids = list(super().push_messages(todo))
        for key, message in zip(ids, todo, strict=True):
            message.metadata.created_at = self.time
            self.due[key] = self.time + self.seconds_of(message.metadata.dst_node_id - 1000, message)
        return ids

    def answer(self, message: Message) -> Message:
        reply = super().answer(message)
        reply.metadata.created_at = self.due[message.metadata.message_id]
        return reply

    def pull_messages(self, message_ids: Any) -> Any:
        here = [key for key in message_ids if key in self.posted and self.due[key] <= self.time]
        ready = [key for key in here if self.posted[key].metadata.dst_node_id - 1000 not in self.gone]
        return super().pull_messages(sorted(ready, key=self.due.__getitem__))


def steps_of(message: Message) -> int:
    """How many steps a message asks for; 0 of one that asks for scores."""
    return int(next(iter(message.content.config_records.values())).get("local-steps", 0))


def arrays_of(vector: Any) -> ArrayRecord:
    return ArrayRecord({"x": Array(np.asarray(vector, np.float32))})


def stock_app(
    change: Callable[[int, Any, dict[str, Any]], Any], rows: Any = 10, mods: Any = (), **told: Any
) -> ClientApp:
    """A client as Flower's quickstart has one: `change(i, x, config)` is what node i adds to the model;
    `told` are further metrics, numbers or functions of (i, x, config); `rows` likewise."""
    app = ClientApp(mods=[*mods])

    @app.train()
    def train(message: Message, context: Any) -> Message:
        config, node = dict(message.content["config"]), int(context.node_config["partition-id"])
        x = message.content["arrays"]["x"].numpy()
        said = {"num-examples": rows, **told}
        said = {key: each(node, x, config) if callable(each) else each for key, each in said.items()}
        arrays = arrays_of(x + np.asarray(change(node, x, config), np.float32))
        content = RecordDict({"arrays": arrays, "metrics": MetricRecord(said)})
        return Message(content, reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Any) -> Message:
        loss = float(message.content["arrays"]["x"].numpy().sum())
        score = MetricRecord({"num-examples": 10, "loss": loss})
        return Message(RecordDict({"metrics": score}), reply_to=message)

    return app


def moves_of(end: RoundEnd, seconds: list[float], moves: int) -> list[tuple[Any, ...]]:
    """Of each move of the server: when, who, how old each result was, and its weight."""
    app = stock_app(lambda *_: 1e-3)
    grid = VirtualGrid(app, len(seconds), lambda i, message: seconds[i] if steps_of(message) else 0.0)
    records: list[Any] = []
    strategy = AMSFL(steps=1, fraction_evaluate=0.0, **PLAIN)
    for node, each in zip(grid.contexts, seconds, strict=True):
        strategy.nodes.places([node])
        strategy.nodes.each[node].step_seconds, strategy.nodes.each[node].rest_seconds = each, 0.0
    began = grid.now()
    times: list[float] = []
    strategy.stop = lambda record: bool(records.append(record) or times.append(grid.now() - began))
    strategy.start(RoundGrid(grid, end=end, poll=POLL), arrays_of(np.zeros(2)), num_rounds=moves)
    order = [*strategy.nodes.each]
    whose = [[order[who] - 1000 for who in record.cohort] for record in records]
    worth = [[share * len(record.mix) for share in record.mix] for record in records]
    return [*zip(times, whose, [record.staleness for record in records], worth, strict=True)]
