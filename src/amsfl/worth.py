"""What each client brings: whose uploads moved the model, and where it would be had only some of them come.

The server's move v of a round is split by what it was made of: client i's part of it is

    p_i = k u_i s_i d_i + b p_i',

d_i its delta, u_i how much that counted, p_i' its part of the move before; k and b are such that what of v
lies along sum u_i d_i and along the move before (momentum) is covered. What else moves a server (a judge's
way back) is everybody's. A coalition's model m_S goes its own way:

    m_S = m + D_S,    D_S <- r_S D_S + sum_{i in S} p_i / W_S - sum_i p_i

W_S is its members' share of all rows. r_S says how much of a difference is left after a round: clients who
train from a model that is off pull it back, the more the further they step, and those whose deltas are small
do not: r_S = 1 - sum_{i in S} w_i c_i min(1, e_i)^2 / W_S, with c_i the mean of 1 - exp(-lr steps) over
client i's rounds, as if the loss had curvature 1, and e_i the sum of squares of its deltas over the clients'
median of it. s_i: who disagrees with everybody's model sends long deltas, which would be shorter in a
coalition that follows it, the more the further its steps go; s_i = min(1, median |d| / |d_i|)^(c_i^2 / 2), by
c_i before this round. In the first round all coalitions have the same model, and s_i is 1.

Values are Shapley's (1953): what a client adds to those before it, on average over all orders in which all
may come, row by row of the rows that are scored; their spread over rows is the error that so few leave.

Where a judge sends the server back to its best anchor, the ledger goes back with it; from the first model
again it begins anew. Deltas are of the models that there were, not of those that a coalition would have had.
Sums are einsum's, not `@`: threads of a BLAS library wait busily for more.
"""

from collections.abc import Callable, Sequence
from math import comb
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import Verdict
from amsfl.core.records import Json
from amsfl.record import Checkpoint, RoundRecord

Array = np.ndarray[Any, np.dtype[Any]]
RowScores = Callable[[Array], Array]  # members [coalitions, clients] -> [coalitions, rows]
KEPT = np.array([0.0, 0.4, 0.7, 0.85, 0.95, 1.0])  # values of r with sums; others lie between two
LATE = 4  # of KEPT: by which twins are found; AMSFL's first rounds are long and wild
TWIN = 0.72  # how far a client's twin is at most, over how far the next one is
CLIENTS_AT_MOST = 32  # whose coalitions are followed: six vectors each, and hundreds of models to score
EXACT = 6  # clients at most for whom all coalitions are looked at
ORDERS = 16  # that are sampled where there are more; every second one is the one before it backwards
NORMAL = 1.645  # standard errors on both sides: a 90% interval
FIELDS = {"ledger": "ledger.", "best_ledger": "best-ledger."}  # of a state, and their names in a checkpoint


class ContributionLedger(NamedTuple):
    """Every client's parts, and what its voice is made of; all but the first are [clients]."""

    parts: Array  # [kept, clients, dim], summed with each of KEPT
    last: Array  # [clients, dim], of the last round
    move: Array  # [dim], of the last round
    squares: Array  # of its deltas, summed
    pulls: Array  # c_i, summed
    rounds: Array  # that had one
    weights: Array  # shares of all rows, their sum is 1


def open_ledger(weights: Array, dim: int, dtype: Any = np.float32) -> ContributionLedger:
    shares = np.asarray(weights, float)
    parts = np.zeros((len(KEPT), len(shares), dim), dtype)
    squares, pulls, rounds = np.zeros((3, len(shares)))
    last, move = np.zeros((len(shares), dim), dtype), np.zeros(dim, dtype)
    return ContributionLedger(parts, last, move, squares, pulls, rounds, shares / shares.sum())


def judged(
    own: ContributionLedger, best: ContributionLedger | None, verdict: int
) -> tuple[ContributionLedger, ContributionLedger | None]:
    """The ledger and that of the best anchor, after the judge's verdict and before the round is entered.

    BETTER is about the anchor that the round began with.
    """
    if verdict == Verdict.BETTER:
        return own, _copied(own)
    if verdict == Verdict.BACK and best is not None:
        return _copied(best), best
    if verdict == Verdict.RESTART:
        empty = open_ledger(own.weights, own.parts.shape[-1], own.parts.dtype)
        return empty, None
    return own, best


def _copied(ledger: ContributionLedger) -> ContributionLedger:
    return ContributionLedger(*(part.copy() for part in ledger))


def enter(
    ledger: ContributionLedger, cohort: Array, counts: Array, deltas: Array, path: Array, move: Array
) -> ContributionLedger:
    """The ledger after a round in which the server moved its model by `move`; the old one is gone.

    Of the cohort's clients (who had two results taken is in it twice) how much each delta counted, the
    deltas, and lr times steps, NaN where nobody knows.
    """
    deltas = np.asarray(deltas, ledger.parts.dtype)
    counts = np.asarray(counts, deltas.dtype)
    whole = np.einsum("c,cd->d", counts, deltas)
    along, again = _shares_of(move, whole, ledger.move)
    if not np.isfinite(along + again):  # a lost model has no parts
        return ledger
    squares = np.einsum("cd,cd->c", deltas, deltas)
    parts = along * counts * _shorter(ledger, cohort, np.sqrt(squares)).astype(deltas.dtype)
    ledger.last[...] *= again
    for who, part, delta in zip(cohort, parts, deltas, strict=True):
        ledger.last[who] += part * delta
    ledger.move[...] = move
    ledger.parts[...] *= KEPT.astype(deltas.dtype)[:, None, None]
    ledger.parts[...] += ledger.last
    np.add.at(ledger.squares, cohort, squares)
    pull = -np.expm1(-np.asarray(path, float))
    known = np.isfinite(pull)
    np.add.at(ledger.pulls, cohort, np.where(known, pull, 0.0))
    np.add.at(ledger.rounds, cohort, known)
    return ledger


def _shares_of(move: Array, whole: Array, before: Array) -> tuple[float, float]:
    """How much of a move lies along the uploads and how much along the move before it, by least squares."""
    sides = np.stack([whole, before]).astype(float)
    squares, along = np.einsum("ad,bd->ab", sides, sides), np.einsum("ad,d->a", sides, move)
    if squares[1, 1] <= 1e-20 * squares[0, 0] or squares[0, 0] <= 0:
        return (float(along[0] / squares[0, 0]) if squares[0, 0] > 0 else 0.0), 0.0
    first, second = np.linalg.lstsq(squares, along, rcond=1e-6)[0]
    return float(first), float(second)


def _shorter(ledger: ContributionLedger, cohort: Array, lengths: Array) -> Array:
    """s_i of every delta."""
    pull = ledger.pulls[cohort] / np.maximum(ledger.rounds[cohort], 1)
    usual = np.median(lengths) / np.maximum(lengths, 1e-30)
    return np.asarray(np.minimum(usual, 1) ** (pull**2 / 2))


def coalition_models(ledger: ContributionLedger, model: Array, first: Array, members: Array) -> Array:
    """[coalitions, dim] by their members, bool [coalitions, clients]; nobody's is the first model."""
    weight = members @ ledger.weights
    safe = np.where(weight > 0, weight, 1)
    usual = np.median(ledger.squares[ledger.squares > 0]) if ledger.squares.any() else 1.0
    voice = ledger.pulls / np.maximum(ledger.rounds, 1) * np.minimum(ledger.squares / usual, 1) ** 2
    left = 1 - members @ (ledger.weights * voice) / safe
    spread = np.stack([np.interp(left, KEPT, row) for row in np.eye(len(KEPT))], -1)  # [coalitions, kept]
    factors = spread[:, :, None] * (members / safe[:, None] - 1)[:, None, :]
    rows = ledger.parts.reshape(-1, ledger.parts.shape[-1])
    moved = np.einsum("sr,rd->sd", factors.reshape(len(members), -1).astype(model.dtype), rows)
    return np.where(weight[:, None] > 0, model + moved, first)


def twins(ledger: ContributionLedger) -> list[int | None]:
    """Of every client the one that sends the same, or None: in what they sent, late rounds a little more,
    each of the two is nearer to the other than TWIN times the next. Copies had 0.2 to 0.7, others 0.8."""
    sent = ledger.parts[LATE] / np.maximum(ledger.weights, 1e-12)[:, None]
    if len(sent) < 3:
        return [None] * len(sent)
    square = (sent**2).sum(1)
    apart = np.sqrt(np.maximum(square[:, None] + square - 2 * sent @ sent.T, 0))
    np.fill_diagonal(apart, np.inf)
    nearest, order = apart.argmin(1), np.sort(apart, axis=1)
    close = order[:, 0] < TWIN * order[:, 1]
    pairs = close & close[nearest] & (nearest[nearest] == np.arange(len(sent)))
    return [int(other) if pair else None for other, pair in zip(nearest, pairs, strict=True)]


def as_arrays(holder: Any) -> dict[str, Array]:
    """For a checkpoint: the ledgers of a trial's state, by name."""
    ledgers = {prefix: getattr(holder, field) for field, prefix in FIELDS.items()}
    return {
        prefix + name: part
        for prefix, ledger in ledgers.items()
        if ledger is not None
        for name, part in ledger._asdict().items()
    }


def from_checkpoint(point: Checkpoint) -> dict[str, ContributionLedger | None]:
    """The ledgers of a trial's state, by field."""
    parts = {field: point.under(prefix) for field, prefix in FIELDS.items()}
    return {field: ContributionLedger(**part) if part else None for field, part in parts.items()}


def shapley(clients: int, scores: RowScores) -> tuple[Array, Array]:
    """What each client adds, [clients, rows], and the sampled orders' own standard error, [clients].

    Over all clients the first add up to everybody's score less nobody's.
    """
    if clients <= EXACT:
        members = all_coalitions(clients)
        size = members.sum(1)
        ways = np.array([comb(clients - 1, k) for k in range(clients)], float)
        joined, before = 1 / ways[np.maximum(size - 1, 0)], 1 / ways[np.minimum(size, clients - 1)]
        factors = np.where(members.T, joined, -before) / clients
        return np.einsum("cs,sr->cr", factors, scores(members)), np.zeros(clients)
    rng = np.random.default_rng(0)
    drawn = [rng.permutation(clients) for _ in range(ORDERS // 2)]
    added = np.stack([_along(order, scores) for forth in drawn for order in (forth, forth[::-1])])
    pairs = added.mean(2).reshape(ORDERS // 2, 2, clients).mean(1)  # an order and its reverse are one draw
    return added.mean(0), pairs.std(0, ddof=1) / np.sqrt(len(pairs))


def all_coalitions(clients: int) -> Array:
    """[2^clients, clients]; the first is nobody, the last everybody."""
    return np.asarray((np.arange(2**clients)[:, None] >> np.arange(clients)) & 1 == 1)


def _along(order: Array, scores: RowScores) -> Array:
    """What each client adds in one order."""
    place = np.argsort(order)
    reached = scores(np.array([place < count for count in range(len(order) + 1)]))
    return np.asarray(np.diff(reached, axis=0)[place])


def interval(rows: Array, error: float = 0.0) -> list[float]:
    """The mean over rows and the ends of its 90% interval; `error` is a standard error that comes on top."""
    mean = float(rows.mean())
    reach = NORMAL * float(np.hypot(rows.std() / np.sqrt(len(rows)), error))
    return [mean, mean - reach, mean + reach]


def statement(
    score: str,
    names: Sequence[str],
    scores: RowScores,
    twin: Sequence[int | None],
    own_rows: Sequence[tuple[Array, Array]],
) -> Json:
    """What a ledger comes to at the end of a run, for its summary; intervals are [mean, low, high].

    Scores are shares of rows that are right, or R² of numbers. `own_rows`: of every client its own rows'
    scores by the model that it would have alone, and by everybody's.
    """
    everybody = np.ones((1, len(names)), bool)
    nobody, last, *others = scores(
        np.concatenate([~everybody, everybody, everybody ^ np.eye(len(names), dtype=bool)])
    )
    added, error = shapley(len(names), scores)
    clients = list[Json]()
    for who, name in enumerate(names):
        other = twin[who]
        adds = interval(added[who], float(error[who]))
        alone, together = own_rows[who]
        same_as = "" if other is None else names[other]
        clients.append(
            {
                "name": name,
                "adds": adds,  # its Shapley value
                "missed": interval(last - others[who]),  # by how much the score would be lower without it
                "own": float(together.mean()),
                "joining": interval(together - alone),  # what it gains on its own rows
                "twin": same_as,  # a client that sends almost the same
                "kind": _kind(adds, same_as),
            }
        )
    return {
        "score": score,
        "rows": len(last),
        "first": float(nobody.mean()),
        "last": float(last.mean()),
        "exact": len(names) <= EXACT,
        "clients": clients,
    }


def _kind(adds: Sequence[float], twin: str) -> str:
    _, low, high = adds
    if low <= 0:
        return "harmful" if high < 0 else "useless"
    return "duplicate" if twin else "useful"


def seconds_alone(rounds: Sequence[RoundRecord], clients: int, clock: str) -> Array:
    """By how much rounds were longer because of each client alone, over a run."""
    total = np.zeros(clients)
    for each in rounds:
        np.add.at(total, np.asarray(each.cohort, np.int64), _alone(each, clock))
    return total


def _alone(each: RoundRecord, clock: str) -> Array:
    """Of a round's cohort: its own seconds if they take turns, else those after all others were in. A server
    that waits for a moment, not for somebody, is kept by nobody."""
    took = np.asarray(each.plan.get("client_seconds", [0.0] * len(each.cohort)), float)
    if clock == "sum" or not len(took):
        return took
    end = each.seconds["makespan"]
    begin = end - each.round_seconds.get("makespan", float(took.max()))
    arrived = np.asarray(each.arrived, float) if each.arrived else begin + took
    last = np.argmax(arrived)
    alone = np.zeros(len(took))
    if not each.arrived or end <= arrived[last] + 1e-9:
        alone[last] = arrived[last] - max(begin, np.delete(arrived, last).max(initial=begin))
    return alone
