"""Clients that join a run under way, where `most_clients` lets them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from amsfl.core import UserError
from amsfl.flower.messages import Hello
from amsfl.flower.server import costs
from amsfl.flower.server.clients import RegisteredClient, registered_client
from amsfl.flower.server.server_state import ServerState
from amsfl.simulation import ServeConfig

if TYPE_CHECKING:
    from amsfl.flower.server.server import FlowerServer


def check(config: ServeConfig, private: bool) -> None:
    if config.most_clients and (private or config.worth):
        why = "noise and budgets of privacy are" if private else "a ledger of contributions is"
        raise UserError(f"Clients cannot join later: {why} for those who begin. Leave most_clients out.")


def refusal(registered: Sequence[RegisteredClient], waiting: int, most: int, hello: Hello) -> str | None:
    """Why a client cannot join those who are there, and `waiting` others; None where it can."""
    if len(registered) + waiting >= most:
        return f"it is not one of the {len(registered)} registered clients"
    if hello.own_optimizer != (2 * sum(client.own_optimizer for client in registered) > len(registered)):
        return "it moves by an optimizer of its own, or the others do, and all must do the same"
    if not set.intersection(*({*client.spends} for client in registered)) <= {*hello.spends}:
        return "it does not say what its work spends, and the others do"
    return None


def join(server: "FlowerServer", state: ServerState) -> None:
    """Let in who came while the last round was under way: from now on plans are for them, too."""
    fresh = server.registration.newcomers
    if not fresh:
        return
    server.registration.newcomers, first = {}, len(state.clients)
    state.add_clients([registered_client(*pair) for pair in fresh.items()])
    state.measured = costs.add_clients(state.measured, [hello.step_seconds for hello in fresh.values()])
    server.meet(state.clients, state.anchor.size)
    server.planner = server.plan_for(state.clients)
    state.memory = state.memory.grown(server.planner.start())
    for who, client in enumerate(state.clients[first:], first):
        server.registration.notes.append(f"client {who} ({client.name!r}) joined after round {state.round}")
    if server.writer:
        server.writer.describe({"clients": {"names": server.names}})
