"""Messages out and replies in, over a Flower Grid, with nobody waited for longer than asked.

Flower cancels nothing: a client that missed a deadline goes on working, and its SuperNode takes no other
message until it has answered. So whoever has not answered stays `busy`; a reply that comes after its
round is handed over all the same, for the caller to refuse, and frees the client. A message that is never
answered expires after its time to live, comes back as an error, and frees the client, too.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from amsfl.flower import internals
from amsfl.flower.messages import Order

LOOK_AROUND = 2.0  # seconds between two looks at who is still connected


Letter = tuple[int, Order | None, RecordDict]  # node, what is asked of it, the records


class SentMessage(NamedTuple):
    node: int
    kind: str  # a Flower message type: query, train, evaluate
    order: Order | None
    at: float


class Arrival(NamedTuple):
    sent: SentMessage
    message: Message
    seconds: float  # from push to pull


def gone(message: Message) -> bool:
    """Whether Flower answered in a node's place: its heartbeat stopped, or it went while its reply was on its
    way; the node said nothing wrong."""
    lost = (internals.ErrorCode.NODE_UNAVAILABLE, internals.ErrorCode.MESSAGE_UNAVAILABLE)
    return message.has_error() and message.error.code in lost


class Transport:
    """Who was sent what, and what came back."""

    def __init__(
        self,
        grid: Grid,
        poll: float = 0.2,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self.grid, self.poll, self.now, self.sleep = grid, poll, now, sleep
        self.waiting: dict[str, SentMessage] = {}
        self.ahead: set[str] = set()  # messages of the next round: their replies wait for it
        self.early: dict[str, Arrival] = {}  # and those that have come

    def nodes(self) -> set[int]:
        return {int(node) for node in self.grid.get_node_ids()}

    @property
    def busy(self) -> set[int]:
        return {sent.node for sent in self.waiting.values()}

    def forget(self, node: int) -> None:
        """A node that will never answer: it came back under another id."""
        self.waiting = {key: sent for key, sent in self.waiting.items() if sent.node != node}

    def send(self, kind: str, letters: Iterable[Letter], ttl: float) -> set[str]:
        """Push one message a node. Returns the ids of those that went out."""
        todo = list(letters)
        messages = [Message(content, node, kind, ttl=ttl) for node, _, content in todo]
        sent_at, ids = self.now(), []
        if messages:
            ids = list(self.grid.push_messages(messages))
        for key, (node, order, _) in zip(ids, todo, strict=False):
            if key:
                self.waiting[key] = SentMessage(node, kind, order, sent_at)
        return {key for key in ids if key}

    def pull(self) -> list[Arrival]:
        """All replies that have come, to whatever message."""
        if not self.waiting:
            return []
        arrivals = []
        for message in self.grid.pull_messages(list(self.waiting)):
            sent = self.waiting.pop(message.metadata.reply_to_message_id, None)
            if sent is not None:
                arrivals.append(Arrival(sent, message, self.now() - sent.at))
                key = message.metadata.reply_to_message_id
                if key in self.ahead:
                    self.early[key] = arrivals.pop()
        return arrivals

    def collect(self, ids: set[str], deadline: float, quorum: float = 1.0) -> Iterator[Arrival]:
        """Replies as they come, old ones too, until a `quorum` of `ids` is in, all are gone, or time is over.

        Whoever has not answered by then stays busy until it has.
        """
        self.ahead -= ids
        yield from [self.early.pop(key) for key in list(self.early) if key in ids]
        until, looked, spare = self.now() + deadline, self.now(), int((1 - quorum) * len(ids) + 1e-9)
        while len(open_ := ids & self.waiting.keys()) > spare:
            yield from self.pull()
            now = self.now()
            if now >= until:
                return
            if now - looked > LOOK_AROUND:
                here, looked = self.nodes(), now
                if not {self.waiting[key].node for key in open_ & self.waiting.keys()} & here:
                    return  # whoever is left has left
            if ids & self.waiting.keys():
                self.sleep(self.poll)
