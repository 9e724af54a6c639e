"""What a real server takes from the settings exactly as a simulation does: the method and the planner."""

from typing import Any

from amsfl import methods
from amsfl.federation import RunConfig, planner, setup
from amsfl.methods import Method


def options_of(config: RunConfig) -> dict[str, float]:
    """The method's hyper-parameters after the settings' mode; clients are told these."""
    return dict(setup.method_options(config))


def method_of(config: RunConfig) -> Method:
    return methods.make(config.method, options_of(config), config.extrapolation)


def reads(config: RunConfig, method: Method) -> bool:
    """Whether clients are to take GDA readings: the method, the policy or the user asks for them."""
    policy = planner.policy_of(config)
    return method.readings or config.readings or policy in planner.READERS or policy == "adacomm"


def planner_of(config: RunConfig, weights: Any) -> planner.Planner:
    """start / decide / learn; nothing in it knows whether time is virtual."""
    return planner.planner(config, weights)
