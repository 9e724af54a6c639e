"""Whose uploads moved the model, and where it would be had only some of them come.

The server's move v of a round is split by what it was made of: client i's part is p_i = k u_i s_i d_i, with
d_i its delta, u_i how much that counted, and k such that k sum u_i d_i is what of v lies along that sum. What
else moves a server (momentum, a judge's way back) is everybody's. A coalition's model m_S goes its own way:

    m_S = m + D_S,    D_S <- r_S D_S + sum_{i in S} p_i / W_S - sum_i p_i

W_S is its members' share of all rows. r_S says how much of a difference is left after a round: clients who
train from a model that is off pull it back, the more the further they step, and those whose deltas are small
do not: r_S = 1 - sum_{i in S} w_i c_i min(1, e_i)^2 / W_S, with c_i the mean of 1 - exp(-lr steps) over
client i's rounds, as if the loss had curvature 1, and e_i the sum of squares of its deltas over the clients'
median of it. s_i: who disagrees with everybody's model sends long deltas, which would be shorter in a
coalition that follows it, the more the further its steps go; s_i = min(1, median |d| / |d_i|)^(c_i^2 / 2), by
c_i before this round. In the first round all coalitions have the same model, and s_i is 1.

Where a judge sends the server back to its best anchor, the ledger goes back with it; from the first model
again it begins anew.

Deltas are of the models that there were, not of those that a coalition would have had. studies/worth.py
holds this against really training all coalitions.

Sums are einsum's, not `@`: threads of a BLAS library wait busily for more, and rounds of job A took 1.7 times
as long.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import Verdict

Array = np.ndarray[Any, np.dtype[Any]]
KEPT = np.array([0.0, 0.4, 0.7, 0.85, 0.95, 1.0])  # values of r with sums; others lie between two
BLOCK = 8  # rounds that are kept apart, then added to the sums in one product: a quarter of the time of each
LATE = 4  # of KEPT: by which twins are found; AMSFL's first rounds are long and wild
FIELDS = {"ledger": "ledger.", "best_ledger": "best-ledger."}  # of a state, and their names in a checkpoint
TWIN = 0.72  # how far a client's twin is at most, over how far the next one is


class ContributionLedger(NamedTuple):
    """Every client's parts, and what its voice is made of; all but the first three are [clients]."""

    parts: Array  # [kept, clients, dim], summed with each of KEPT: all rounds but the last few
    recent: Array  # [BLOCK, clients, dim], those
    used: Array  # [1], how many of them there are
    squares: Array  # of its deltas, summed
    pulls: Array  # c_i, summed
    rounds: Array  # that had one
    weights: Array  # shares of all rows, their sum is 1


class RoundParts(NamedTuple):
    """What a round's move was made of, [cohort, ...]."""

    cohort: Array  # client numbers; who had two results taken is in it twice
    counts: Array  # how much each delta counted
    deltas: Array
    path: Array  # lr times steps; NaN where nobody knows


def open_ledger(weights: Array, dim: int, dtype: Any = np.float32) -> ContributionLedger:
    shares = np.asarray(weights, float)
    parts = np.zeros((len(KEPT), len(shares), dim), dtype)
    recent = np.zeros((BLOCK, len(shares), dim), dtype)
    squares, pulls, rounds = np.zeros((3, len(shares)))
    used = np.zeros(1, np.int64)
    return ContributionLedger(parts, recent, used, squares, pulls, rounds, shares / shares.sum())


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
    if verdict in (Verdict.BRANCH, Verdict.RESTART):
        empty = open_ledger(own.weights, own.parts.shape[-1], own.parts.dtype)
        return empty, best if verdict == Verdict.BRANCH else None
    return own, best


def scored(
    own: ContributionLedger | None, best: ContributionLedger | None, trying: int
) -> ContributionLedger | None:
    """The ledger of the model that is scored: the best anchor's while a branch is tried."""
    return best if trying else own


def as_arrays(holder: Any) -> dict[str, Array]:
    """For a checkpoint: the ledgers of a trial's or a server's state, by name."""
    ledgers = {prefix: getattr(holder, field) for field, prefix in FIELDS.items()}
    return {
        prefix + name: part
        for prefix, ledger in ledgers.items()
        if ledger is not None
        for name, part in ledger._asdict().items()
    }


def from_arrays(arrays: Mapping[str, Any]) -> dict[str, ContributionLedger | None]:
    """Out of all that a checkpoint holds, as copies, by field."""
    parts = {field: with_prefix(arrays, prefix) for field, prefix in FIELDS.items()}
    return {field: ContributionLedger(**part) if part else None for field, part in parts.items()}


def with_prefix(arrays: Mapping[str, Any], prefix: str) -> dict[str, Array]:
    """Copies of a checkpoint's arrays whose names begin so, by the rest of their names."""
    return {
        name.removeprefix(prefix): np.array(part) for name, part in arrays.items() if name.startswith(prefix)
    }


def _copied(ledger: ContributionLedger) -> ContributionLedger:
    return ContributionLedger(*(part.copy() for part in ledger))


def enter(ledger: ContributionLedger, work: RoundParts, move: Array) -> ContributionLedger:
    """The ledger after a round in which the server moved its model by `move`; the old one is gone."""
    deltas = np.asarray(work.deltas, ledger.parts.dtype)
    counts = np.asarray(work.counts, deltas.dtype)
    whole = np.einsum("c,cd->d", counts, deltas)
    square = float(np.einsum("d,d", whole, whole))
    along = float(np.einsum("d,d", move, whole)) / square if square > 0 else 0.0
    if not np.isfinite(along):  # a lost model has no parts
        return ledger
    if ledger.used[0] == BLOCK:
        _add_up(ledger)
    squares = np.einsum("cd,cd->c", deltas, deltas)
    parts = along * counts * _shorter(ledger, work.cohort, np.sqrt(squares)).astype(deltas.dtype)
    _scaled_rows(ledger.recent[ledger.used[0]], work.cohort, parts, deltas)
    np.add.at(ledger.squares, work.cohort, squares)
    ledger.used[0] += 1
    pull = -np.expm1(-np.asarray(work.path, float))
    known = np.isfinite(pull)
    np.add.at(ledger.pulls, work.cohort, np.where(known, pull, 0.0))
    np.add.at(ledger.rounds, work.cohort, known)
    return ledger


def _scaled_rows(out: Array, cohort: Array, by: Array, rows: Array) -> None:
    """Every client's rows times their numbers, added up; zeros for who has none."""
    if np.array_equal(cohort, np.arange(len(out))):  # all once, in order: a third of the time
        np.multiply(rows, by[:, None], out=out)
        return
    out[...] = 0
    for who, each, row in zip(cohort, by, rows, strict=True):
        out[who] += each * row


def _shorter(ledger: ContributionLedger, cohort: Array, lengths: Array) -> Array:
    """s_i of every delta."""
    pull = ledger.pulls[cohort] / np.maximum(ledger.rounds[cohort], 1)
    rising = np.sort(lengths)  # np.median takes fifteen times as long for so few
    usual = (rising[(len(rising) - 1) // 2] + rising[len(rising) // 2]) / 2 / np.maximum(lengths, 1e-30)
    return np.asarray(np.minimum(usual, 1) ** (pull**2 / 2))


def _add_up(ledger: ContributionLedger) -> None:
    """The recent rounds into the sums."""
    old, new = _fading(int(ledger.used[0]))
    flat = ledger.recent.reshape(BLOCK, -1)
    for row, keep, each in zip(ledger.parts.reshape(len(KEPT), -1), old, new, strict=True):
        row *= row.dtype.type(keep)
        row += np.einsum("r,rd->d", each.astype(row.dtype), flat)
    ledger.used[0] = 0


def _fading(used: int) -> tuple[Array, Array]:
    """What is left, by KEPT, of the sums [kept] and of each of the recent rounds [kept, used]."""
    return KEPT**used, KEPT[:, None] ** np.arange(used - 1, -1, -1)


def coalition_models(ledger: ContributionLedger, model: Array, first: Array, members: Array) -> Array:
    """[coalitions, dim] by their members, bool [coalitions, clients]; nobody's is the first model."""
    weight = members @ ledger.weights
    safe = np.where(weight > 0, weight, 1)
    scale = members / safe[:, None] - 1
    usual = np.median(ledger.squares[ledger.squares > 0]) if ledger.squares.any() else 1.0
    voice = ledger.pulls / np.maximum(ledger.rounds, 1) * np.minimum(ledger.squares / usual, 1) ** 2
    left = 1 - members @ (ledger.weights * voice) / safe
    spread = np.stack([np.interp(left, KEPT, row) for row in np.eye(len(KEPT))], -1)  # [coalitions, kept]
    used, dim = int(ledger.used[0]), ledger.parts.shape[-1]
    models = np.tile(model, (len(members), 1))
    for left_of, rows in zip(_fading(used), (ledger.parts, ledger.recent[:used]), strict=True):
        fading = spread * left_of if left_of.ndim == 1 else spread @ left_of  # [coalitions, rows]
        some = np.flatnonzero(fading.any(0))  # of KEPT those beside a coalition's r_S
        if not len(some) or not rows.any():
            continue
        part = slice(some[0], some[-1] + 1)
        factors = (fading[:, part, None] * scale[:, None, :]).reshape(len(members), -1)
        models += np.einsum("sr,rd->sd", factors.astype(model.dtype), rows[part].reshape(-1, dim))
    models[weight <= 0] = first
    return np.asarray(models)


def twins(ledger: ContributionLedger) -> list[int | None]:
    """Of every client the one that sends the same, or None: in what they sent, late rounds a little more,
    each of the two is nearer to the other than TWIN times the next. Copies had 0.2 to 0.7, others 0.8."""
    old, new = (part[LATE] for part in _fading(int(ledger.used[0])))
    recent = ledger.recent[: ledger.used[0]]
    whole = old * ledger.parts[LATE] + np.einsum("r,rcd->cd", new.astype(recent.dtype), recent)
    sent = whole / np.maximum(ledger.weights, 1e-12)[:, None]
    if len(sent) < 3:
        return [None] * len(sent)
    square = (sent**2).sum(1)
    apart = np.sqrt(np.maximum(square[:, None] + square - 2 * sent @ sent.T, 0))
    np.fill_diagonal(apart, np.inf)
    nearest, order = apart.argmin(1), np.sort(apart, axis=1)
    close = order[:, 0] < TWIN * order[:, 1]
    pairs = close & close[nearest] & (nearest[nearest] == np.arange(len(sent)))
    return [int(other) if pair else None for other, pair in zip(nearest, pairs, strict=True)]
