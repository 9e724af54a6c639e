"""The clients' own scores of a model: one more question each, waited for as long as it was seen to take."""

from typing import Any, NamedTuple

import numpy as np
from flwr.app import MessageType

from amsfl.core import UserError
from amsfl.flower import messages
from amsfl.flower.server import costs
from amsfl.flower.server.clients import RegisteredClient, believed
from amsfl.flower.server.orders import OrderWriter
from amsfl.flower.server.registration import Registration
from amsfl.flower.server.replies import FAILED, AcceptedReply
from amsfl.flower.server.server_state import ServerState
from amsfl.flower.server.transport import Arrival, Transport

SHARES = ("accuracy", "macro_f1")  # scores that lie between 0 and 1
OURS = ("loss", "mse", "mae", "rows", *SHARES)  # those that mean something to us; the others are a user's own
NO_TEST_ROWS = "no client has test rows to score by: give clients a test_loader, or set evaluate_clients=0"
MOST, LONGEST = 32, 64  # metrics of a user's own, and characters of their names


class ScoreRequests(NamedTuple):
    """Questions that are out."""

    orders: list[messages.Order]
    ids: set[str]
    deadline: float


def ask(
    transport: Transport, orders: OrderWriter, state: ServerState, scored: messages.Vector
) -> ScoreRequests:
    """Every client that is free is to score the new model on its own test rows."""
    here = transport.nodes() - transport.busy
    model = messages.GlobalModel(scored, state.server[:0], state.step[:0], state.buffers)
    who = [place for place, client in enumerate(state.clients) if client.node in here]
    requests = [orders.question(state, place) for place in who]
    packed = zip(requests, messages.pack_orders(requests, model), strict=True)
    letters = [(state.clients[order.client].node, order, content) for order, content in packed]
    deadline = orders.deadline(costs.scoring(state.measured, who), state.round - 1)
    return ScoreRequests(
        requests, transport.send(MessageType.EVALUATE, letters, orders.lifetime(deadline)), deadline
    )


def hear(
    transport: Transport, registration: Registration, state: ServerState, asked: ScoreRequests, quorum: float
) -> dict[str, dict[str, Any]]:
    """Their scores, the mean by rows."""
    found, none = list[dict[str, float]](), 0
    for arrival in transport.collect(asked.ids, asked.deadline, quorum):
        order = arrival.sent.order
        if order is None or not any(order is ours for ours in asked.orders):
            registration.stray(state.clients, arrival)
            continue
        scores = read(arrival, order)
        if isinstance(scores, str):
            registration.refuse(order.client, f"no score: {scores}")
            continue
        state.measured = costs.scored(state.measured, order.client, arrival.seconds)
        found += [kept(scores, order.client, registration)] if scores else []
        none += not scores
    if none and not found:
        registration.notes.append(NO_TEST_ROWS)
    return mean(found)


def training(
    good: list[AcceptedReply], registered: list[RegisteredClient], registration: Registration
) -> dict[str, dict[str, Any]]:
    """What clients say of their own training, the mean by rows."""
    rows = believed(registered)
    told = [(item.place, item.reply.metrics) for item in good if item.reply.metrics]
    own = [{**kept(said, who, registration), "rows": float(rows[who])} for who, said in told]
    return mean([each for each in own if len(each) > 1], "training")


def kept(said: dict[str, float], who: int, registration: Registration) -> dict[str, float]:
    """Of a user's own metrics those that a record can bear: finite, few, with names that can be printed."""
    own = sorted((name, value) for name, value in said.items() if name not in OURS)
    fit = [(name, value) for name, value in own if 0 < len(name) <= LONGEST and name.isprintable()]
    good = dict([(name, value) for name, value in fit if np.isfinite(value)][:MOST])
    if len(good) < len(own):
        registration.notes.append(
            f"of client {who}'s own metrics {len(own) - len(good)} were left out: they are not finite, more "
            f"than {MOST}, or their names are no {LONGEST} printable characters"
        )
    return {name: value for name, value in said.items() if name in OURS} | good


def read(arrival: Arrival, order: messages.Order) -> dict[str, float] | str:
    """One client's scores (none where it has no test rows), or why they do not count."""
    message = arrival.message
    if message.has_error():
        return f"{FAILED}: {message.error.reason}"
    try:
        echo = messages.scalars(message.content, "echo")
        scores = {str(key): float(v) for key, v in messages.scalars(message.content, "scores").items()}
    except Exception as error:  # strangers' bytes, see accept.py
        return f"unreadable: {error!r}"
    if (echo.get("run"), echo.get("round")) != (order.run, order.round):
        return "it belongs to another run or round"
    if not scores:
        return {}
    if not scores.get("rows", 0.0) > 0 or not all(np.isfinite(scores.get(name, 0.0)) for name in OURS):
        return "it holds no rows, or numbers that are not finite"
    return out_of_range(scores) or scores


def out_of_range(scores: dict[str, Any]) -> str | None:
    bad = [name for name in SHARES if name in scores and not 0 <= scores[name] <= 1]
    return f"{bad[0]} {scores[bad[0]]:g} does not lie between 0 and 1" if bad else None


def mean(found: list[dict[str, float]], split: str = "clients") -> dict[str, dict[str, Any]]:
    """Averaged by rows, over those who have the score."""
    rows = sum(scores["rows"] for scores in found)
    names = sorted({name for scores in found for name in scores} - {"rows"})
    names = [name for name in names if name in OURS] + [name for name in names if name not in OURS][:MOST]
    totals = {}
    for name in names:
        having = [scores for scores in found if name in scores]
        totals[name] = sum(s["rows"] * s[name] for s in having) / sum(s["rows"] for s in having)
    if totals.get("mse", -1.0) >= 0:
        totals["rmse"] = totals["mse"] ** 0.5  # of all rows together; clients' own roots would not add up
    return {split: {**totals, "rows": rows}} if rows else {}


def checked(metrics: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The server's own scores, of which nothing may be impossible either."""
    for split, scores in metrics.items():
        why = out_of_range(scores)
        if why:
            raise UserError(f"The server's evaluate gave {why} ({split}); look at how it counts.")
    return metrics
