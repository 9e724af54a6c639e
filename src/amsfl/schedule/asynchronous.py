"""Steps of clients that do not wait for each other: each by what its own seconds are worth."""

import numpy as np

from amsfl.core import Plan
from amsfl.schedule.lagrange import tighten
from amsfl.schedule.optimise import as_plan
from amsfl.schedule.policy import Signals
from amsfl.schedule.problem import Problem, caps, curve_worth, summed_limits


def plan_alone(problem: Problem, signals: Signals) -> Plan:
    """t maximises s(age) U(t) / (c t + b), client by client: gain per second, and old work counts less.

    Who is away for c t + b seconds misses (c t + b) / interval moves of the server: the age of its work.
    Each has an equal part of what further limits leave.
    """
    cost, room = summed_limits(problem)
    top = tighten(caps(problem), cost, room / len(problem.weights))
    steps = np.ones(len(problem.weights), np.int64)
    for i in range(len(steps)):
        t = np.arange(1, int(top[i]) + 1)
        client = (problem.weights[i], problem.gain[i], problem.drift[i])
        gained = np.cumsum(curve_worth(problem.curve, *client, t - 1))
        seconds = problem.step_seconds[i] * t + problem.comm_seconds[i]
        value = gained / seconds
        if signals.stale is not None and signals.interval:
            value = value * np.array([signals.stale(age) for age in seconds / signals.interval])
        steps[i] = t[np.argmax(value)]
    why = np.where(steps < top, "drift", np.where(top < problem.t_max, "budget", "cap"))
    return as_plan(problem, steps, tuple(why.tolist()))
