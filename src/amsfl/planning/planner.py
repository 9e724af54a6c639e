"""The planner of one federation: pure functions over a small memory.

A planner is told costs (seconds) and, after the round, readings; what it must remember between rounds
is a record of numbers (context.py). decisions.py and learning.py decide and learn, and do the
same for many trials at once.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from amsfl import schedule
from amsfl.clock.sites import Floats
from amsfl.core import Reading
from amsfl.methods import Method
from amsfl.planning.context import (
    Decision,
    Ints,
    PlannerMemory,
    PlanRequest,
    RoundReadings,
    Stale,
    planner_context,
    start,
)
from amsfl.planning.decisions import decide
from amsfl.planning.learning import learn
from amsfl.schedule import Policy
from amsfl.settings.definitions import Training

__all__ = ["Decision", "Planner", "PlannerMemory", "planner", "policy_of"]


class Planner(NamedTuple):
    """start() -> memory; decide(*PlanRequest) -> Decision; learn(*RoundReadings) -> memory."""

    start: Callable[[], PlannerMemory]
    decide: Callable[..., Decision]
    learn: Callable[[PlannerMemory, Ints, Decision, Reading], PlannerMemory]


def policy_of(config: Training, method: Method, given: Policy | None = None) -> Policy:
    """The one that was passed, the one that the settings name, or the one that the method plans by."""
    if given is not None:
        return given
    named = method.facts.policy if config.policy == "auto" else config.policy
    return schedule.policy(named, **config.policy_options)


def planner(
    config: Training,
    method: Method,
    policy: Policy,
    weights: Floats,
    rows: Floats | float = np.inf,
    stale: Stale = None,
) -> Planner:
    """The planner of a policy; the arguments are those of `planner_context`."""
    own = planner_context(config, method, policy, weights, rows, stale)

    return Planner(
        lambda: start(own),
        lambda *request: decide([own], [PlanRequest(*request)])[0],
        lambda *readings: learn([own], [RoundReadings(*readings)])[0],
    )
