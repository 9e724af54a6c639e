"""Whose uploads moved the model, and where it would be had only some of them come.

The server's move v of a round is split by what it was made of: client i's part is k u_i d_i, with d_i its
delta, u_i how much that counted, and k such that the parts together are what of v lies along their sum. What
else moves a server (momentum, a judge's way back) is everybody's. A coalition's model m_S goes its own way:

    m_S = m + D_S,    D_S <- r_S D_S + sum_{i in S} k u_i d_i / W_S - sum_i k u_i d_i

W_S is its members' share of all rows. r_S says how much of a difference is left after a round: clients who
train from a model that is off pull it back, those whose deltas are small do not. With e_i the sum of squares
of client i's deltas over the clients' median of it, r_S = 1 - PULL sum_{i in S} w_i min(1, e_i)^2 / W_S.

Deltas are of the models that there were, not of those that a coalition would have had. studies/worth.py
holds this against really training all coalitions.
"""

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
PULL = 0.8  # of a difference that a round of clients with usual deltas makes up for
KEPT = np.array([0.2, 0.6, 0.9, 1.0])  # values of r for which sums are kept; others lie between two


class ContributionLedger(NamedTuple):
    """Every client's parts, summed with each of KEPT; the squares of its deltas; its share of all rows."""

    parts: Array  # [kept, clients, dim]
    squares: Array  # [clients]
    weights: Array  # [clients], their sum is 1


class RoundParts(NamedTuple):
    """What a round's move was made of, [cohort, ...]."""

    cohort: Array  # client numbers; who had two results taken is in it twice
    counts: Array  # how much each delta counted
    deltas: Array


def open_ledger(weights: Array, dim: int, dtype: Any = np.float32) -> ContributionLedger:
    shares = np.asarray(weights, float)
    parts = np.zeros((len(KEPT), len(shares), dim), dtype)
    return ContributionLedger(parts, np.zeros(len(shares)), shares / shares.sum())


def enter(ledger: ContributionLedger, work: RoundParts, move: Array) -> ContributionLedger:
    """The ledger after a round in which the server moved its model by `move`; the old one is gone."""
    deltas = np.asarray(work.deltas, ledger.parts.dtype)
    counts = np.asarray(work.counts, deltas.dtype)
    whole = counts @ deltas
    square = float(whole @ whole)
    along = float(move @ whole) / square if square > 0 else 0.0
    if not np.isfinite(along):  # a lost model has no parts
        return ledger
    ledger.parts[...] *= KEPT.astype(deltas.dtype)[:, None, None]
    for who, count, delta in zip(work.cohort, counts, deltas, strict=True):
        ledger.parts[:, who] += along * count * delta
        ledger.squares[who] += float(delta @ delta)
    return ledger


def coalition_models(ledger: ContributionLedger, model: Array, first: Array, members: Array) -> Array:
    """[coalitions, dim] by their members, bool [coalitions, clients]; nobody's is the first model."""
    weight = members @ ledger.weights
    safe = np.where(weight > 0, weight, 1)
    scale = members / safe[:, None] - 1
    usual = np.median(ledger.squares[ledger.squares > 0]) if ledger.squares.any() else 1.0
    voice = np.minimum(ledger.squares / usual, 1) ** 2
    left = 1 - PULL * (members @ (ledger.weights * voice)) / safe
    spread = np.stack([np.interp(left, KEPT, row) for row in np.eye(len(KEPT))], -1)  # [coalitions, kept]
    factors = (spread[:, :, None] * scale[:, None, :]).reshape(len(members), -1)
    models = model + factors.astype(model.dtype) @ ledger.parts.reshape(-1, ledger.parts.shape[-1])
    models[weight <= 0] = first
    return np.asarray(models)


def alike(ledger: ContributionLedger) -> Array:
    """[clients, clients]: how far two clients' parts, less everybody's, point the same way; 1: they do."""
    parts = ledger.parts[-1]
    apart = parts / np.maximum(ledger.weights, 1e-12)[:, None] - parts.sum(0)
    length = np.linalg.norm(apart, axis=1)
    safe = np.where(length > 0, length, 1)
    return np.asarray(apart @ apart.T / np.outer(safe, safe))
