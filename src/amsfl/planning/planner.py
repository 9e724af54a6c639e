"""The planner of one federation: pure functions over a small memory.

A planner is told costs (seconds) and, after the round, readings; what it must remember between rounds
is a record of numbers (context.py). decisions.py and learning.py decide and learn, and do the
same for many trials at once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from amsfl import schedule
from amsfl.core import Reading
from amsfl.methods import Method
from amsfl.planning.context import (
    Decision,
    Ints,
    PlannerMemory,
    PlanRequest,
    RoundReadings,
    planner_context,
    start,
)
from amsfl.planning.decisions import decide
from amsfl.planning.learning import learn
from amsfl.schedule import Policy
from amsfl.settings.definitions import PLANNED_STEPS_AT_MOST, Training

__all__ = ["PLANNED_STEPS_AT_MOST", "Decision", "Planner", "PlannerMemory", "planner", "policy_of"]


class Planner(NamedTuple):
    """start() -> memory; decide(*Asked) -> Decision; learn(*Heeded) -> memory."""

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
    config: Training, method: Method, policy: Policy, weights: Any, *more: Any, **others: Any
) -> Planner:
    """The planner of a policy; the arguments are those of `planner_context`."""
    own = planner_context(config, method, policy, weights, *more, **others)

    def decide_one(*request: Any) -> Decision:
        return decide([own], [PlanRequest(*request)])[0]

    def learn_one(*readings: Any) -> PlannerMemory:
        return learn([own], [RoundReadings(*readings)])[0]

    return Planner(lambda: start(own), decide_one, learn_one)
