"""The door: who comes, who is known, and why somebody was turned away."""

from typing import Any

import numpy as np
from flwr.app import ConfigRecord, MessageType, RecordDict

from amsfl.core import UserError
from amsfl.flower import wire
from amsfl.flower.server import roster
from amsfl.flower.server.post import Arrival, Post, gone
from amsfl.flower.server.roster import Seat

HELLO_SECONDS = 300.0  # time to live of a question
RETURN_SECONDS = 60.0  # how long a server that goes on waits for all of its clients


class Door:
    """Seats clients by name, lets them back in, and keeps the list of refusals since the last record."""

    def __init__(self, post: Post, clients: int, seed: int, patience: float):
        self.post, self.clients, self.seed, self.patience = post, clients, seed, patience
        self.strangers: set[int] = set()
        self.refused: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def refuse(self, client: int | None, why: str) -> None:
        self.refused.append({"client": client, "reason": why})

    def gather(self) -> list[Seat]:
        """Wait until as many clients are there as the run has seats."""
        hellos: dict[int, wire.Hello] = {}
        until = self.post.now() + self.patience
        while len(hellos) < self.clients:
            if self.post.now() > until:
                raise UserError(
                    f"{len(hellos)} of {self.clients} clients came within {self.patience:g} seconds; "
                    "start the other SuperNodes, or lower clients."
                )
            self.ask([node for node in self.post.nodes() if node not in hellos])
            for arrival in self.post.pull():
                hello = self.hello(arrival)
                if hello and any(hello.name == other.name for other in hellos.values()):
                    self.strangers.add(arrival.sent.node)
                    self.refuse(None, f"node {arrival.sent.node}: the name {hello.name!r} is taken")
                elif hello and len(hellos) < self.clients:
                    hellos[arrival.sent.node] = hello
            self.post.sleep(self.post.poll)
        return roster.seat_all(hellos)

    def first_model(self, seats: list[Seat]) -> tuple[wire.Vector, wire.Buffers]:
        """The initial model, of the first client that can give one."""
        for seat in seats:
            for arrival in self.post.collect(self.ask([seat.node], model=True), HELLO_SECONDS):
                hello = self.hello(arrival)
                if hello and hello.model.size and np.isfinite(hello.model).all():
                    return hello.model, hello.buffers
        raise UserError("No client could give the first model; look into the SuperNodes' logs.")

    def ask(self, nodes: list[int], model: bool = False) -> set[str]:
        ask: dict[str, Any] = {"model": model, "seed": self.seed}
        known = self.strangers | self.post.busy
        fresh = [node for node in nodes if node not in known]
        letters = [(node, None, RecordDict({"ask": ConfigRecord(ask)})) for node in fresh]
        return self.post.send(MessageType.QUERY, letters, HELLO_SECONDS)

    def hello(self, arrival: Arrival) -> wire.Hello | None:
        node, message = arrival.sent.node, arrival.message
        if arrival.sent.kind != MessageType.QUERY or gone(message):
            return None  # who was gone may come back and is asked again
        try:
            if message.has_error():
                raise ValueError(message.error.reason)
            hello = wire.unpack_hello(message.content)
            if hello.rows < 1:
                raise ValueError("it has no rows")
            return hello
        except (KeyError, TypeError, ValueError) as error:
            self.refuse(None, f"node {node} gave no proper hello: {error}")
            self.strangers.add(node)
            return None

    def meet(self, seats: list[Seat]) -> set[int]:
        """Nodes that are connected and free. Newcomers are asked who they are; a known name gets its seat."""
        here = self.post.nodes()
        self.ask(sorted(here - {seat.node for seat in seats}))
        for arrival in self.post.pull():
            self.stray(seats, arrival)
        return here - self.post.busy

    def regather(self, seats: list[Seat]) -> None:
        """After the server's restart everyone has a minute to come back, so that no round begins with few."""
        until = self.post.now() + RETURN_SECONDS
        while not {seat.node for seat in seats} <= self.meet(seats) and self.post.now() < until:
            self.post.sleep(self.post.poll)

    def stray(self, seats: list[Seat], arrival: Arrival) -> None:
        """A reply nobody waits for: a newcomer's hello, or work for a round that is over."""
        sent = arrival.sent
        if sent.kind == MessageType.QUERY:
            hello = self.hello(arrival)
            if hello is None:
                return
            place = roster.place_of(seats, hello.name)
            if place is None:
                self.strangers.add(sent.node)
                self.refuse(None, f"node {sent.node} ({hello.name!r}) has no seat among the {len(seats)}")
                return
            self.post.forget(seats[place].node)
            seats[place] = seats[place]._replace(node=sent.node)
            self.notes.append(f"client {place} is back as node {sent.node}")
        elif sent.order is not None:
            what = f"error {arrival.message.error.reason!r}" if arrival.message.has_error() else "work"
            why = f"late reply: {what} for round {sent.order.round + 1} came after {arrival.seconds:.1f} s"
            self.refuse(sent.order.client, why)
