"""Shapley values of a game whose worth is known row by row: exactly, or by truncated sampling of orders.

A player's value is what it adds to those before it, on average over all orders in which all may come
(Shapley 1953). Values of rows add up, so each row has values of its own, and their spread over rows is the
error that so few rows leave.
"""

from collections.abc import Callable
from functools import cache
from math import comb
from typing import Any, NamedTuple

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Members = np.ndarray[Any, np.dtype[np.bool_]]  # [coalitions, players]
RowScores = Callable[[Members], Floats]  # -> [coalitions, rows]: the score of every row

EXACT = 6  # players at most for whom all coalitions are looked at
ORDERS = 16  # that are sampled where there are more; every second one is the one before it backwards
TOLERANCE = 0.005  # of the score: who comes when it is within this of everybody's adds nothing
AT_ONCE = 8  # coalitions of an order that are looked at together
NORMAL = 1.645  # standard errors on both sides: a 90% interval


class RowMean(NamedTuple):
    """A mean over rows, and the bounds of its 90% interval."""

    mean: float
    low: float
    high: float


class Shares(NamedTuple):
    """What each player adds to the score, [players, rows], and the sampled orders' own standard error."""

    rows: Floats
    error: Floats  # [players]; 0 where all coalitions were looked at

    @property
    def estimates(self) -> list[RowMean]:
        """Of every player."""
        return [estimate(mine, error) for mine, error in zip(self.rows, self.error, strict=True)]


def estimate(rows: Floats, error: float = 0.0) -> RowMean:
    """The mean over rows with its interval; `error` is a standard error that comes on top."""
    mean, of_rows = float(rows.mean()), float(rows.std()) / np.sqrt(len(rows))
    reach = NORMAL * float(np.hypot(of_rows, error))
    return RowMean(mean, mean - reach, mean + reach)


def shapley(players: int, scores: RowScores, seed: int = 0) -> Shares:
    """Every player's share of what all add together; `seed` is of the orders that are sampled.

    Over all players they add up to all's score less nobody's (sampled: but for TOLERANCE).
    """
    if players <= EXACT:
        return Shares(weights_of(players) @ scores(all_coalitions(players)), np.zeros(players))
    rng = np.random.default_rng(seed)
    drawn = [rng.permutation(players) for _ in range(ORDERS // 2)]
    orders = [order for forth in drawn for order in (forth, forth[::-1])]
    nobody, everybody = scores(np.array([[False] * players, [True] * players]))
    added = np.stack([_along(order, scores, nobody, everybody) for order in orders])
    pairs = added.mean(2).reshape(ORDERS // 2, 2, players).mean(1)  # an order and its reverse are one draw
    return Shares(added.mean(0), pairs.std(0, ddof=1) / np.sqrt(len(pairs)))


def looked_up(players: int, scores: RowScores) -> RowScores:
    """The same game with every coalition scored once, now."""
    table, place = scores(all_coalitions(players)), 1 << np.arange(players)
    return lambda members: table[members @ place]


def all_coalitions(players: int) -> Members:
    """[2^players, players]; the first is nobody, the last everybody."""
    return np.asarray((np.arange(2**players)[:, None] >> np.arange(players)) & 1 == 1)


@cache
def weights_of(players: int) -> Floats:
    """[players, coalitions]: how much each coalition's score counts in each player's value."""
    members = all_coalitions(players)
    size = members.sum(1, keepdims=True)
    ways = np.array([comb(players - 1, k) for k in range(players)], float)
    joined, before = 1 / ways[np.maximum(size - 1, 0)], 1 / ways[np.minimum(size, players - 1)]
    return np.asarray(np.where(members, joined, -before).T / players)


def _along(order: Any, scores: RowScores, nobody: Floats, everybody: Floats) -> Floats:
    """What each player adds in one order; nothing once the score is almost everybody's."""
    players, added, reached = len(order), np.zeros((len(order), len(nobody))), nobody
    place = np.argsort(order)
    for begin in range(0, players, AT_ONCE):
        some = range(begin, min(begin + AT_ONCE, players))
        now = scores(np.array([place <= last for last in some]))
        added[order[some]] = np.diff(np.concatenate([reached[None], now]), axis=0)
        reached = now[-1]
        if abs(everybody.mean() - reached.mean()) < TOLERANCE:
            break
    return added
