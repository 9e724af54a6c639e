"""The scores of a round's model, by the server and by clients, and whether that round was the last one.

A client's scores count by the test rows that it says it has, and never for more than the rows that it, or the
median client, registered with. What may end a run goes by the clients' median where there are three or more:
one client's word then moves neither a target nor the best round. Asking takes one more exchange, waited for
as long as it was seen to take.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import MessageType

from amsfl.clock import over_limit
from amsfl.combine import middle
from amsfl.core import UserError
from amsfl.core import scores as core_scores
from amsfl.core.scores import shown_score
from amsfl.flower import messages, vector_files
from amsfl.flower.server import costs
from amsfl.flower.server.clients import believed
from amsfl.flower.server.options import Evaluate
from amsfl.flower.server.orders import OrderWriter
from amsfl.flower.server.registration import Registration
from amsfl.flower.server.reply_checks import FAILED, AcceptedReply
from amsfl.flower.server.server_state import ServerState
from amsfl.flower.server.transport import Arrival, error_text
from amsfl.record import Metrics
from amsfl.simulation import ServeConfig

SHARES = ("accuracy", "macro_f1")  # scores that lie between 0 and 1
ERRORS = ("mse", "mae", "rmse")  # that are not below 0; a loss may be, where it is a user's own
OURS = ("loss", "mse", "mae", "rows", *SHARES)  # those that mean something to us; the others are a user's own
NO_TEST_ROWS = "no client has test rows to score by: give clients a test_loader, or set evaluate_clients=0"
MOST, LONGEST = 32, 64  # metrics of a user's own, and characters of their names
LARGEST_SCORE = 1e30  # of any metric; sums of more are not finite
MEDIAN_FROM = 3  # clients

Scores = dict[str, float]


class ModelScorer:
    """Scores the model where scores are due, and sets the run's status by them and by the time."""

    def __init__(self, orders: OrderWriter, registration: Registration, evaluate: Evaluate | None):
        self.config, self.orders, self.evaluate = orders.config, orders, evaluate
        self.registration, self.transport = registration, registration.transport
        if self.config.stop_after and evaluate is None and not self.config.evaluate_clients:
            raise UserError(
                "stop_after goes by scores, and nobody scores this model: give the server an evaluate "
                "function, or set evaluate_clients=1."
            )

    def score(self, state: ServerState, began: float, dispatch: Callable[[], None] = lambda: None) -> Metrics:
        """Scores by split. Where the run is not over `dispatch` is called as soon as clients were asked: what
        it sends them is behind the question, and they need not wait for the server's own scores."""
        config = self.config
        over = state.round >= config.last_round or self.orders.privacy.exhausted(state)
        over |= config.seconds is not None and self.transport.now() - began >= config.seconds
        over |= over_limit(config.joules, config.megabytes, state.spent)
        model = self.orders.method.arithmetic.model(state.anchor, state.server)
        metrics, deciding = self._scores(state, model, over, dispatch)
        scores, value = deciding_split(deciding), worth(deciding, config)
        over |= core_scores.judge_round(state, value, config.stop_after)
        if state.best_round == state.round:
            state.best = vector_files.kept(model)
            state.best_buffers = {name: part.copy() for name, part in state.buffers.items()}
        if scores and value is None:
            name = judged_by(scores, config)[0]
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
        return metrics

    def _scores(
        self, state: ServerState, model: messages.Vector, over: bool, dispatch: Callable[[], None]
    ) -> tuple[Metrics, Metrics]:
        """What is on record, and what targets and the best round go by."""
        config, own, asked = self.config, Metrics(), None
        if config.evaluate_clients and (over or state.round % config.evaluate_clients == 0):
            asked = self.ask(state, model)
        if not over:
            dispatch()
        if self.evaluate and (over or state.round % config.eval_every == 0):
            own = checked(self.evaluate(model, state.buffers))
        if asked is None:
            return own, own
        answers = [*self.collect(state, *asked).values()]
        mean = combined(answers)
        deciding = combined(answers, by_median=True) if len(answers) >= MEDIAN_FROM else mean
        return (own | {"clients": mean}, own | {"clients": deciding}) if mean else (own, own)

    def ask(self, state: ServerState, scored: messages.Vector) -> tuple[set[str], float]:
        """Every client that is free is to score the model on its own test rows: the questions' ids, and how
        long to wait for the answers."""
        free, buffers = self.transport.nodes() - self.transport.busy, state.buffers
        model = messages.GlobalModel(vector_files.kept(scored), state.server[:0], state.step[:0], buffers)
        who = [number for number, client in enumerate(state.clients) if client.node in free]
        requests = [self.orders.question(state, number) for number in who]
        packed = zip(requests, messages.pack_orders(requests, model), strict=True)
        letters = [(state.clients[order.client].node, order, content) for order, content in packed]
        deadline = self.orders.deadline(costs.scoring(state.measured, who), state.round - 1)
        return self.transport.send(MessageType.EVALUATE, letters, self.orders.lifetime(deadline)), deadline

    def collect(self, state: ServerState, asked: set[str], deadline: float) -> dict[int, Scores]:
        """Their scores, by client."""
        answers, empty, rows = dict[int, Scores](), False, believed(state.clients)
        rows = np.maximum(rows, np.median(rows))
        for arrival in self.transport.collect(asked, deadline, self.config.evaluate_quorum):
            order = arrival.sent.order
            if order is None or arrival.sent.key not in asked:
                self.registration.take(state, arrival)
                continue
            scores = read(arrival, order)
            if isinstance(scores, str):
                self.registration.refuse(order.client, f"no score: {scores}")
                continue
            state.measured = costs.scored(state.measured, order.client, arrival.seconds)
            if scores:
                scores["rows"] = min(scores["rows"], float(rows[order.client]))
                answers[order.client] = recordable(scores, order.client, self.registration)
            else:
                empty = True
        if empty and not answers:
            self.registration.notes.append(NO_TEST_ROWS)
        return answers


def training(replies: Sequence[AcceptedReply], state: ServerState, registration: Registration) -> Metrics:
    """What clients say of their own training, the mean by rows."""
    rows = believed(state.clients)
    own = [
        {**recordable(item.reply.metrics, item.client, registration), "rows": float(rows[item.client])}
        for item in replies
        if item.reply.metrics
    ]
    mean = combined([each for each in own if len(each) > 1])
    return {"training": mean} if mean else {}


def recordable(metrics: Scores, who: int, registration: Registration) -> Scores:
    """Those that a record can bear: finite, possible, of a user's own few, with names that can be printed."""
    fit = {name: metrics[name] for name in sorted(metrics) if 0 < len(name) <= LONGEST and name.isprintable()}
    fit = {name: v for name, v in fit.items() if abs(v) <= LARGEST_SCORE and not out_of_range({name: v})}
    own = [name for name in fit if name not in OURS][:MOST]
    good = {name: value for name, value in fit.items() if name in OURS or name in own}
    if len(good) < len(metrics):
        registration.notes.append(
            f"of client {who}'s own metrics {len(metrics) - len(good)} were left out: they are not finite, "
            f"impossible, more than {MOST}, or their names are no {LONGEST} printable characters"
        )
    return good


def read(arrival: Arrival, order: messages.Order) -> Scores | str:
    """One client's scores (none where it has no test rows), or why they do not count."""
    message = arrival.message
    if message.has_error():
        return f"{FAILED}: {error_text(message)}"
    try:
        messages.check_sizes(message.content)
        echo = messages.scalars(message.content, "echo")
        scores = {str(key): float(v) for key, v in messages.scalars(message.content, "scores").items()}
    except Exception as error:  # a client's bytes, see reply_checks.py
        return f"unreadable: {error!r}"
    if (echo.get("run"), echo.get("round")) != (order.run, order.round):
        return "it belongs to another run or round"
    if not scores:
        return {}
    ours = [scores.get(name, 0.0) for name in OURS if name != "rows"]
    if not scores.get("rows", 0.0) > 0 or not all(abs(value) <= LARGEST_SCORE for value in ours):
        return "it holds no rows, or numbers that are not finite"
    return out_of_range(scores) or scores


def out_of_range(scores: dict[str, Any]) -> str | None:
    bad = [name for name in SHARES if name in scores and not 0 <= scores[name] <= 1]
    if bad:
        return f"{bad[0]} {scores[bad[0]]:g} does not lie between 0 and 1"
    below = [name for name in ERRORS if (scores.get(name) or 0.0) < 0]
    return f"{below[0]} {scores[below[0]]:g} is below 0" if below else None


def combined(answers: Sequence[Scores], by_median: bool = False) -> Scores:
    """Each score's mean by rows, or median, over those who have it, and all their rows; {} for none."""
    names = sorted({name for scores in answers for name in scores} - {"rows"})
    own = [name for name in names if name not in OURS][:MOST]
    averages = Scores()
    for name in [*(name for name in names if name in OURS), *own]:
        pairs = [(each["rows"], each[name]) for each in answers if name in each]
        if by_median:
            averages[name] = float(middle(np.array([value for _, value in pairs]), np.ones(len(pairs))))
        else:
            averages[name] = sum(rows * value for rows, value in pairs) / sum(rows for rows, _ in pairs)
    if averages.get("mse", -1.0) >= 0:
        averages["rmse"] = averages["mse"] ** 0.5  # of all rows together; clients' own roots would not add up
    rows = sum(each["rows"] for each in answers)
    return {**averages, "rows": rows} if rows else {}


def deciding_split(metrics: Metrics) -> dict[str, Any]:
    """The split that targets are held against: the server's hold-out, else the clients' own test rows."""
    return metrics.get("holdout") or metrics.get("clients") or {}


def judged_by(scores: Mapping[str, Any], config: ServeConfig) -> tuple[str, bool]:
    """The name of the score that rounds are compared by, and whether more of it is better; "" for none."""
    return core_scores.judged_by(scores, config.judge_by, shown_score(config.score, scores))


def worth(metrics: Metrics, config: ServeConfig) -> float | None:
    """What rounds are compared by, more is better; None where this round has none."""
    scores = deciding_split(metrics)
    return core_scores.worth(scores, config.judge_by, shown_score(config.score, scores))


def checked(metrics: Metrics) -> Metrics:
    """The server's own scores, of which nothing may be impossible either."""
    for split, scores in metrics.items():
        why = out_of_range(scores)
        if why:
            raise UserError(f"The server's evaluate gave {why} ({split}); look at how it counts.")
    return metrics
