"""Planned steps with a floor: a little speed for the clients that planning by worth leaves behind."""

import numpy as np

from amsfl.core import Plan, UserError
from amsfl.schedule.optimise import as_plan, optimise
from amsfl.schedule.policy import Policy, Signals
from amsfl.schedule.problem import Problem, within


def fair(least: float = 0.5) -> Policy:
    """The steps of `price`, but nobody has fewer than `least` times the most; less where a budget is tight.

    Slow clients and those whose steps are worth little get few steps by worth per second, and the model then
    fits their rows last. `least` = 0 is `price`, 1 gives everybody the same.

    Args:
        least: From 0 to 1.

    Returns:
        The policy.
    """
    if not 0 <= least <= 1:
        raise UserError(f"The policy 'fair' takes a number from 0 to 1 for least, not {least:g}.")

    def plan(problem: Problem, signals: Signals) -> Plan:
        best = optimise(problem)
        for floor in range(int(np.ceil(least * np.max(best.steps))), 0, -1):
            raised = np.maximum(best.steps, np.minimum(floor, problem.t_max))
            if within(problem, raised):
                why = np.where(raised > best.steps, "fixed", best.why)
                return as_plan(problem, raised, tuple(why.tolist()))
        return best

    return Policy("fair", plan, readings=True, steps=False)
