"""What a finished round is worth, and whether it was the last one."""

from collections.abc import Callable
from typing import Any

import numpy as np

from amsfl.core import UserError
from amsfl.core.scores import usual
from amsfl.flower.messages import Vector
from amsfl.flower.server import best_model, client_scores, state
from amsfl.flower.server.orders import Desk
from amsfl.flower.server.registration import Door
from amsfl.flower.server.state import Evaluate, Progress
from amsfl.flower.server.transport import Post
from amsfl.settings.limits import over_limit
from amsfl.simulation import ServeConfig


class Ending:
    """Scores the model where scores are due, and sets the run's status by them and by the time."""

    def __init__(self, config: ServeConfig, desk: Desk, post: Post, door: Door, evaluate: Evaluate | None):
        self.config, self.desk, self.post, self.door = config, desk, post, door
        self.evaluate = evaluate
        if config.stop_after and evaluate is None and not config.evaluate_clients:
            raise UserError(
                "stop_after goes by scores, and nobody scores this model: give the server an evaluate "
                "function, or set evaluate_clients=1."
            )

    def judge(
        self, stand: Progress, began: float, go_on: Callable[[], None] = lambda: None
    ) -> dict[str, dict[str, Any]]:
        """Scores by split. Where the run is not over `go_on` is called as soon as clients were asked: what it
        sends them is behind the question, and they need not wait for the server's own scores."""
        config = self.config
        over = stand.round >= config.last_round
        over |= config.seconds is not None and self.post.now() - began >= config.seconds
        over |= self.desk.purse.spent(stand)
        over |= over_limit(config, stand.spent) is not None
        scored = self.desk.method.model(stand.anchor, stand.server)
        metrics = self._scores(stand, scored, over, go_on)
        over |= best_model.judge(stand, scored, metrics, config)
        found = state.deciding_split(metrics)
        if found and best_model.score(metrics, config) is None:
            name = best_model.judged_by(found, config)[0]
            self.door.notes.append(f"no score {name!r} to find the best round by, of {sorted(found)}")
        stand.elapsed = self.post.now() - began
        score = usual(config.score, found)
        if score and score.met(found, config.target):
            reached = {**stand.seconds, **stand.spent, "elapsed": stand.elapsed, "rounds": stand.round}
            stand.reached = stand.reached or reached
            over |= config.stop_at_target
        stand.status = "finished" if over else "running"
        if not np.isfinite(stand.anchor).all():
            stand.status = "diverged"
        return metrics

    def _scores(
        self, stand: Progress, scored: Vector, over: bool, go_on: Callable[[], None]
    ) -> dict[str, dict[str, Any]]:
        config, metrics, asked = self.config, dict[str, dict[str, Any]](), None
        if config.evaluate_clients and (over or stand.round % config.evaluate_clients == 0):
            asked = client_scores.ask(self.post, self.desk, stand, scored)
        if not over:
            go_on()
        if self.evaluate and (over or stand.round % config.eval_every == 0):
            metrics |= client_scores.checked(self.evaluate(scored, stand.buffers))
        if asked is not None:
            metrics |= client_scores.hear(self.post, self.door, stand, asked, config.evaluate_quorum)
        return metrics
