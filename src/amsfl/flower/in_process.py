"""A dress rehearsal: the real ClientApps and the real server in one process, with no Flower process at all.

    grid = InProcessGrid(client_app, nodes=[{"partition-id": i} for i in range(3)])
    AMSFL().start(grid, initial_arrays, num_rounds=5)

To try an app before it is deployed, and to test. Messages are worked off when the server looks for replies,
one after another, and say when they would have come had all nodes worked at once; contexts live as long as
the grid, as they do on a SuperNode.
"""

import time
import traceback
from collections.abc import Iterable, Sequence
from itertools import count
from secrets import randbits
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from amsfl.flower import internals


class InProcessGrid(Grid):
    """A Grid of `nodes` (their node-configs), all running `app`."""

    stamps = True  # replies say when they came (round_grid.py)
    poll = 0.001  # seconds between two looks for replies

    def __init__(
        self, app: ClientApp, nodes: Sequence[dict[str, Any]], run_config: dict[str, Any] | None = None
    ):
        task = internals.TaskIdentity  # a Message asks which task of which run is speaking
        task.run_id, task.node_id, task.task_id = randbits(63), 1, 1  # a rehearsal is a Flower run of its own
        self.app = app
        self.contexts = {
            node: Context(task.run_id, node, dict(config), RecordDict(), dict(run_config or {}))
            for node, config in enumerate(nodes, 1000)
        }
        self.posted: dict[str, Message] = {}
        self.shown: set[str] = set()  # errors whose tracebacks were printed
        self.numbers, self.answered, self.seconds = count(1), 0, 0.0

    def get_node_ids(self) -> Iterable[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        ids = []
        for message in messages:
            key = f"message-{next(self.numbers)}"
            message.metadata.__dict__["_message_id"] = key
            self.posted[key] = message
            ids.append(key)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        due = [self.posted.pop(key) for key in message_ids if key in self.posted]
        return [self.answer(message) for message in due]

    def answer(self, message: Message) -> Message:
        """What the node replies; an exception of the app becomes an error as in Flower, and is shown once.

        Args:
            message: To one node.

        Returns:
            Its reply, with the time at which it would have come.
        """
        began = time.perf_counter()
        try:
            reply = self.app(message, self.contexts[message.metadata.dst_node_id])
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            if why not in self.shown:  # a server asks again and again
                traceback.print_exc()
            self.shown.add(why)
            reply = Message(Error(internals.ErrorCode.CLIENT_APP_RAISED_EXCEPTION, why), reply_to=message)
        took = time.perf_counter() - began
        self.answered, self.seconds = self.answered + 1, self.seconds + took
        reply.metadata.created_at = message.metadata.created_at + took
        return reply

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))

    def set_run(self, run: Any) -> None:
        raise NotImplementedError("a rehearsal has no Flower run")

    @property
    def run(self) -> Any:
        raise NotImplementedError("a rehearsal has no Flower run")

    def create_message(self, *args: Any, **settings: Any) -> Message:
        raise NotImplementedError("use Message(...)")
