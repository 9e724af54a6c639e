"""Who gets how many local steps: numbers in, steps out. Knows nothing of learning.

    from amsfl.schedule import policy, problem
    plan = policy("price")(problem(weights, step_seconds, comm_seconds, gain, drift, budget=2.0))
"""

from amsfl.schedule.check import problem
from amsfl.schedule.problem import Problem, Resource, rate, seconds, utility, worth
from amsfl.schedule.registry import POLICIES, greedy, policy, price

__all__ = [
    "POLICIES",
    "Problem",
    "Resource",
    "greedy",
    "policy",
    "price",
    "problem",
    "rate",
    "seconds",
    "utility",
    "worth",
]
