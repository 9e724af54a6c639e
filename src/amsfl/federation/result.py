"""What a run leaves: its summary, every round, and a model that can be used."""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from amsfl.core.version import VERSION
from amsfl.engines import State
from amsfl.engines.models import tensors
from amsfl.federation import face
from amsfl.federation.setup import Parts
from amsfl.portable import PortableModel
from amsfl.portable.model import files
from amsfl.portable.network import Tensors
from amsfl.record import Checkpoint, RoundRecord, Summary

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

Array = np.ndarray[Any, np.dtype[Any]]


class Best(NamedTuple):
    """The model of the round that did best on the hold-out; of several the first."""

    round: int
    accuracy: float
    params: Array


class Result(NamedTuple):
    """What a run leaves: the summary that the command prints, every round, and the trained model."""

    summary: Summary
    rounds: list[RoundRecord]
    params: Array  # flat, after the last round
    parts: Parts
    best: Best | None = None  # None where nobody looked
    place: int = 0  # among the trials of its batch

    @property
    def accuracy(self) -> float:
        """Share of the hold-out that the final model gets right; nan where nobody looked."""
        return math.nan if self.summary.accuracy is None else self.summary.accuracy

    @property
    def model(self) -> PortableModel:
        """The last round's model, for use without amsfl's engines."""
        return portable(self.parts, self.params, self.summary, self.best)

    @property
    def best_model(self) -> PortableModel:
        """The model of the best round by the hold-out; the last one's where nobody looked."""
        params = self.params if self.best is None else self.best.params
        return portable(self.parts, params, self.summary, self.best)

    @property
    def clients(self) -> list[face.Client]:
        """Name (the data's site, or a number), rows, steps and virtual seconds of each."""
        return face.clients(self)

    def to_frame(self) -> "pandas.DataFrame":
        """One row a round: seconds, every score (`holdout_accuracy`), learning rate, steps, megabytes."""
        return face.frame(self)

    def plot(self, score: str | None = None, by: str = "seconds", axes: "Axes | None" = None) -> "Axes":
        """The curve of a score (a column of `to_frame`) by seconds, round or megabytes; matplotlib's axes."""
        return face.plot(self, score, by, axes)

    def predict(self, x: Any) -> Array:
        """Class names of rows: features as the data has them, a table's file or a data frame."""
        return np.asarray(np.take(np.array(self.parts.data.classes), self.logits(x).argmax(axis=1)))

    def predict_proba(self, x: Any) -> Array:
        """Probabilities [rows, classes], in the order of the data's classes."""
        found = self.logits(x).astype(np.float64)
        found = np.exp(found - found.max(axis=1, keepdims=True))
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def logits(self, x: Any) -> Array:
        """By the engine's own network, so that a user's own gives them, too."""
        import jax.numpy as jnp  # here: the engines set jax up before anybody imports it

        task = self.parts.task
        rows = jnp.asarray(self.model.encode(x), task.dtype)
        return np.asarray(task.model.apply(task.unravel(jnp.asarray(self.params)), rows))

    def __repr__(self) -> str:
        told = self.summary
        return (
            f"<Result: {told.method} on {told.data}, {told.rounds} rounds, {told.virtual_seconds:.1f} "
            f"virtual seconds, accuracy {self.accuracy:.4f}, {told.status}>"
        )


def named(parts: Parts, params: Array) -> Tensors:
    """A flat vector's tensors by name, float32."""
    import jax.numpy as jnp

    found = tensors(parts.task.model, parts.task.unravel(jnp.asarray(params)))
    return {name: np.asarray(part, np.float32) for name, part in found.items()}


def portable(parts: Parts, params: Array, summary: Summary, best: Best | None) -> PortableModel:
    data = parts.data
    about = {
        "title": parts.method.title or parts.method.name,
        "data": data.name,
        "model": parts.task.model.name,
        "version": VERSION,
        "rounds": summary.rounds,
        "clients": len(summary.steps),
        "metrics": summary.metrics,
        "best": best and {"round": best.round, "accuracy": best.accuracy},
        "notes": [summary.note] if summary.note else [],
        "settings": parts.config.model_dump(exclude_none=True, exclude={"data_dir"}),
    }
    return PortableModel(
        parts.task.model.layers, named(parts, params), data.classes, data.features, data.recipe, about
    )


def model_files(result: Result) -> dict[str, bytes]:
    """What of a run's folder leaves: both models, their description, a card."""
    best = None if result.best is None else named(result.parts, result.best.params)
    return files(result.model, best)


def better(best: Best | None, parts: Parts, state: State, fresh: RoundRecord) -> Best | None:
    """The best round so far, this one included."""
    score = fresh.metrics.get("holdout", {}).get("accuracy")
    if score is None or not math.isfinite(score) or (best is not None and score <= best.accuracy):
        return best
    return Best(fresh.round, float(score), model_of(parts, state)[0])


def model_of(parts: Parts, state: State) -> Array:
    """What is scored and what leaves, [trials, dim]."""
    return np.asarray(parts.method.model(state.anchor, state.server))


def kept(best: Best | None) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays and the words of it that a checkpoint holds."""
    if best is None:
        return {}, {}
    return {"best": best.params}, {"best": {"round": best.round, "accuracy": best.accuracy}}


def from_kept(point: Checkpoint) -> Best | None:
    told = point.host.get("best")
    return Best(told["round"], told["accuracy"], point.arrays["best"]) if told else None
