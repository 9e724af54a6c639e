"""The ledger of contributions of real clients: the simulation's (worth/), by uploads that the server has.

Models of coalitions are scored by the server on its own rows, and nothing more leaves a client. Where
`evaluate_clients` is set, clients score them on their own test rows instead, one exchange a model, and answer
with scalars; a client's worth is then what the others say.
"""

from typing import Any

import numpy as np

from amsfl.core import UserError, Verdict
from amsfl.core.scores import shown_score
from amsfl.flower.messages import Vector
from amsfl.flower.server import clients
from amsfl.flower.server.options import RowScores
from amsfl.flower.server.round_results import RoundResults, plain_steps
from amsfl.flower.server.scoring import ModelScorer, deciding_split
from amsfl.flower.server.server_state import ServerState
from amsfl.simulation.components import check_ledger
from amsfl.simulation.round_record import mix_of
from amsfl.worth import ledger, looks
from amsfl.worth.statement import make_statement

NOBODY = "no client scored the models of coalitions: there is no look at the ledger"


class NoScores(Exception):
    """No client has scored a model."""


class Contributions:
    """Keeps the ledger in the server's state, where one is asked for."""

    def __init__(self, scorer: ModelScorer, row_scores: RowScores | None):
        self.scorer, self.row_scores, self.on = scorer, row_scores, scorer.config.worth
        check_ledger(scorer.config, scorer.config.clients)
        if self.on and row_scores is None and not scorer.config.evaluate_clients:
            raise UserError(
                "A ledger of contributions needs rows to score models by: give the server row_scores, or "
                "set evaluate_clients=1, and clients score them on their own test rows."
            )

    def parts(
        self, state: ServerState, results: RoundResults, anchor: Vector
    ) -> tuple[ledger.RoundParts, Vector] | None:
        """What the move to this anchor is made of."""
        if not self.on or not results.replies:
            return None
        shares, steps = clients.weights(state.clients)[results.cohort], plain_steps(results.replies)
        orders = self.scorer.orders
        aged = [orders.end.weight(item.age) if item.age else 1.0 for item in results.replies]
        counts = np.array(mix_of(orders.method, shares, steps) or shares) * aged
        path = [np.nan if item.lr is None else item.lr * item.reply.steps for item in results.replies]
        deltas = np.stack([item.upload.delta for item in results.replies])
        parts = ledger.RoundParts(results.cohort, counts, deltas, np.array(path))
        return parts, anchor - state.anchor

    def enter(self, state: ServerState, parts: tuple[ledger.RoundParts, Vector] | None) -> None:
        """After the judge's verdict on the round."""
        verdict = state.memory.judge.verdict
        if self.on:
            own = state.ledger or ledger.open_ledger(clients.weights(state.clients), state.anchor.size)
            state.ledger, state.best_ledger = ledger.judged(own, state.best_ledger, verdict)
        if parts is not None and state.ledger is not None and verdict in (Verdict.NONE, Verdict.BETTER):
            state.ledger = ledger.enter(state.ledger, *parts)

    def look(self, state: ServerState, metrics: dict[str, Any]) -> dict[str, Any]:
        """For a round's record, where it is due; after the last round the state has the statement, too."""
        over = state.status != "running"
        own = ledger.scored(state.ledger, state.best_ledger, state.memory.judge.left)
        if own is None or not looks.is_due(state.round, over):
            return {}
        model = self.scorer.orders.method.arithmetic.model(state.anchor, state.server)
        scores, names = deciding_split(metrics), [client.name for client in state.clients]
        score, nothing = shown_score("", scores), [None] * len(names)

        def of_coalitions(members: Any) -> Any:
            return self._scores(state, ledger.coalition_models(own, model, state.first, members))

        try:
            whole = score.of(scores) if score else None
            seen = looks.look(own, model, lambda models: self._scores(state, models), whole)
            if over:
                title, asked = score.title if score else "accuracy", bool(self.scorer.config.evaluate_clients)
                said = make_statement(title, names, of_coalitions, ledger.twins(own), nothing, asked)
            state.worth = said.plain() if over else {}
        except NoScores:
            self.scorer.registration.notes.append(NOBODY)
            return {}
        return seen

    def _scores(self, state: ServerState, models: Any) -> Any:
        """[models, rows of the server], or [models, clients]."""
        if self.scorer.config.evaluate_clients:
            return np.stack([self._by_client(state, model) for model in models])
        assert self.row_scores is not None
        return np.stack([self.row_scores(model, state.buffers) for model in models])

    def _by_client(self, state: ServerState, model: Vector) -> Vector:
        """Accuracy, or R², on every client's own test rows; who is silent has the others' mean."""
        values = dict[int, float]()
        for who, scores in self.scorer.collect(state, *self.scorer.ask(state, model)).items():
            score = shown_score("", scores)
            if score and (value := score.of(scores)) is not None:
                values[who] = value
        if not values:
            raise NoScores
        usual = float(np.mean([*values.values()]))
        return np.array([values.get(who, usual) for who in range(len(state.clients))])
