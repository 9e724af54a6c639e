"""Who gets how many local steps: numbers in, steps out. Knows nothing of learning.

from amsfl.schedule import policy, problem
plan = policy("price")(problem(weights, step_seconds, comm_seconds, gain, drift, budget=2.0))
"""

from amsfl.schedule.build import T_MAX, problem, with_worth
from amsfl.schedule.explain import REASON_TEXTS, summary, table
from amsfl.schedule.optimise import as_plan
from amsfl.schedule.policy import Policy, Signals
from amsfl.schedule.problem import Problem, Resource, rate, seconds, utility, within, worth
from amsfl.schedule.published_rules import adacomm, decaying, speed, wang
from amsfl.schedule.registry import POLICIES, exact, greedy, names, policy, price
from amsfl.schedule.simple import fill, fixed, printed

__all__ = [
    "POLICIES",
    "REASON_TEXTS",
    "T_MAX",
    "Policy",
    "Problem",
    "Resource",
    "Signals",
    "adacomm",
    "as_plan",
    "decaying",
    "exact",
    "fill",
    "fixed",
    "greedy",
    "names",
    "policy",
    "price",
    "printed",
    "problem",
    "rate",
    "seconds",
    "speed",
    "summary",
    "table",
    "utility",
    "wang",
    "with_worth",
    "within",
    "worth",
]
