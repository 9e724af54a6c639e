"""What a reply that nobody waits for any more still teaches: how long its client takes."""

from flwr.app import MessageType

from amsfl.flower import internals, messages
from amsfl.flower.server import costs
from amsfl.flower.server.costs import MeasuredCosts
from amsfl.flower.server.transport import Arrival

NEVER_CAME = (
    internals.ErrorCode.MESSAGE_UNAVAILABLE,
    internals.ErrorCode.REPLY_MESSAGE_UNAVAILABLE,
)  # Flower stopped waiting


def learn(measured: MeasuredCosts, arrival: Arrival, poll: float) -> MeasuredCosts:
    """Its work is refused; its seconds are as good as any."""
    order, message = arrival.sent.order, arrival.message
    if order is None:
        return measured
    if message.has_error():
        lost = arrival.sent.kind == MessageType.TRAIN and message.error.code in NEVER_CAME
        return costs.missed(measured, order.client, order.steps, arrival.seconds) if lost else measured
    if arrival.sent.kind == MessageType.EVALUATE:
        return costs.scored(measured, order.client, arrival.seconds)
    try:
        reply = messages.unpack_reply(message.content)
    except Exception:  # strangers' bytes, see accept.py
        return measured
    same = (reply.run, reply.round, reply.client) == (order.run, order.round, order.client)
    if not (same and 1 <= reply.steps <= order.steps and reply.step_seconds >= 0):
        return measured
    return costs.observe(measured, order.client, reply.steps, reply.step_seconds, arrival.seconds, poll)
