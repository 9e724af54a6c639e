"""A Grid around Flower's that says when a round ends, for any Strategy.

    strategy.start(grid=RoundGrid(grid, quorum=0.8, deadline=60), ...)

Flower's own waits for all, and looks for replies every three seconds; this one looks every `poll` seconds.
What ends a round is one object (clock/round_end.py), the same that a simulation's event queue asks.

Flower cancels nothing: a node that is late goes on working, and is sent nothing before it has answered. Its
reply comes with a later round's (`late="use"`), with the `group_id` that it was sent with, by which AMSFL
knows the arrays that it began from; for strategies that do not, `late="drop"`.
"""

import time
from collections.abc import Iterable
from typing import Any, Literal

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

from amsfl import clock
from amsfl.clock import RoundEnd
from amsfl.core import UserError
from amsfl.flower import internals

LOOK_AROUND = 2.0  # seconds between two looks at who is still connected
_BEGAN = time.time() - time.monotonic()


def steady_time() -> float:
    """Seconds since 1970 by a clock that never jumps."""
    return _BEGAN + time.monotonic()


@Grid.register  # isinstance says so, and what is not here is the inner one's
class RoundGrid:
    """Ends rounds by a quorum, a deadline, or from any so many replies.

    Args:
        grid: Flower's.
        quorum: How many good replies of a round's own end it, or which share of them.
        deadline: Seconds after which it ends with those who are in.
        buffer: So many replies, to whatever round, end it; nodes never wait for each other.
        end: A round end of your own, in place of these three.
        late: Whether a reply that missed its round is used in a later one or dropped; used, if left out.
        poll: Seconds between two looks; a tenth, if left out.
    """

    def __init__(
        self,
        grid: Grid,
        *,
        quorum: float | None = None,
        deadline: float | None = None,
        buffer: int | None = None,
        end: RoundEnd | None = None,
        late: Literal["use", "drop"] | None = None,
        poll: float | None = None,
    ):
        if sum(each is not None for each in (buffer, end, quorum or deadline)) > 1:
            raise UserError("A buffer or an end of your own goes alone: leave quorum and deadline out.")
        if buffer is not None:
            end = clock.round_end(f"buffer:{buffer}")
        if late not in (None, "use", "drop"):
            raise UserError(f"late is {late!r}; it may be 'use' or 'drop'.")
        usual = "drop" if end is not None and end.late == "drop" else "use"
        self.grid, self.late, self.poll = grid, late or usual, poll or float(getattr(grid, "poll", 0.1))
        self.weight = clock.staleness("sqrt") if end is None else end.weight  # of late work, by its age
        self.quorum, self.deadline, self.end = quorum, deadline, end
        self.open: dict[str, tuple[int, str, float]] = {}  # messages: to whom, train or evaluate, when sent
        self.pushed: dict[str, float] = {}  # when orders left whose replies are handed on or wait
        self.waiting: list[Message] = []  # replies that came while something else was waited for
        self.now = getattr(grid, "now", steady_time)
        self.sleep = getattr(grid, "sleep", time.sleep)
        self.predicted: float | None = None  # seconds of the slowest node, where the strategy plans
        self._connected, self._looked = set[int](), -float("inf")
        if type(grid).__module__.startswith("flwr."):
            internals.retry_soon(internals.GRID)

    @property
    def busy(self) -> set[int]:
        """Nodes that have not answered yet."""
        return {node for node, *_ in self.open.values()}

    @property
    def overlaps(self) -> bool:
        """Whether nodes start again without waiting for the others."""
        return self.end is not None and self.end.overlap

    def _round_end(self, asked: int) -> RoundEnd:
        """What ends a round in which so many nodes were asked."""
        if self.end is not None:
            return self.end
        share = self.quorum is not None and self.quorum < 1
        kind = "all" if self.quorum is None else f"quorum:{self.quorum:g}"
        end = clock.round_end(kind, max(asked, 1) if share else None)
        if self.deadline is None:
            return end
        return end._replace(deadline=clock.round_end(f"deadline:{self.deadline:g}").deadline)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Send to those who are free, and collect until the round is over."""
        every, busy = list(messages), self.busy
        if not every:
            return []
        kind, orders = every[0].metadata.message_type, {each.metadata.dst_node_id: each for each in every}
        sent = self._send([each for node, each in orders.items() if node not in busy])
        trains, began = kind == MessageType.TRAIN, self.now()
        end = self._round_end(len(orders))
        deadline, got = end.deadline(began, self.predicted), list[Message]()
        if trains:
            got, self.waiting = self.waiting, []
        while True:
            for key, reply in self._pull():
                _, asked, self.pushed[key] = self.open.pop(key)
                if asked == kind and (key in sent or (trains and self.late == "use")):
                    got.append(reply)
                elif asked == MessageType.TRAIN and self.late == "use":
                    self.waiting.append(reply)
            arrived = sum(not each.has_error() for each in got)
            expected, now = self._expected(kind), self.now()
            late = deadline is not None and now >= deadline and bool(got)
            spent = timeout is not None and now >= began + timeout
            if not expected or late or spent or (arrived and end.ready(arrived, expected, now, began)):
                got, more = got[: end.size], got[end.size :] if end.size else []
                self.waiting += more
                kept = {each.metadata.reply_to_message_id for each in got + self.waiting}
                for key in self.pushed.keys() - kept:
                    del self.pushed[key]
                return got
            if end.overlap and trains:  # who has answered goes on, from the same model
                idle = orders.keys() - self.busy
                sent |= self._send([again(orders[node]) for node in orders if node in idle])
            self.sleep(self.poll)

    def _send(self, messages: list[Message]) -> set[str]:
        keys = list(self.grid.push_messages(messages)) if messages else []
        sent = {key: each.metadata for key, each in zip(keys, messages, strict=False) if key}
        now = self.now()
        self.open |= {key: (about.dst_node_id, about.message_type, now) for key, about in sent.items()}
        return {*sent}

    def _pull(self) -> Iterable[tuple[str, Message]]:
        """Replies that are there, to whatever was sent, each with the time at which it came."""
        for reply in self.grid.pull_messages(list(self.open)) if self.open else ():
            key = reply.metadata.reply_to_message_id
            if key in self.open:
                if not getattr(self.grid, "stamps", False):  # a site's own clock may be wrong
                    reply.metadata.created_at = self.now()
                yield key, reply

    def _expected(self, kind: str) -> int:
        """How many are at work and connected: nobody waits for the others."""
        some = [node for node, asked, _ in self.open.values() if asked == kind]
        if some and self.now() - self._looked >= LOOK_AROUND:
            self._connected, self._looked = set(map(int, self.grid.get_node_ids())), self.now()
        return sum(node in self._connected for node in some)

    def __getattr__(self, name: str) -> Any:
        """All else is the inner grid's."""
        return getattr(self.grid, name)


def again(order: Message) -> Message:
    """The same order once more, to a node that has answered before the round is over: with other
    minibatches."""
    content = RecordDict(dict(order.content))
    name, config = next(iter(content.config_records.items()))
    content[name] = ConfigRecord(dict(config) | {"repeat": int(config.get("repeat", 0)) + 1})
    order.content = content
    about = order.metadata
    return Message(content, about.dst_node_id, about.message_type, group_id=about.group_id)
