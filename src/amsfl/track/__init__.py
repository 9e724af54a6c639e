"""Trackers send the numbers of every round to TensorBoard, MLflow, Weights & Biases or a user's own."""

from collections.abc import Sequence

from amsfl.core import Kind, parse_names
from amsfl.track.base import RunCallbacks, RunInfo, Tracker, numbers, tracking
from amsfl.track.services import mlflow, tensorboard, wandb

TRACKERS = {"tensorboard": tensorboard, "mlflow": mlflow, "wandb": wandb}
_KIND = Kind("tracker", "trackers", Tracker, TRACKERS)

__all__ = ["TRACKERS", "RunCallbacks", "RunInfo", "Tracker", "make", "names", "numbers", "tracking"]

TrackerSpec = str | Tracker | Sequence[str | Tracker] | None


def make(trackers: TrackerSpec) -> list[Tracker]:
    """`tensorboard,mlflow`, a Tracker, or several of either.

    Args:
        trackers: Names with commas, objects, or several of either.

    Returns:
        The trackers.
    """
    if trackers is None:
        return []
    if isinstance(trackers, Tracker):
        return [trackers]
    if isinstance(trackers, str):
        return [_KIND.make(name) for name, _ in parse_names(trackers)]
    return [tracker for each in trackers for tracker in make(each)]


def names() -> list[str]:
    """Trackers that can be named: ours and those of installed packages.

    Returns:
        The names, ours first.
    """
    return _KIND.names()
