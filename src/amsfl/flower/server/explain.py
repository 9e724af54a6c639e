"""What a round's record says beyond the numbers, and the clients' own scores of a model."""

from typing import Any

import numpy as np

from amsfl.clock import Costs
from amsfl.federation.planner import Decision
from amsfl.flower.server.accept import Good
from amsfl.flower.server.post import Arrival
from amsfl.flower.wire import scalars


def explain(
    decision: Decision, cohort: Any, kept: list[int], good: list[Good], expected: Costs
) -> dict[str, Any]:
    """The planner's explanation, for those whose work was taken, and their predicted and actual seconds."""
    planned = len(cohort)
    own = {
        key: [value[place] for place in kept] if isinstance(value, list) and len(value) == planned else value
        for key, value in decision.explain.items()
    }
    who = cohort[kept]
    predicted = expected.step_seconds[who] * np.asarray(decision.steps)[kept] + expected.comm_seconds[who]
    own |= {
        "step_seconds": [item.reply.step_seconds for item in good],
        "compute_seconds": [item.reply.compute_seconds for item in good],
        "client_seconds": [item.seconds for item in good],
        "predicted_client_seconds": predicted.tolist(),
    }
    if len(kept) < planned:
        own["planned"] = {"cohort": [int(c) for c in cohort], "steps": [int(s) for s in decision.steps]}
    return own


def client_scores(arrivals: list[Arrival]) -> dict[str, dict[str, Any]]:
    """Scores of the clients' own test rows, averaged by rows; what is not finite does not count."""
    totals: dict[str, float] = {}
    rows = 0.0
    for arrival in arrivals:
        message, order = arrival.message, arrival.sent.order
        if message.has_error() or order is None:
            continue
        try:
            echo, scores = scalars(message.content, "echo"), scalars(message.content, "scores")
            mine = float(scores.pop("rows"))
            if echo["run"] != order.run or echo["round"] != order.round or not mine > 0:
                continue
            values = {key: float(value) for key, value in scores.items()}
        except (KeyError, TypeError, ValueError):
            continue
        if all(np.isfinite(value) for value in values.values()):
            rows += mine
            totals = {key: totals.get(key, 0.0) + mine * value for key, value in values.items()}
    return {"clients": {key: value / rows for key, value in totals.items()} | {"rows": rows}} if rows else {}
