"""The scores of a round's model, and whether that round was the last one."""

from collections.abc import Callable

from amsfl.core import UserError
from amsfl.core.scores import shown_score
from amsfl.flower.messages import Vector
from amsfl.flower.server import best_model, client_scores, server_state
from amsfl.flower.server.client_scores import ClientScores, Split
from amsfl.flower.server.orders import OrderWriter
from amsfl.flower.server.registration import Registration
from amsfl.flower.server.server_state import Evaluate, ServerState
from amsfl.flower.server.transport import Transport
from amsfl.settings.limits import over_limit
from amsfl.simulation import ServeConfig

NOTHING = ClientScores({}, {})


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

    def score(self, state: ServerState, began: float, dispatch: Callable[[], None] = lambda: None) -> Split:
        """Scores by split. Where the run is not over `dispatch` is called as soon as clients were asked: what
        it sends them is behind the question, and they need not wait for the server's own scores."""
        config = self.config
        over = state.round >= config.last_round
        over |= config.seconds is not None and self.transport.now() - began >= config.seconds
        over |= self.orders.privacy.exhausted(state)
        over |= over_limit(config, state.spent) is not None
        model = self.orders.method.arithmetic.model(state.anchor, state.server)
        own, by_clients = self._scores(state, model, over, dispatch)
        deciding = own | by_clients.deciding
        over |= best_model.judge(state, model, deciding, config)
        scores = server_state.deciding_split(deciding)
        if scores and best_model.score(deciding, config) is None:
            name = best_model.judged_by(scores, config)[0]
            self.registration.notes.append(
                f"no score {name!r} to find the best round by, of {sorted(scores)}"
            )
        state.elapsed = self.transport.now() - began
        score = shown_score(config.score, scores)
        if score and score.met(scores, config.target):
            reached = {**state.seconds, **state.spent, "elapsed": state.elapsed, "rounds": state.round}
            state.reached = state.reached or reached
            over |= config.stop_at_target
        state.status = "finished" if over else "running"
        return own | by_clients.mean

    def _scores(
        self, state: ServerState, model: Vector, over: bool, dispatch: Callable[[], None]
    ) -> tuple[Split, ClientScores]:
        config, own, asked = self.config, Split(), None
        if config.evaluate_clients and (over or state.round % config.evaluate_clients == 0):
            asked = client_scores.ask(self.transport, self.orders, state, model)
        if not over:
            dispatch()
        if self.evaluate and (over or state.round % config.eval_every == 0):
            own = client_scores.checked(self.evaluate(model, state.buffers))
        if asked is None:
            return own, NOTHING
        quorum = config.evaluate_quorum
        return own, client_scores.collect(self.transport, self.registration, state, asked, quorum)
