"""A plan in words: a table a person can read, and one sentence on the whole."""

import numpy as np

from amsfl.core import Plan
from amsfl.core.records import Json
from amsfl.schedule.problem import Problem, client_seconds, gains, used, worth, worthless

REASON_TEXTS = {
    "budget": "the budget is used up",
    "rate": "one more step would lower the gain per second",
    "cap": "reached its largest number of steps",
    "drift": "one more step would do no good (drift)",
    "epsilon": "its privacy allows no more (epsilon)",
    "doubt": "half as many again as the mean: under a robust rule nobody gets more",
    "fixed": "the rule gives it this many",
}


def table(problem: Problem, plan: Plan) -> list[Json]:
    """One row per client, in the problem's order; `stopped` says in words why it gets no more steps.

    Args:
        problem: What was planned for.
        plan: What came out.

    Returns:
        Rows by column.
    """
    steps = np.asarray(plan.steps)
    columns = {
        "client": list(problem.clients) or [str(i) for i in range(steps.size)],
        "weight": problem.weights.tolist(),
        "step_seconds": problem.step_seconds.tolist(),
        "comm_seconds": problem.comm_seconds.tolist(),
        "gain": problem.gain.tolist(),
        "drift": problem.drift.tolist(),
        "steps": steps.tolist(),
        "seconds": client_seconds(problem, steps).tolist(),
        "worth": gains(problem, steps).tolist(),
        "next_worth": np.where(worthless(problem, steps), 0.0, worth(problem, steps)).tolist(),
        "why": list(plan.why),
        "stopped": [REASON_TEXTS.get(w, w) for w in plan.why],
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def summary(problem: Problem, plan: Plan) -> str:
    """What the plan does, what it costs and how far it can be from the best, in two or three sentences.

    Args:
        problem: What was planned for.
        plan: What came out.

    Returns:
        Text.
    """
    steps = np.asarray(plan.steps)
    how = "one client after another" if problem.kind == "sum" else "all clients at once"
    budget = problem.budget
    over = budget is not None and plan.seconds > budget * (1 + 1e-6)
    allowed = "" if budget is None or over else f" of the {budget:.4g} s allowed"
    parts = [f"{steps.size} clients take {int(steps.sum())} steps in {plan.seconds:.4g} s{allowed}, {how}."]
    if budget is None:
        parts.append(f"That is a gain of {plan.objective / plan.seconds:.4g} a second.")
    elif over:
        parts.append(f"That is {plan.seconds - budget:.4g} s over the budget of {budget:.4g} s.")
    else:
        parts.append(f"One more second would be worth about {_share(plan.price, plan.objective)} more gain.")
    for r in problem.resources:
        parts.append(f"{r.name}: {used(r, steps):.4g} of {r.limit:.4g}.")
    if plan.bound > 0 and plan.gap > 1e-9 * plan.bound:
        parts.append(f"No other plan can gain more than {_share(plan.gap, plan.objective)} on this one.")
    elif not over:
        parts.append("No other plan gains more.")
    return " ".join(parts)


def _share(part: float, whole: float) -> str:
    if whole <= 0:
        return f"{part:.3g}"
    percent = 100 * part / whole
    return f"{percent:.0f}%" if percent >= 10 else f"{percent:.2g}%"
