"""The door: who comes, who is known, and why somebody was turned away."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, MessageType, RecordDict

from amsfl.core import UserError
from amsfl.flower import messages
from amsfl.flower.server import best_model, clients
from amsfl.flower.server.clients import RegisteredClient
from amsfl.flower.server.spending import check_said
from amsfl.flower.server.transport import Arrival, Transport, gone

HELLO_SECONDS = 300.0  # time to live of a question
RETURN_SECONDS = 60.0  # how long a server that goes on waits for all of its clients
LONGEST = 300  # characters of a reason: clients write parts of it
LONGEST_STEP = 24 * 3600.0  # seconds; more is not believed
NAME = 100  # characters of a client's name


class Registration:
    """Seats clients by name, lets them back in, and keeps the list of refusals since the last record.

    A name belongs to the node that said it first. Another node gets it when the first is gone; where nodes
    are `keyed` (Flower knows them by their keys, under the same id each time) it never does.
    `tell` hears of every refusal at once. Newcomers measure a step with minibatches of `batch` rows; 0:
    nobody does. With `private` it is a private step, and a client that cannot take one is not let in.
    """

    def __init__(
        self,
        transport: Transport,
        clients: int,
        seed: int,
        patience: float,
        keyed: bool = False,
        tell: Callable[[dict[str, Any]], None] | None = None,
        batch: int = 0,
        private: Mapping[str, Any] | None = None,
    ):
        self.transport, self.clients, self.seed, self.patience = transport, clients, seed, patience
        self.keyed, self.tell, self.batch, self.private = keyed, tell, batch, private or {}
        self.speeds: dict[str, float] = {}  # seconds a step, as clients say when they come, by name
        self.rejected_nodes: set[int] = set()
        self.claims: dict[int, str] = {}  # nodes that wait for a name that another one holds
        self.refused: list[dict[str, Any]] = []
        self.undone: list[tuple[int, int]] = []  # clients and steps of orders that came to nothing
        self.notes: list[str] = []
        self.late: list[Arrival] = []  # replies to orders of rounds that are over
        # where rounds do not wait for all: takes a reply, if it is one that somebody waits for
        self.landing: Callable[[Arrival], bool] = lambda arrival: False

    def refuse(self, client: int | None, why: str, undone: int = 0) -> None:
        """The same refusal of somebody who is asked again and again is told once a round.

        `undone`: steps of its order, where the client says itself that it did not do them.
        """
        if client is not None and undone:
            self.undone.append((client, undone))
        item = {"client": client, "reason": short(why)}
        if item not in self.refused:
            self.refused.append(item)
            if self.tell:
                self.tell(item)

    def gather(self) -> list[RegisteredClient]:
        """Wait until as many clients are there as the run has seats."""
        hellos: dict[int, messages.Hello] = {}
        until = self.transport.now() + self.patience
        while len(hellos) < self.clients:
            if not hellos and len(self.rejected_nodes) >= self.clients:
                raise UserError(
                    f"None of {len(self.rejected_nodes)} clients could say who it is "
                    f"({self.refused[0]['reason']}); mend the ClientApp, and try it in a InProcessGrid first."
                )
            if self.transport.now() > until:
                why = f" ({self.refused[0]['reason']})" if self.refused else ""
                raise UserError(
                    f"{len(hellos)} of {self.clients} clients came within {self.patience:g} seconds{why}; "
                    "start the other SuperNodes, or lower clients."
                )
            self.ask([node for node in self.transport.nodes() if node not in hellos], probe=bool(self.batch))
            for arrival in self.transport.pull():
                hello = self.hello(arrival)
                if hello and any(hello.name == other.name for other in hellos.values()):
                    self.rejected_nodes.add(arrival.sent.node)
                    self.refuse(None, f"node {arrival.sent.node}: the name {hello.name!r} is taken")
                elif hello and hello.open:
                    raise UserError(f"Client {hello.name!r} cannot keep rows private. {short(hello.open)}")
                elif hello and len(hellos) < self.clients:
                    hellos[arrival.sent.node] = hello
            self.transport.sleep(self.transport.poll)
        speeds = {hello.name: hello.step_seconds for hello in hellos.values()}
        self.speeds = {name: each for name, each in speeds.items() if 0 < each < LONGEST_STEP}
        registered = clients.registered_clients(hellos)
        for place, (client, rows) in enumerate(zip(registered, clients.believed(registered), strict=True)):
            if rows < client.rows:
                said = f"client {place} says it has {client.rows} rows, far more than the others"
                self.notes.append(f"{said}; it counts as {rows:.0f}")
        return registered

    def first_model(self, registered: list[RegisteredClient]) -> messages.Hello:
        """The initial model, of the first client that can give one."""
        for client in registered:
            for arrival in self.transport.collect(self.ask([client.node], model=True), HELLO_SECONDS):
                hello = self.hello(arrival)
                if hello and hello.model.size and np.isfinite(hello.model).all():
                    wrong = best_model.check(hello.tensors, hello.model.size) if hello.tensors else None
                    if wrong is None:
                        return hello
                    self.notes.append(f"the names of the model's tensors are not kept: {wrong}")
                    return hello._replace(tensors=())
        why = f" ({self.refused[0]['reason']})" if self.refused else ""
        raise UserError(f"No client could give the first model{why}; look into the SuperNodes' logs.")

    def ping(self, registered: list[RegisteredClient]) -> list[float]:
        """Seconds of an exchange in which nothing is done: so that the first plan need not guess them.

        Everybody has just measured a step, so processes are up, and answers soon there. 0 for who gives none.
        """
        found = dict[int, float]()
        for arrival in self.transport.collect(
            self.ask([client.node for client in registered]), HELLO_SECONDS
        ):
            if self.hello(arrival) is not None:
                found[arrival.sent.node] = arrival.seconds
        return [found.get(client.node, 0.0) for client in registered]

    def ask(self, nodes: list[int], model: bool = False, probe: bool = False) -> set[str]:
        """Who they are; with `probe` how long a step takes them, for which they have more time."""
        ask: dict[str, Any] = {"model": model, "seed": self.seed, "probe": probe, "batch": self.batch}
        ask |= self.private
        known = self.rejected_nodes | self.transport.busy | self.claims.keys()
        fresh = [node for node in nodes if node not in known]
        letters = [(node, None, RecordDict({"ask": ConfigRecord(ask)})) for node in fresh]
        longest = max(HELLO_SECONDS, self.patience) if probe else HELLO_SECONDS
        return self.transport.send(MessageType.QUERY, letters, longest)

    def hello(self, arrival: Arrival) -> messages.Hello | None:
        node, message = arrival.sent.node, arrival.message
        if arrival.sent.kind != MessageType.QUERY or gone(message):
            return None  # who was gone may come back and is asked again
        try:
            if message.has_error():
                raise ValueError(message.error.reason)
            hello = messages.unpack_hello(message.content)
            if hello.rows < 1:
                raise ValueError("it has no rows")
            check_said(hello.spends)
            if not hello.name or len(hello.name) > NAME or not hello.name.isprintable():
                raise ValueError(f"a name has 1 to {NAME} printable characters")
            return hello
        except Exception as error:  # strangers' bytes, see accept.py
            self.refuse(None, f"node {node} gave no proper hello: {error}")
            self.rejected_nodes.add(node)
            return None

    def meet(self, registered: list[RegisteredClient]) -> set[int]:
        """Nodes that are connected and free. Newcomers are asked who they are; a known name gets its seat."""
        here = self.transport.nodes()
        self.ask(sorted(here - {client.node for client in registered}))
        for arrival in self.transport.pull():
            self.stray(registered, arrival)
        for node, name in list(self.claims.items()):
            if node not in here or self._sit(registered, node, name):
                del self.claims[node]
        return here - self.transport.busy

    def regather(self, registered: list[RegisteredClient]) -> None:
        """After the server's restart everyone has a minute to come back, so that no round begins with few."""
        until = self.transport.now() + RETURN_SECONDS
        while (
            not {client.node for client in registered} <= self.meet(registered)
            and self.transport.now() < until
        ):
            self.transport.sleep(self.transport.poll)

    def stray(self, registered: list[RegisteredClient], arrival: Arrival) -> None:
        """A reply nobody waits for: a newcomer's hello, or work for a round that is over."""
        sent = arrival.sent
        if sent.kind == MessageType.QUERY:
            hello = self.hello(arrival)
            if hello is None:
                return
            place = clients.place_of(registered, hello.name)
            if place is None:
                self.rejected_nodes.add(sent.node)
                self.refuse(
                    None, f"node {sent.node} ({hello.name!r}) has no seat among the {len(registered)}"
                )
                return
            if not self._sit(registered, sent.node, hello.name):
                self.claims[sent.node] = hello.name
                holder = registered[place].node
                why = "whose key it is" if self.keyed else "which is still connected"
                self.refuse(None, f"node {sent.node}: the name {hello.name!r} is node {holder}'s, {why}")
        elif sent.order is not None and not self.landing(arrival):
            what = f"error {arrival.message.error.reason!r}" if arrival.message.has_error() else "work"
            why = f"late reply: {what} for round {sent.order.round + 1} came after {arrival.seconds:.1f} s"
            self.refuse(sent.order.client, why)
            self.late.append(arrival)

    def _sit(self, registered: list[RegisteredClient], node: int, name: str) -> bool:
        """Give a node the seat of that name, if whoever has it is gone and need not come back."""
        place = clients.place_of(registered, name)
        if place is None or self.keyed or registered[place].node in self.transport.nodes():
            return False
        self.transport.forget(registered[place].node)
        registered[place] = registered[place]._replace(node=node)
        self.notes.append(f"client {place} is back as node {node}")
        return True


def short(text: str) -> str:
    """One line that a terminal and a record can bear."""
    line = "".join(sign if sign.isprintable() else " " for sign in text)
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."
