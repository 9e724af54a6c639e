"""A plan in words: a row a client, and one sentence on the whole."""

import numpy as np

from amsfl.core import Plan
from amsfl.core.records import Json
from amsfl.schedule.problem import Problem

REASONS = {
    "budget": "the budget is used up",
    "rate": "one more step would lower the worth per second",
    "cap": "reached its largest number of steps",
    "epsilon": "its privacy allows no more (epsilon)",
    "doubt": "half as many again as the mean: under a robust rule nobody gets more",
    "fixed": "the rule gives it this many",
}


def table(problem: Problem, plan: Plan) -> list[Json]:
    """One row per client, in the problem's order.

    Args:
        problem: What was planned for.
        plan: What came out.

    Returns:
        Rows by column.
    """
    steps = np.asarray(plan.steps)
    columns = {
        "client": list(problem.clients),
        "weight": problem.weights.tolist(),
        "step_seconds": problem.step_seconds.tolist(),
        "gain": problem.gain.tolist(),
        "fading": problem.fading.tolist(),
        "steps": steps.tolist(),
        "seconds": problem.client_seconds(steps).tolist(),
        "next_worth": problem.step_worth(steps).tolist(),
        "why": list(plan.why),
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def summary(problem: Problem, plan: Plan) -> str:
    """What the plan does and what it costs, in one or two sentences.

    Args:
        problem: What was planned for.
        plan: What came out.

    Returns:
        Text.
    """
    budget, steps = problem.budget, np.asarray(plan.steps)
    how = "one client after another" if problem.clock == "sum" else "all clients at once"
    over = budget is not None and plan.seconds > budget * (1 + 1e-6)
    allowed = "" if budget is None or over else f" of the {budget:.4g} s allowed"
    text = f"{steps.size} clients take {int(steps.sum())} steps in {plan.seconds:.4g} s{allowed}, {how}."
    if budget is not None and over:
        return f"{text} That is {plan.seconds - budget:.4g} s over the budget of {budget:.4g} s."
    return f"{text} They are worth {problem.worth(steps) / plan.seconds:.4g} a second."
