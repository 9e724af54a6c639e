"""Trackers: rounds and ends to TensorBoard, MLflow, Weights & Biases, or wherever your own sends them."""

from collections.abc import Sequence

from amsfl.core import Kind, spelled
from amsfl.track.base import Begun, Told, Tracker, numbers, tracking
from amsfl.track.mlflow import mlflow
from amsfl.track.tensorboard import tensorboard
from amsfl.track.wandb import wandb

TRACKERS = {"tensorboard": tensorboard, "mlflow": mlflow, "wandb": wandb}
_KIND = Kind("tracker", "trackers", Tracker, TRACKERS)

__all__ = ["TRACKERS", "Begun", "Told", "Tracker", "make", "names", "numbers", "tracking"]

Given = str | Tracker | Sequence[str | Tracker] | None


def make(given: Given) -> list[Tracker]:
    """`tensorboard,mlflow`, a Tracker, or several of either.

    Args:
        given: Names with commas, objects, or several.

    Returns:
        The trackers.
    """
    if given is None:
        return []
    if isinstance(given, Tracker):
        return [given]
    if isinstance(given, str):
        return [_KIND.make(name) for name, _ in spelled(given)]
    return [tracker for each in given for tracker in make(each)]


def names() -> list[str]:
    """Trackers that can be named: ours and those of installed packages.

    Returns:
        The names, ours first.
    """
    return _KIND.names()
