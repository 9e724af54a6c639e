"""What a round's record says beyond the numbers."""

from typing import Any

import numpy as np

from amsfl.clock import Costs
from amsfl.flower.server.replies import AcceptedReply
from amsfl.planning.planner import Decision


def explain(
    decision: Decision, cohort: Any, kept: list[int], good: list[AcceptedReply], expected: Costs
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
