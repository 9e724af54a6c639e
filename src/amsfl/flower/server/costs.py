"""What clients cost: seconds a step and everything else a round takes, as measured; and what else they spend.

A client reports one step's seconds by its own monotonic clock; the server sees when its reply came.
What is left of that, arrival - steps * step_seconds, is communication in the planner's sense: transport,
Flower's process start, the extra gradient, and waiting for polls. A Flower SuperNode that is idle asks
for work every three seconds, and the server looks for replies every so often: that wait is luck, not
the client's. So each client gets the LOWEST such rest of its last rounds (its own part, waits out), and
all clients get the same mean wait on top (what a round will take all the same). Steps are the median of
the last rounds: one bad round moves neither.

A client's word is held against the server's own clock: steps cannot have taken longer than their reply, and
where a rule doubts clients, nobody's reply takes SLOW times what the others' take besides their steps: what
is beyond that were its steps, whatever it says of them.

Joules and money are known where every client has said what a step or a megabyte costs it; where some have
not, nothing is guessed. What one says is believed up to FAR times the others' median, and what is no amount
counts as theirs: nobody spends the others' budget by its word, nor keeps them from having one.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from flwr.app import MessageType

from amsfl.clock import Costs
from amsfl.flower import internals, messages
from amsfl.flower.server.clients import MOST, RegisteredClient, bounded
from amsfl.flower.server.transport import Arrival
from amsfl.planning.believed import FAR

LAST = 5
LONGEST_STEP = 24 * 3600.0  # seconds; more is not believed
SLOW = 5.0  # times the others' median, besides the steps
GUESS_STEP, GUESS_REST = 0.05, 5.0  # seconds, before anybody was measured: a plan needs some number


class MeasuredCosts(NamedTuple):
    """Memory that JSON can hold: the last measurements of every client."""

    step: list[list[float]]
    rest: list[list[float]]
    score: list[list[float]]
    empty: list[float]  # before the first round: an exchange without steps; 0: unknown


def start(clients: int, speeds: Sequence[float] = (), empty: Sequence[float] = ()) -> MeasuredCosts:
    """`speeds`: of a step, as clients said when they came; `empty`: of one without steps. 0: unknown."""
    step, rest, score = ([list[float]() for _ in range(clients)] for _ in range(3))
    step = [[each] if each else [] for each in speeds] or step
    return MeasuredCosts(step, rest, score, list(empty) or [0.0] * clients)


class ReplyTimes(NamedTuple):
    steps: int
    step_seconds: float  # of one, as the client says
    elapsed: float  # from push to pull


def observe(
    old: MeasuredCosts, client: int, times: ReplyTimes, poll: float, doubted: bool = False
) -> MeasuredCosts:
    """One reply; it waited half a `poll` for the server on average."""
    steps, step_seconds, elapsed = times
    others = [min(past) for who, past in enumerate(old.rest) if past and who != client]
    if doubted and len(others) > 1:
        step_seconds = max(step_seconds, (elapsed - SLOW * float(np.median(others)) - poll / 2) / steps)
    step_seconds = min(step_seconds, elapsed / steps)
    # what it said of itself before its first reply is no measurement
    step = _noted(old.step, client, step_seconds, np.inf if old.rest[client] else elapsed / steps)
    rest = max(0.0, elapsed - steps * step_seconds - poll / 2)
    return old._replace(step=step, rest=_noted(old.rest, client, rest))


def add_clients(old: MeasuredCosts, speeds: Sequence[float]) -> MeasuredCosts:
    """Of clients that join, behind those who are there; `speeds` as in `start`."""
    step, rest, score, empty = start(len(speeds), speeds)
    return MeasuredCosts(old.step + step, old.rest + rest, old.score + score, old.empty + empty)


def learn_late(measured: MeasuredCosts, arrival: Arrival, poll: float) -> MeasuredCosts:
    """A reply that nobody waits for any more: its work is refused, its seconds are as good as any."""
    order, message = arrival.sent.order, arrival.message
    if order is None:
        return measured
    if message.has_error():
        codes = internals.ErrorCode
        expired = message.error.code in (codes.MESSAGE_UNAVAILABLE, codes.REPLY_MESSAGE_UNAVAILABLE)
        if not expired or arrival.sent.kind != MessageType.TRAIN:
            return measured
        # it never came: its steps take longer than was waited, so far as anybody knows
        usual = np.median(measured.step[order.client] or [0.0])
        least = max(float(usual), arrival.seconds / max(order.steps, 1))
        return measured._replace(step=_noted(measured.step, order.client, least))
    if arrival.sent.kind == MessageType.EVALUATE:
        return scored(measured, order.client, arrival.seconds)
    try:
        reply = messages.unpack_reply(message.content)
    except Exception:  # a client's bytes, see reply_checks.py
        return measured
    same = (reply.run, reply.round, reply.client) == (order.run, order.round, order.client)
    if not (same and 1 <= reply.steps <= order.steps and 0 <= reply.step_seconds < np.inf):
        return measured
    times = ReplyTimes(reply.steps, reply.step_seconds, arrival.seconds)
    return observe(measured, order.client, times, poll)


def scored(old: MeasuredCosts, client: int, elapsed: float) -> MeasuredCosts:
    """One exchange in which a client scored the model."""
    return old._replace(score=_noted(old.score, client, elapsed))


def scoring(measured: MeasuredCosts, who: list[int]) -> float | None:
    """Seconds until the slowest of these has scored a model; None where nobody was seen doing it. As in
    `OrderWriter.foreseen` nobody counts for more than MOST times the others' median."""
    usable = [float(np.median(measured.score[place])) for place in who if measured.score[place]]
    return float(bounded(np.array(usable), MOST).max()) if usable else None


def costs(measured: MeasuredCosts) -> Costs:
    """The planner's costs; clients never measured get the median of the others."""
    step = np.array([np.median(past) if past else np.nan for past in measured.step])
    rests = zip(measured.rest, measured.empty, strict=True)
    floor = np.array([min(past or [empty or np.nan]) for past, empty in rests])
    # that a reply waits for polls and for luck; who waits FAR times as long as the others does so by itself
    waits = [float(np.median(past)) - min(past) for past in measured.rest if past]
    wait = float(np.mean(bounded(np.array(waits), FAR))) if waits else 0.0
    return Costs(_filled(np.maximum(step, 1e-6), GUESS_STEP), _filled(floor, GUESS_REST) + wait)


def _noted(columns: list[list[float]], client: int, value: float, most: float = np.inf) -> list[list[float]]:
    """With one more measurement of a client; those before it count for `most` at most."""
    own = [*(min(each, most) for each in columns[client]), value][-LAST:]
    return [own if who == client else past for who, past in enumerate(columns)]


def _filled(values: Any, guess: float) -> Any:
    usable = np.isfinite(values)
    return np.where(usable, values, np.median(values[usable]) if usable.any() else guess)


KINDS = {"joules": ("joules_step", "joules_mb"), "cost": ("cost_mb",)}  # what there is to say of each
NO_AMOUNT = -1.0  # in place of what a client says that is none
MISSING = (
    "not every client says what it spends; give each SuperNode joules-step and joules-mb in its "
    "--node-config, or amsfl deploy a --profile with the columns joules_step and joules_mb."
)


def amounts(registered: Sequence[RegisteredClient]) -> tuple[dict[str, Any], list[str]]:
    """What clients' steps and megabytes take, as far as it is believed; notes on what cannot be known."""
    known, notes = dict[str, Any](), list[str]()
    for kind, names in KINDS.items():
        silent = [client.name for client in registered if not {*names} & {*client.spends}]
        claims = {name: [client.spends.get(name, 0.0) for client in registered] for name in names}
        if not silent and min(map(max, claims.values())) > NO_AMOUNT:
            believed = {name: believed_amounts(np.array(column)) for name, column in claims.items()}
            known |= believed
            notes += [
                f"client {client.name!r} says that its {name} is {claim:g}, far more than the others; it "
                f"counts as {amount:g}"
                for name in names
                for client, claim, amount in zip(registered, claims[name], believed[name], strict=True)
                if amount < claim
            ]
        elif 0 < len(silent) < len(registered):
            notes.append(
                f"{kind} are not counted: {len(silent)} of {len(registered)} clients do not say theirs"
            )
    return known, notes


def credible_amounts(client: str, spends: Mapping[str, float]) -> tuple[dict[str, float], list[str]]:
    """What a client says that its work takes, and notes on what is no amount."""
    wrong = {name: value for name, value in spends.items() if not 0 <= value <= 1e12}
    notes = [f"client {client!r}: {name} is {value!r}, which is no amount" for name, value in wrong.items()]
    return {**spends, **dict.fromkeys(wrong, NO_AMOUNT)}, notes


def believed_amounts(claims: Any) -> Any:
    """Of all clients; what is no amount is the median of the others', or zero where none is one."""
    good = claims[claims > NO_AMOUNT]
    return bounded(np.where(claims > NO_AMOUNT, claims, np.median(good) if len(good) else 0.0), FAR)
