"""Who gets how many local steps: numbers in, steps out. Knows nothing of learning.

from amsfl.schedule import policy, problem
plan = policy("price")(problem(weights, step_seconds, comm_seconds, gain, fading, budget=2.0))
"""

from amsfl.schedule.explain import REASONS, summary, table
from amsfl.schedule.policies import (
    POLICIES,
    Policy,
    Signals,
    fill,
    fixed,
    names,
    policy,
    price,
    printed,
    speed,
)
from amsfl.schedule.problem import FADING, USUAL_MOST, Problem, as_plan, problem

__all__ = [
    "FADING",
    "POLICIES",
    "REASONS",
    "USUAL_MOST",
    "Policy",
    "Problem",
    "Signals",
    "as_plan",
    "fill",
    "fixed",
    "names",
    "policy",
    "price",
    "printed",
    "problem",
    "speed",
    "summary",
    "table",
]
