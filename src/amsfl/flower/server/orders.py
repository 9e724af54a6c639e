"""What a round asks of its clients, what of the model it sends them, and how long it waits."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from amsfl import methods, protocol
from amsfl.clock import Costs, RoundEnd, client_seconds, round_seconds
from amsfl.clock.costs import Account, accounts
from amsfl.flower import messages
from amsfl.flower.server import clients, costs
from amsfl.flower.server.clients import RegisteredClient
from amsfl.flower.server.privacy_budget import PrivacyBudget
from amsfl.flower.server.server_state import ServerState
from amsfl.methods import Method
from amsfl.planning.planner import Decision, Planner, planner
from amsfl.sampling import held_count
from amsfl.settings.limits import check_limits
from amsfl.settings.round_ends import for_rounds, takes_older_work
from amsfl.simulation import ServeConfig
from amsfl.simulation.components import takes_readings, work_of

UNMEASURED = 300.0  # deadline of a round nobody can predict yet; who was never measured sets none beyond it
TIMES = 3.0  # what is predicted: an automatic deadline
AT_LEAST = 30.0  # such a one: starting a client's process alone takes seconds
AT_MOST = 24 * 3600.0  # whatever was planned
SHARE = 0.8  # of a deadline is planned with; the rest is for what nobody foresaw
STEPS = 0.2  # of a deadline is for steps, however long the rest is said to take


class OrderWriter:
    """Writes orders by the settings."""

    def __init__(self, config: ServeConfig, method: Method, privacy: PrivacyBudget, end: RoundEnd):
        self.config, self.method, self.privacy, self.end = config, method, privacy, end
        self.policy = privacy.policy
        self.readings = takes_readings(config, method, self.policy)
        # all of them: a client of another version, or of another make, may have other defaults
        private = dict(method.facts.private_options) if method.private_rows else {}
        chosen = {**private, **config.options, **dict(method.facts.adapted_options)}
        self.options = methods.options(config.method, chosen)
        self.resumed_round: int | None = None  # contexts, and the last anchors in them, end with a Flower run
        self.own_optimizer = False  # whether clients move by optimizers of their own
        self.own_steps = False  # whether they do the method's own: then those that cannot are not asked
        self.accounts: Mapping[str, Account] = {}  # what else clients spend (costs.py)

    def meet(self, registered: Sequence[RegisteredClient], size: int) -> list[str]:
        """What depends on who takes part, with a model of that size; notes on what cannot be known.

        Clients whose optimizers cannot do the method's own steps take no part, unless most are such: a few
        clients' word does not change the method of the others.
        """
        config, own = self.config, sum(client.own_optimizer for client in registered)
        self.own_steps = self.method.needs_own_steps and 2 * own <= len(registered)
        if own and not self.own_steps:
            plain = methods.for_own_optimizers(self.method)
            self.method, self.own_optimizer = for_rounds(config, plain, self.end, config.clients), True
        amounts, notes = costs.amounts(registered)
        self.accounts = accounts(len(registered), amounts, work_of(self.method, self.policy, size))
        check_limits(config, self.accounts, costs.MISSING)
        return notes

    def planner(self, registered: Sequence[RegisteredClient]) -> Planner:
        """The planner of the settings, for these clients."""
        end, rows = self.end, clients.believed(registered)
        if self.method.judges:  # limits of steps go by the rows that are trained on
            rows = rows - np.array([held_count(int(each), self.config.held_back) for each in rows])
        stale, weights = end.weight if end.overlap else None, clients.weights(registered)
        return planner(self.config, self.method, self.policy, weights, rows, stale)

    def able(self, state: ServerState, nodes: set[int]) -> set[int]:
        """Of these nodes those whose clients may be asked for steps."""
        here = [who for who, client in enumerate(state.clients) if client.node in nodes]
        if self.own_steps:
            here = [who for who in here if not state.clients[who].own_optimizer]
        most = self.privacy.allowed(state)
        return {state.clients[who].node for who in here if most is None or most[who] >= 1}

    def fitted(
        self, state: ServerState, decision: Decision, cohort: Any, expected: Costs, deadline: float
    ) -> tuple[Decision, list[float]]:
        """The plan with nobody asked for more than it can do in time, and the seconds each has for its steps.

        Of whom nothing was measured nothing is cut: there, the seconds alone see to it, and they are few,
        since nobody knows either how long that client takes to begin.
        """
        measured = np.array([bool(state.measured.step[who]) for who in cohort])
        left = np.where(measured, SHARE * deadline - expected.comm_seconds[cohort], 0.0)
        room = np.maximum(left, STEPS * deadline)
        most = np.where(measured, np.maximum(room / expected.step_seconds[cohort], 1), np.inf)
        steps = np.minimum(decision.steps, most).astype(int)
        # planners bound what they believe, these seconds were seen
        seconds = round_seconds(expected, cohort, steps)["makespan"]
        return decision._replace(steps=steps, predicted_seconds=seconds), room.tolist()

    def order(
        self, state: ServerState, who: int, steps: int, within: float, decision: Decision
    ) -> messages.Order:
        """An order that is about to be sent: its steps are in the privacy ledger from here on."""
        config = self.config
        state.ordered_steps[who] += steps
        order = messages.Order(
            state.run,
            state.round,
            state.clients[who].accepted,
            who,
            steps,
            within,
            decision.part if decision.lr is None else decision.lr,
            decision.lr is not None,
            config.batch,
            config.seed,
            config.method,
            self.options,
            config.transmit,
            self.readings and not self.method.private_rows,  # then uploads tell all that may be known
            self.own_optimizer,
            config.held_back if self.method.judges else 0.0,
            config.client_momentum,
            config.weight_decay,
            decision.cut,
        )
        return self.privacy.with_terms(order)

    def question(self, state: ServerState, who: int) -> messages.Order:
        """An order to score, not to train: no method has a part in that."""
        unplanned = Decision(np.zeros(1, int), self.config.lr, 0.0, {})
        return self.order(state, who, 0, 0.0, unplanned)._replace(
            method="fedavg", options={}, transmit="", own_optimizer=False, momentum=0.0, weight_decay=0.0
        )

    def needs_direction(self, state: ServerState, orders: Sequence[messages.Order]) -> list[bool]:
        """Which of these orders' clients must be sent the last global step."""
        if not self.readings or self.method.private_rows:  # nobody reads along it
            return [False] * len(orders)
        older = takes_older_work(self.end) or state.round == self.resumed_round
        return protocol.needs_direction([order.accepted for order in orders], state.round, older)

    def foreseen(self, state: ServerState, decision: Decision, cohort: Any, expected: Costs) -> float | None:
        """Seconds that deadlines go by; None before anybody was measured, since some may compile at first.

        How slow a client is that was never measured is its own word, and does not hold up the others. Nobody
        counts for more than clients.MOST times the others' median: who always answers just in time would make
        every deadline longer than the one before.
        """
        if not any(state.measured.rest):
            return None
        seen = np.array([bool(state.measured.rest[who]) for who in cohort])
        most = np.where(seen, np.inf, UNMEASURED / TIMES)
        alone = clients.bounded(client_seconds(expected, cohort, decision.steps), clients.MOST)
        return float(np.minimum(alone, most).max())

    def deadline(self, predicted: float | None, number: int = 0) -> float:
        """How long to wait, in round `number`, for what is predicted to take so long; None: nobody knows."""
        chosen = self.config.straggler_seconds(number)
        if chosen is not None:
            return chosen
        return UNMEASURED if predicted is None else min(max(AT_LEAST, TIMES * predicted), AT_MOST)

    def lifetime(self, deadline: float) -> float:
        """Seconds after which Flower gives a message up: late replies should still come."""
        return 4 * deadline + 60
