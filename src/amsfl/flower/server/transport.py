"""Messages out and replies in, over a Flower Grid.

Flower cancels nothing: a client that missed a deadline goes on working, and its SuperNode takes no other
message until it has answered. So whoever has not answered stays `busy`; a reply that comes after its round is
handed over all the same and frees the client. A message that is never answered expires after its time to
live, comes back as an error, and frees the client, too.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from amsfl.flower import internals
from amsfl.flower.messages import LONGEST_TEXT, Order

LOOK_AROUND = 2.0  # seconds between two looks at who is still connected
AT_ONCE = 64 << 20  # bytes of replies that are fetched together

Letter = tuple[int, Order | None, RecordDict]  # node, what is asked of it, the records


class SentMessage(NamedTuple):
    node: int
    kind: str  # a Flower message type: query, train, evaluate
    order: Order | None
    at: float
    key: str = ""  # Flower's id of it


class Arrival(NamedTuple):
    sent: SentMessage
    message: Message
    seconds: float  # from push to pull


def is_gone(message: Message) -> bool:
    """Whether Flower answered in a node's place: its heartbeat stopped, or it left while its reply was on its
    way; the node did nothing wrong."""
    lost = (internals.ErrorCode.NODE_UNAVAILABLE, internals.ErrorCode.MESSAGE_UNAVAILABLE)
    return message.has_error() and message.error.code in lost


def error_text(message: Message) -> str:
    """Why a client or Flower answered with an error; cut, since a client wrote it."""
    return (message.error.reason or "")[:LONGEST_TEXT]


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
        self.reply_bytes = 0  # of one reply, about
        self._connected, self._looked = set[int](), -float("inf")

    def nodes(self, max_age: float = 0.0) -> set[int]:
        """Who is connected; as it was up to `max_age` seconds ago."""
        if self.now() - self._looked >= max_age:
            self._connected = {int(node) for node in self.grid.get_node_ids()}
            self._looked = self.now()
        return self._connected

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
        sent_at, keys = self.now(), list(self.grid.push_messages(messages)) if messages else []
        pairs = zip(keys, todo, strict=False)
        sent = {key: SentMessage(node, kind, order, sent_at, key) for key, (node, order, _) in pairs if key}
        self.waiting |= sent
        return {*sent}

    def pull(self) -> Iterator[Arrival]:
        """All replies that are there, to whatever message; large ones are fetched a few at a time."""
        keys, some = list(self.waiting), max(AT_ONCE // max(self.reply_bytes, 1), 1)
        for begin in range(0, len(keys), some):
            for message in self.grid.pull_messages(keys[begin : begin + some]):
                sent = self.waiting.pop(message.metadata.reply_to_message_id, None)
                if sent is not None:
                    yield Arrival(sent, message, self.now() - sent.at)
                del message  # the next one may be as large

    def collect(self, ids: set[str], deadline: float, quorum: float = 1.0) -> Iterator[Arrival]:
        """Replies as they come, others too, until a `quorum` of `ids` is in, all are gone, or time is over.

        Whoever has not answered by then stays busy until it has.
        """
        until, spare = self.now() + deadline, int((1 - quorum) * len(ids) + 1e-9)
        while len(ids & self.waiting.keys()) > spare:
            yield from self.pull()
            missing = ids & self.waiting.keys()
            connected = self.nodes(LOOK_AROUND)
            if self.now() >= until or not {self.waiting[key].node for key in missing} & connected:
                return
            self.sleep(self.poll)
