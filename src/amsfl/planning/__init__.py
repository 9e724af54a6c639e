"""Who takes how many local steps, and what is learnt from a round for the next one.

from amsfl.planning import policy, problem
plan = policy("price")(problem(weights, step_seconds, comm_seconds, gain, fading, budget=2.0))

planner.py is what a simulation asks, and knows methods and settings; all else takes numbers alone.
"""

from amsfl.planning.learning import (
    Estimates,
    Judge,
    describe,
    gain_and_fading,
    judge_round,
    new_estimates,
    new_judge,
    update,
)
from amsfl.planning.policies import POLICIES, fill, fixed, policy, printed, speed
from amsfl.planning.problem import (
    FADING,
    REASONS,
    USUAL_MOST,
    Policy,
    Problem,
    Signals,
    as_plan,
    price,
    problem,
)
