"""Registration: which clients take part, under which names, and why somebody was refused."""

from collections import Counter
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from flwr.app import ConfigRecord, MessageType, RecordDict

from amsfl.core import UserError
from amsfl.flower import messages
from amsfl.flower.messages import Hello
from amsfl.flower.server import clients, costs
from amsfl.flower.server.clients import RegisteredClient
from amsfl.flower.server.server_state import ServerState
from amsfl.flower.server.transport import Arrival, Transport, error_text, is_gone
from amsfl.simulation import ServeConfig

HELLO_SECONDS = 300.0  # time to live of a question
RETURN_SECONDS = 60.0  # how long a server that goes on waits for all of its clients
LONGEST_REASON = 300  # characters: clients write parts of it
LONGEST_NAME = 100  # characters of a client's name
AGAIN = 1.0  # seconds until a node whose hello failed is asked again; twice as many each time
TRIES = 10  # failed hellos of a node


class Registration:
    """Registers clients by name, lets them back in, and keeps the refusals since the last record.

    A name belongs to the node that registered it first. Another node gets it when the first is gone; where
    nodes are `keyed` (Flower gives them the same id each time) it never does. A client that cannot take a
    step as `private` says is not let in. `on_refusal` is called with every refusal at once.
    """

    def __init__(
        self,
        transport: Transport,
        config: ServeConfig,
        private: Mapping[str, Any],
        on_refusal: Callable[[dict[str, Any]], None],
    ):
        self.transport, self.config, self.private, self.on_refusal = transport, config, private, on_refusal
        self.speeds: dict[str, float] = {}  # seconds a step, as clients say when they register, by name
        self.rejected_nodes: dict[int, float] = {}  # and when each is asked again
        self.failed_hellos = Counter[int]()  # by node
        self.newcomers: dict[int, Hello] = {}  # nodes of clients that join before the next round
        self.claims: dict[int, str] = {}  # nodes that wait for a name that another one holds
        self.refused: list[dict[str, Any]] = []
        self.notes: list[str] = []
        # takes a reply to an order, if it is one that is waited for
        self.take_reply: Callable[[ServerState, Arrival], bool] = lambda state, arrival: False

    def refuse(self, client: int | None, why: str) -> None:
        """A client's reply, with a reason for the record; the same reason once a round."""
        item = {"client": client, "reason": short(why)}
        if item not in self.refused:
            self.refused.append(item)
            self.on_refusal(item)

    def reject(self, node: int, why: str, failed: bool = False) -> None:
        """A node is not asked while it is connected; one that `failed` is, now and then."""
        self.failed_hellos[node] += failed
        count = self.failed_hellos[node]
        wait = AGAIN * 2 ** (count - 1) if failed and count < TRIES else inf
        self.rejected_nodes[node] = self.transport.now() + wait
        self.refuse(None, why)

    def gather(self) -> list[RegisteredClient]:
        """Wait until as many clients are registered as the run has."""
        hellos: dict[int, Hello] = {}
        wanted, patience = self.config.clients, self.config.patience
        until = self.transport.now() + patience
        while len(hellos) < wanted:
            here = self.transport.nodes()
            if not hellos and len(here) >= wanted and here <= self.rejected_nodes.keys():
                raise UserError(
                    f"None of {len(here)} clients could register{self.first_reason()}; mend the ClientApp, "
                    "and try it in an InProcessGrid first."
                )
            if self.transport.now() > until:
                raise UserError(
                    f"{len(hellos)} of {wanted} clients came within {patience:g} seconds"
                    f"{self.first_reason()}; start the other SuperNodes, or lower clients."
                )
            self.ask([node for node in here if node not in hellos], probe=True)
            for arrival in self.transport.pull():
                hello, node = self.hello(arrival), arrival.sent.node
                if hello and any(hello.name == other.name for other in hellos.values()):
                    self._wait_for(hello.name, node, "is taken")
                elif hello and len(hellos) < wanted:
                    hellos[node] = hello
            self._drop_lost(hellos)
            self.transport.sleep(self.transport.poll)
        self.speeds = {hello.name: hello.step_seconds for hello in hellos.values()}
        registered = clients.registered_clients(hellos)
        self.notes += [
            f"client {who} says it has {client.rows} rows, far more than the others; it counts as {rows:.0f}"
            for who, (client, rows) in enumerate(zip(registered, clients.believed(registered), strict=True))
            if rows < client.rows
        ]
        return registered

    def _drop_lost(self, hellos: dict[int, Hello]) -> None:
        """Those who are gone and whose name another node waits for: that one is asked again."""
        here, wanted = self.transport.nodes(), {*self.claims.values()}
        if not self.config.keyed:
            for node in {node for node, hello in hellos.items() if hello.name in wanted} - here:
                del hellos[node]
        names = {hello.name for hello in hellos.values()}
        self.claims = {node: name for node, name in self.claims.items() if node in here and name in names}

    def ask(self, nodes: list[int], model: bool = False, probe: bool = False) -> set[str]:
        """Who they are; with `probe` how long a step takes them, for which they have more time."""
        config, now = self.config, self.transport.now()
        question: dict[str, Any] = {"model": model, "seed": config.seed, "probe": probe}
        question |= {"batch": config.batch, **self.private}
        rejected = {node for node, again in self.rejected_nodes.items() if now < again}
        skipped = rejected | self.transport.busy | self.claims.keys()
        fresh = [node for node in nodes if node not in skipped]
        letters = [(node, None, RecordDict({"ask": ConfigRecord(question)})) for node in fresh]
        longest = max(HELLO_SECONDS, config.patience) if probe else HELLO_SECONDS
        return self.transport.send(MessageType.QUERY, letters, longest)

    def hello(self, arrival: Arrival) -> Hello | None:
        node, message = arrival.sent.node, arrival.message
        if arrival.sent.kind != MessageType.QUERY or is_gone(message):
            return None  # who was gone may come back and is asked again
        try:
            if message.has_error():
                raise ValueError(error_text(message))
            hello = messages.unpack_hello(message.content)
            if hello.rows < 1:
                raise ValueError("it has no rows")
            if not hello.name or len(hello.name) > LONGEST_NAME or not hello.name.isprintable():
                raise ValueError(f"a name has 1 to {LONGEST_NAME} printable characters")
            if self.private and hello.open:
                raise ValueError(f"client {hello.name!r} cannot keep rows private. {hello.open}")
            amounts, notes = costs.credible_amounts(hello.name, hello.spends)
            self.notes += [note for note in notes if note not in self.notes]
            self.rejected_nodes.pop(node, None)
            speed = hello.step_seconds if 0 < hello.step_seconds < costs.LONGEST_STEP else 0.0
            return hello._replace(spends=amounts, step_seconds=speed)
        except Exception as error:  # a client's bytes, see reply_checks.py
            self.reject(node, f"node {node} gave no proper hello: {error}", failed=True)
            return None

    def admit(self, state: ServerState, max_age: float = 0.0) -> set[int]:
        """Take in what has arrived, and ask newcomers who they are. Who is free, of the nodes that were
        connected up to `max_age` seconds ago."""
        here = self.transport.nodes(max_age)
        self.rejected_nodes = {node: again for node, again in self.rejected_nodes.items() if node in here}
        self.ask(sorted(here - {client.node for client in state.clients} - self.newcomers.keys()))
        for arrival in self.transport.pull():
            self.take(state, arrival)
            del arrival  # the next one may be as large
        for node, name in list(self.claims.items()):
            if node not in here or self._rejoin(state.clients, node, name):
                del self.claims[node]
        return here - self.transport.busy

    def regather(self, state: ServerState) -> None:
        """After the server's restart everyone has a minute to come back, so that no round begins with few."""
        until = self.transport.now() + RETURN_SECONDS
        while self.transport.now() < until:
            free = self.admit(state)
            if {client.node for client in state.clients} <= free:
                return
            self.transport.sleep(self.transport.poll)

    def take(self, state: ServerState, arrival: Arrival) -> None:
        """A newcomer's hello, a reply that is waited for, or work for a round that is over."""
        sent = arrival.sent
        if sent.kind == MessageType.QUERY:
            hello = self.hello(arrival)
            if hello is not None:
                self._welcome(state.clients, sent.node, hello)
        elif sent.order is not None and not self.take_reply(state, arrival):
            failed = arrival.message.has_error()
            what = f"error {error_text(arrival.message)[:LONGEST_REASON]!r}" if failed else "work"
            why = f"late reply: {what} for round {sent.order.round + 1} came after {arrival.seconds:.1f} s"
            self.refuse(sent.order.client, why)
            state.measured = costs.learn_late(state.measured, arrival, self.transport.poll)

    def _welcome(self, registered: list[RegisteredClient], node: int, hello: Hello) -> None:
        """A known name's node may take its place again, a new one join; others are told why not."""
        name = hello.name
        who = clients.index_of(registered, name)
        if who is None and any(name == other.name for other in self.newcomers.values()):
            self._wait_for(name, node, "is that of a node that has just joined")
        elif who is None:
            if why := self._cannot_join(registered, hello):
                self.reject(node, f"node {node} ({name!r}) cannot join: {why}")
            else:
                self.newcomers[node] = hello
        elif not self._rejoin(registered, node, name):
            why = "whose key it is" if self.config.keyed else "which is still connected"
            self._wait_for(name, node, f"is node {registered[who].node}'s, {why}")

    def _cannot_join(self, registered: list[RegisteredClient], hello: Hello) -> str | None:
        """Why a client cannot join those who are there and those who wait."""
        if len(registered) + len(self.newcomers) >= self.config.most_clients:
            return f"it is not one of the {len(registered)} registered clients"
        if hello.own_optimizer != (2 * sum(client.own_optimizer for client in registered) > len(registered)):
            return "it moves by an optimizer of its own, or the others do, and all must do the same"
        if not set.intersection(*({*client.spends} for client in registered)) <= {*hello.spends}:
            return "it does not say what its work spends, and the others do"
        return None

    def _wait_for(self, name: str, node: int, why: str) -> None:
        self.claims[node] = name
        self.refuse(None, f"node {node}: the name {name!r} {why}")

    def _rejoin(self, registered: list[RegisteredClient], node: int, name: str) -> bool:
        """Let a node have that name, if whoever has it is gone and need not come back."""
        who = clients.index_of(registered, name)
        if who is None or self.config.keyed or registered[who].node in self.transport.nodes():
            return False
        self.transport.forget(registered[who].node)
        registered[who] = registered[who]._replace(node=node)
        self.notes.append(f"client {who} is back as node {node}")
        return True

    def first_reason(self) -> str:
        """Of the refusals since the last record; "" where there is none."""
        return f" ({self.refused[0]['reason']})" if self.refused else ""


def short(text: str) -> str:
    """One line that a terminal and a record can bear; cut first, since a client wrote it."""
    line = "".join(sign if sign.isprintable() else " " for sign in text[: LONGEST_REASON + 1])
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 3] + "..."
