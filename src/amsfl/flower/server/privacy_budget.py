"""Privacy on the server: what clients may still be asked for, and what orders say of it.

The server plans with the ledger, and every round's record has what it comes to. It believes a site that has
counted more steps than it knows of (orders that a killed server had sent), never fewer.
"""

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from amsfl import privacy
from amsfl.clock import RoundEnd
from amsfl.core import UserError
from amsfl.flower import messages
from amsfl.flower.server.clients import RegisteredClient, believed, weights
from amsfl.flower.server.reply_checks import AcceptedReply
from amsfl.flower.server.server_state import ServerState
from amsfl.methods import Method
from amsfl.planning import Policy
from amsfl.planning.planner import Decision, Planner, PlannerMemory
from amsfl.privacy import Clients, Mechanism, system_random
from amsfl.privacy.accounting import MOST
from amsfl.privacy.ledger import NOTHING
from amsfl.settings.privacy import private_settings
from amsfl.simulation import ServeConfig


class PrivacyBudget:
    """Without a mechanism it allows everything and adds nothing to orders."""

    def __init__(self, config: ServeConfig, policy: Policy, mechanism: Mechanism | None):
        self.config, self.policy, self.mechanism = config, policy, mechanism
        self.settings = private_settings(config)
        self.part = min((config.cohort or config.clients) / config.clients, 1.0)
        self.rows = mechanism is not None and mechanism.rows  # rows are private
        self.clients = mechanism is not None and not mechanism.rows  # whole clients are private
        self.ledger = NOTHING

    def check(self, method: Method, end: RoundEnd) -> None:
        if self.mechanism is not None:
            self.mechanism.check(self.settings, method, self.policy, end)
        if self.clients and self.config.joules is not None:  # it would say who was in a round
            raise UserError(
                "Setting 'joules' goes by what every client spends, and whole clients are kept "
                "private; leave one of them out."
            )

    def protect(self, method: Method) -> Method:
        """The method whose server keeps whole clients private, where the mechanism does that."""
        if not self.clients:
            return method
        self._open(Clients(np.zeros(0, np.int64), None, self.part, 0))
        noise = self.ledger.exposures[0].noise
        private = privacy.private_sum(self.settings, noise, self.part, self.config.clients)
        return privacy.protect_clients(method, private)

    def _open(self, clients: Clients) -> None:
        assert self.mechanism is not None
        self.ledger = self.mechanism.open_ledger(self.settings, self.policy, clients)

    def open(self, clients: Sequence[RegisteredClient], numbers: int, buffers: Sized = ()) -> list[str]:
        """The ledger for these clients and a model of so many numbers; notes on clients that will refuse."""
        if self.clients and buffers:
            raise UserError(
                "The model's buffers (running statistics) are averaged without noise; to keep whole clients "
                "private use a model without them, with GroupNorm or LayerNorm."
            )
        if self.clients:
            return []
        own = [client.epsilon for client in clients]
        if not self.rows:
            notes = [
                f"client {client.name!r} keeps its rows private by an epsilon of its own, and this run does "
                "not: set epsilon, or privacy='record'"
                for client in clients
                if client.epsilon is not None
            ]
            if 2 * len(notes) > len(clients):  # one client's word must not keep the others from training
                raise UserError(f"{len(notes)} of {len(clients)} clients would refuse: {notes[0]}.")
            return notes
        limits = [each for each in (self.config.epsilon, *own) if each is not None]
        if self.config.epsilon is None and any(each is None for each in own) and limits:
            raise UserError(
                "Some clients have an epsilon of their own and others none: set one for the run, as in "
                "epsilon=2, and it is for those."
            )
        most = np.inf if self.config.epsilon is None else self.config.epsilon
        budgets = [float(most if each is None else min(each, most)) for each in own] if limits else None
        self._open(Clients(believed(clients).astype(np.int64), budgets, self.part, numbers))
        return []

    def limit(self, planner: Planner, state: ServerState) -> Planner:
        """The planner that asks nobody for more steps than its privacy has left."""
        if self.allowed(state) is None:
            return planner

        def decide(memory: PlannerMemory, number: int, cohort: Any, costs: Any) -> Decision:
            return planner.decide(memory, number, cohort, costs, self.allowed(state)[cohort])

        return planner._replace(decide=decide)

    def allowed(self, state: ServerState) -> Any:
        """The most steps of every client in the round to come; None: no limit."""
        if self.mechanism is None:
            return None
        share = self.settings.share(state.round, state.elapsed) if self.policy.readings else None
        return privacy.pace(self.ledger, state.ordered_steps, share)

    def draw_cohort(self, state: ServerState, free: set[int]) -> Any:
        """A cohort that keeps whole clients private: each in by the same chance, whoever else is; those who
        are not connected count nothing."""
        coins = system_random.uniform(len(state.clients)) < self.part
        return np.flatnonzero(coins & [client.node in free for client in state.clients])

    def with_terms(self, order: messages.Order) -> messages.Order:
        """The order with the terms of privacy, where the mechanism has any."""
        if not self.rows:
            return order
        return order._replace(terms=privacy.terms(self.settings, self.ledger, order.client))

    def question(self) -> dict[str, Any]:
        """What a hello is asked: clients that cannot take a private step say so."""
        if not self.rows:
            return {}
        return {"privacy": "record", "clip": self.settings.clip}

    def count(self, state: ServerState, good: Iterable[AcceptedReply]) -> None:
        """Steps that were run: fewer than were asked for, or more, of orders that nobody here remembers."""
        for item in good:
            who = item.client
            most = int(self.ledger.limits[who]) if self.ledger.budgets and not self.clients else MOST
            begun = state.ordered_steps[who] - item.job.order.steps + item.reply.steps
            state.ordered_steps[who] = max(begun, min(item.reply.taken, most))

    def hear(self, state: ServerState, refused: Iterable[Mapping[str, Any]]) -> None:
        """Why clients' work could not be taken: one that may take no further step is asked no more."""
        for item in refused:
            who = item["client"]
            if who is not None and self.rows and messages.SPENT in item["reason"] and self.ledger.budgets:
                state.ordered_steps[who] = max(state.ordered_steps[who], int(self.ledger.limits[who]))

    def server_noise(self, state: ServerState) -> tuple[Any, Any] | None:
        """What private aggregation needs: the largest share of all clients, and noise of the system's own."""
        if not self.clients:
            return None
        largest = np.float32(weights(state.clients).max())
        return largest, lambda size: system_random.normal(size).astype(np.float32)

    def units(self, state: ServerState) -> Sequence[int]:
        return self.ledger.units(state.ordered_steps, state.round)

    def exhausted(self, state: ServerState) -> bool:
        """Whether nobody may take another step."""
        return self.ledger.exhausted(self.units(state))
