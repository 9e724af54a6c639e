"""What step rules other than ours want to know of a run: their settings, round by round."""

from collections.abc import Callable
from typing import Any

import numpy as np

from amsfl import schedule
from amsfl.clock import Costs, round_seconds
from amsfl.core import Reading
from amsfl.federation.config import RunConfig

HORIZON = 100  # rounds that a run without a time limit is taken to have left

Settings = dict[str, Any]
Tell = Callable[[RunConfig, dict[str, Any], int, schedule.Problem], Settings]


def _printed(config: RunConfig, memory: dict[str, Any], number: int, problem: schedule.Problem) -> Settings:
    """alpha = 2 lr sqrt(mu) G, beta = lr^2 L^2 G^2 / 2, the constants from readings."""
    slope, curvature = memory.get("slope", 1.0), memory.get("curvature", 1.0)
    return {
        "alpha": 2 * config.lr * memory.get("convexity", 0.0) ** 0.5 * slope,
        "beta": 0.5 * (config.lr * curvature * slope) ** 2,
    }


def _wang(config: RunConfig, memory: dict[str, Any], number: int, problem: schedule.Problem) -> Settings:
    once = schedule.seconds(problem, np.ones(len(problem.weights), np.int64))
    slope = memory.get("slope", 1.0)
    return {
        "lr": config.lr,
        "rho": slope,
        "beta": memory.get("curvature", 1.0),
        "delta": slope,  # ||g_i - mean g|| is at most this; scalars alone do not say more
        "left": HORIZON * once if config.seconds is None else max(config.seconds - memory["spent"], once),
        "previous": memory.get("previous", config.steps),
    }


def _adacomm(config: RunConfig, memory: dict[str, Any], number: int, problem: schedule.Problem) -> Settings:
    """Its basic rule every round; the halving belongs to its long intervals, not to single rounds."""
    first = memory.get("loss0", 1.0)
    return {"initial": config.steps, "loss0": first, "loss": memory.get("loss", first)}


TOLD: dict[str, Tell] = {
    "fixed": lambda config, *_: {"steps": config.steps},
    "printed": _printed,
    "wang": _wang,
    "adacomm": _adacomm,
    "decaying": lambda config, memory, number, _: {"initial": config.steps, "round": number + 1},
    "speed": lambda config, *_: {"most": config.steps},
}


def settings(
    policy: str, config: RunConfig, memory: dict[str, Any], number: int, problem: schedule.Problem
) -> Settings:
    """A policy's settings this round; what the user set goes first."""
    told = TOLD[policy](config, memory, number, problem) if policy in TOLD else {}
    return told | {
        name: int(value) if float(value).is_integer() else value
        for name, value in config.policy_options.items()
    }


def heard(memory: dict[str, Any], weights: Any, decision: Any, reading: Reading) -> dict[str, Any]:
    """Weighted means of finite readings: loss, gradient norm, secant smoothness, curvature along g."""
    share = weights / weights.sum()
    fields = Reading(*(np.asarray(field, float) for field in reading))
    fresh: dict[str, Any] = {"previous": int(np.max(decision.steps))}
    with np.errstate(divide="ignore", invalid="ignore"):
        along = -fields.grad_diff / (fields.grad_sq * decision.steps * decision.lr)  # infinite for lr 0
        found = {
            "loss": fields.loss,
            "slope": np.sqrt(fields.grad_sq),
            "curvature": np.sqrt(fields.diff_sq / fields.delta_sq),
            "convexity": np.maximum(along, 0.0),
        }
    for name, values in found.items():
        whole = np.isfinite(values) & (values != 0)
        if whole.any():
            fresh[name] = float((share * values)[whole].sum() / share[whole].sum())
    if "loss" in fresh and "loss0" not in memory:
        fresh["loss0"] = fresh["loss"]
    return fresh


def round_time(costs: Costs, cohort: Any, steps: int, kind: str) -> float:
    """How long a round of equal steps takes."""
    return round_seconds(costs, cohort, np.full(len(cohort), steps))[kind]
