"""What a finished round is worth, and whether it was the last one."""

from collections.abc import Callable
from typing import Any

import numpy as np

from amsfl.core import UserError
from amsfl.core.scores import usual
from amsfl.flower.messages import Vector
from amsfl.flower.server import best_model, client_scores, server_state
from amsfl.flower.server.orders import OrderWriter
from amsfl.flower.server.registration import Registration
from amsfl.flower.server.server_state import Evaluate, ServerState
from amsfl.flower.server.transport import Transport
from amsfl.settings.limits import over_limit
from amsfl.simulation import ServeConfig


class ModelScorer:
    """Scores the model where scores are due, and sets the run's status by them and by the time."""

    def __init__(
        self,
        config: ServeConfig,
        orders: OrderWriter,
        transport: Transport,
        registration: Registration,
        evaluate: Evaluate | None,
    ):
        self.config, self.orders, self.transport, self.registration = config, orders, transport, registration
        self.evaluate = evaluate
        if config.stop_after and evaluate is None and not config.evaluate_clients:
            raise UserError(
                "stop_after goes by scores, and nobody scores this model: give the server an evaluate "
                "function, or set evaluate_clients=1."
            )

    def judge(
        self, state: ServerState, began: float, go_on: Callable[[], None] = lambda: None
    ) -> dict[str, dict[str, Any]]:
        """Scores by split. Where the run is not over `go_on` is called as soon as clients were asked: what it
        sends them is behind the question, and they need not wait for the server's own scores."""
        config = self.config
        over = state.round >= config.last_round
        over |= config.seconds is not None and self.transport.now() - began >= config.seconds
        over |= self.orders.privacy.exhausted(state)
        over |= over_limit(config, state.spent) is not None
        scored = self.orders.method.arithmetic.model(state.anchor, state.server)
        metrics = self._scores(state, scored, over, go_on)
        over |= best_model.judge(state, scored, metrics, config)
        found = server_state.deciding_split(metrics)
        if found and best_model.score(metrics, config) is None:
            name = best_model.judged_by(found, config)[0]
            self.registration.notes.append(f"no score {name!r} to find the best round by, of {sorted(found)}")
        state.elapsed = self.transport.now() - began
        score = usual(config.score, found)
        if score and score.met(found, config.target):
            reached = {**state.seconds, **state.spent, "elapsed": state.elapsed, "rounds": state.round}
            state.reached = state.reached or reached
            over |= config.stop_at_target
        state.status = "finished" if over else "running"
        if not np.isfinite(state.anchor).all():
            state.status = "diverged"
        return metrics

    def _scores(
        self, state: ServerState, scored: Vector, over: bool, go_on: Callable[[], None]
    ) -> dict[str, dict[str, Any]]:
        config, metrics, asked = self.config, dict[str, dict[str, Any]](), None
        if config.evaluate_clients and (over or state.round % config.evaluate_clients == 0):
            asked = client_scores.ask(self.transport, self.orders, state, scored)
        if not over:
            go_on()
        if self.evaluate and (over or state.round % config.eval_every == 0):
            metrics |= client_scores.checked(self.evaluate(scored, state.buffers))
        if asked is not None:
            metrics |= client_scores.hear(
                self.transport, self.registration, state, asked, config.evaluate_quorum
            )
        return metrics
