"""The run's book of privacy on the server: what clients may still be asked for, and what orders say of it.

The server plans with it, and every round's record has what it comes to. It believes a site that has counted
more steps than it knows of (orders that a killed server had sent), never fewer.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from amsfl import privacy
from amsfl.core import UserError
from amsfl.flower import messages
from amsfl.flower.server.clients import RegisteredClient, weights
from amsfl.flower.server.replies import AcceptedReply
from amsfl.flower.server.server_state import ServerState
from amsfl.methods import Method
from amsfl.planning.planner import Decision, Memory, Planner
from amsfl.privacy import Ledger, system_random
from amsfl.privacy.accounting import MOST
from amsfl.privacy.ledger import NOTHING
from amsfl.schedule import Policy
from amsfl.simulation import ServeConfig, privacy_settings


class Purse:
    """Empty where nothing is private: then it allows everything and says nothing."""

    def __init__(self, config: ServeConfig, policy: Policy):
        self.config, self.policy = config, policy
        self.clip = config.clip if privacy_settings.is_private(config) else 0.0
        self.whole = privacy_settings.of_clients(config)
        self.part = min((config.cohort or config.clients) / config.clients, 1.0)
        self.ledger: Ledger = privacy_settings.book_of_rounds(config, self.part) if self.whole else NOTHING

    def guarded(self, method: Method) -> Method:
        """The method whose server keeps whole clients private, where that is asked for."""
        if not self.whole:
            return method
        config = self.config
        noise = self.ledger.sites[0].noise
        return privacy.guarded(method, config.clip, noise, self.part, config.clients, config.clip_quantile)

    def open(self, registered: Sequence[RegisteredClient], numbers: int) -> None:
        """The book for these clients and a model of so many numbers."""
        own = [client.epsilon for client in registered]
        if not self.clip:
            self._check_open(registered)
            return
        limits = [each for each in (self.config.epsilon, *own) if each is not None]
        if self.config.epsilon is None and any(each is None for each in own) and limits:
            raise UserError(
                "Some clients have an epsilon of their own and others none: give the run one, as in "
                "epsilon=2, and it is for those."
            )
        most = np.inf if self.config.epsilon is None else self.config.epsilon
        budgets = [float(most if each is None else min(each, most)) for each in own] if limits else None
        rows = np.array([client.rows for client in registered])
        self.ledger = privacy_settings.book(self.config, self.policy, budgets, rows, numbers, self.part)

    def _check_open(self, registered: Sequence[RegisteredClient]) -> None:
        asked = next((client for client in registered if client.epsilon is not None), None)
        if asked is not None:
            raise UserError(
                f"Client {asked.name!r} keeps its rows private by an epsilon of its own, and this run does "
                "not: set epsilon, or privacy='record'."
            )

    def paced(self, plain: Planner, state: ServerState) -> Planner:
        """The planner that asks nobody for more steps than its privacy has left."""
        if not self.ledger.budgets or self.ledger.whole:
            return plain

        def decide(memory: Memory, number: int, cohort: Any, costs: Any) -> Decision:
            return plain.decide(memory, number, cohort, costs, self.allowed(state)[cohort])

        return plain._replace(decide=decide)

    def allowed(self, state: ServerState) -> Any:
        """The most steps of every client in the round to come; None: nobody counts."""
        given = self.config, self.policy, self.ledger, state.ordered_steps, state.round, state.elapsed
        return privacy_settings.allowance(*given)

    def able(self, state: ServerState, nodes: set[int]) -> set[int]:
        """Of these nodes those whose clients may take a step."""
        most = self.allowed(state)
        if most is None:
            return nodes
        return nodes - {client.node for client, left in zip(state.clients, most, strict=True) if left < 1}

    def drawn(self, state: ServerState, here: Iterable[int]) -> Any:
        """A cohort that keeps whole clients private: each in by the same chance, whoever else is; those who
        are not here count nothing."""
        coins = system_random.uniform(len(state.clients)) < self.part
        free = {*here}
        drawn = [place for place, client in enumerate(state.clients) if coins[place] and client.node in free]
        return np.array(drawn, int)

    def terms(self, order: messages.Order) -> messages.Order:
        """The order with what privacy asks of the client, where rows are kept private."""
        if not self.clip:
            return order
        budgets, config = self.ledger.budgets, self.config
        epsilon = budgets[order.client] if budgets else 0.0
        noise = self.ledger.sites[order.client].noise
        return order._replace(clip=self.clip, noise=noise, epsilon=epsilon, delta=config.delta)

    def count(self, state: ServerState, good: Iterable[AcceptedReply]) -> None:
        """Steps that were run: fewer than were asked for, or more, of orders that nobody here remembers."""
        for item in good:
            who = item.place
            most = int(self.ledger.limits[who]) if self.ledger.budgets and not self.whole else MOST
            begun = state.ordered_steps[who] - item.asked + item.reply.steps
            state.ordered_steps[who] = max(begun, min(item.reply.taken, most))

    def heard(
        self,
        state: ServerState,
        refused: Iterable[Mapping[str, Any]],
        undone: Iterable[tuple[int, int]],
    ) -> None:
        """Why clients' work could not be taken: what was not done told nothing, and one that may take no
        further step is asked no more."""
        for who, steps in undone:
            state.ordered_steps[who] -= steps
        for item in refused:
            who = item["client"]
            if who is not None and messages.SPENT in item["reason"] and self.ledger.budgets:
                state.ordered_steps[who] = max(state.ordered_steps[who], int(self.ledger.limits[who]))

    def hidden(self, state: ServerState) -> tuple[Any, Any] | None:
        """What the sum of whole clients' deltas needs: the largest share of all, and noise of its own."""
        if not self.whole:
            return None
        largest = np.float32(weights(state.clients).max())
        return largest, lambda size: system_random.normal(size).astype(np.float32)

    def used(self, state: ServerState) -> Sequence[int]:
        return privacy_settings.used(self.ledger, state.ordered_steps, state.round)

    def spent(self, state: ServerState) -> bool:
        """Whether nobody may take another step."""
        return privacy_settings.spent(self.ledger, self.used(state))
