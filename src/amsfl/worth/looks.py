"""When a ledger is looked at, and what a round's record says of it."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from amsfl.worth.ledger import Array, ContributionLedger, coalition_models

CLIENTS_AT_MOST = 32  # whose coalitions are followed: fourteen vectors each, and hundreds of models to score
SPARSER = 4  # rounds between two looks grow by this: a curve changes most at its beginning
ROUNDING = 1e-9  # of logarithms


def is_due(number: int, over: bool) -> bool:
    """After rounds 1, 4, 16 and so on, and after the last one."""

    def looks(number: int) -> int:
        return int(math.log(number, SPARSER) + ROUNDING) if number else -1

    return over or looks(number) > looks(number - 1)


def look(
    ledger: ContributionLedger, model: Array, row_scores: Callable[[Array], Array], score: float | None
) -> dict[str, Any]:
    """The score, and what it would be without each client; `score` is the one by all rows, if known."""
    clients = len(ledger.weights)
    members = np.concatenate([np.ones((1, clients), bool), ~np.eye(clients, dtype=bool)])
    models = coalition_models(ledger, model, model, members)
    first, *others = row_scores(models).mean(1).tolist()
    whole = first if score is None else score
    return {"score": whole, "without": [whole + (other - first) for other in others]}
