"""A policy of one's own: one step more every round, fewer for whoever is slower than the fastest."""

import numpy as np

from amsfl import Policy
from amsfl.planning import as_plan


def rising(first: int = 2) -> Policy:
    """t_i = max(1, round((first + r) c_min / c_i)) in round r."""

    def plan(problem, signals):
        share = problem.step_seconds.min() / problem.step_seconds
        return as_plan(problem, np.maximum(1, np.round((first + signals.round) * share)).astype(np.int64))

    return Policy("rising", plan)
