"""What a run leaves: its summary, every round, and a model that can be used."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from amsfl.core.records import Json
from amsfl.core.version import VERSION
from amsfl.data import Frame
from amsfl.engines.models import tensors
from amsfl.portable import PortableModel
from amsfl.portable.model import folder_files
from amsfl.portable.network import Tensors
from amsfl.record import Checkpoint, RoundRecord, Summary
from amsfl.record.disk import Content
from amsfl.record.schema import Array
from amsfl.simulation import result_view
from amsfl.simulation.setup import RunSetup

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

NewRows = Array | Frame | str | Path  # features, a data frame, or a table's file


class Best(NamedTuple):
    """The model of the round that did best on the hold-out; of several the first."""

    round: int
    score: float  # accuracy, or what else the run goes by (Summary.best)
    params: Array


class Result(NamedTuple):
    """What a run leaves: the summary that the command prints, every round, and the trained model."""

    summary: Summary
    rounds: list[RoundRecord]
    params: Array  # flat, after the last round
    parts: RunSetup
    best: Best | None = None  # None where nobody looked
    place: int = 0  # among the trials of its batch

    @property
    def accuracy(self) -> float:
        """Share of the hold-out that the final model gets right; nan where nobody looked, or of numbers."""
        return math.nan if self.summary.accuracy is None else self.summary.accuracy

    @property
    def score(self) -> float:
        """What the run goes by, of the hold-out: accuracy, of numbers R², or what `score` names."""
        value = self.parts.score.of(self.summary.metrics.get("holdout", {}))
        return math.nan if value is None else value

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
    def clients(self) -> list[result_view.Client]:
        """Name (the data's site, or a number), rows, steps and virtual seconds of each."""
        return result_view.clients(self)

    def to_frame(self) -> "pandas.DataFrame":
        """One row a round: seconds, every score (`holdout_accuracy`), learning rate, steps, megabytes.

        Returns:
            A data frame, by round.
        """
        return result_view.frame(self)

    def worth(self) -> "pandas.DataFrame":
        """One row a client: what it adds, with a 90% interval, and the seconds that it alone causes.

        Needs worth=True.

        Returns:
            A data frame, by client.
        """
        return result_view.worth(self)

    def plot(self, score: str | None = None, by: str = "seconds", axes: "Axes | None" = None) -> "Axes":
        """The curve of a score.

        Args:
            score: A column of `to_frame`; what the run goes by if left out.
            by: seconds, round, megabytes or joules.
            axes: Matplotlib's, to draw into.

        Returns:
            Matplotlib's axes.
        """
        return result_view.plot(self, score, by, axes)

    def predict(self, x: NewRows) -> Array:
        """Predict rows by the last model.

        Args:
            x: Features, a table's file or a data frame.

        Returns:
            The name of each row's class, or its number in the label's own units.
        """
        return self.model.named(self.logits(x))

    def predict_proba(self, x: NewRows) -> Array:
        """How likely each class is.

        Args:
            x: Features, a table's file or a data frame.

        Returns:
            Probabilities [rows, classes], in the order of the data's classes.
        """
        return self.model.chances(self.logits(x))

    def logits(self, x: NewRows) -> Array:
        """By the engine's own network, so that a user's own gives them, too.

        Args:
            x: Features, a table's file or a data frame.

        Returns:
            The network's outputs, [rows, classes].
        """
        import jax.numpy as jnp  # here: the engines set jax up before anybody imports it

        task = self.parts.task
        rows = jnp.asarray(self.model.encode(x), task.dtype)
        return np.asarray(task.model.apply(task.unravel(jnp.asarray(self.params)), rows))

    def __repr__(self) -> str:
        summary = self.summary
        return (
            f"<Result: {summary.method} on {summary.data}, {summary.rounds} rounds, "
            f"{summary.virtual_seconds:.1f} virtual seconds, "
            f"{self.parts.score.title} {self.score:.4g}, {summary.status}>"
        )


def named(parts: RunSetup, params: Array) -> Tensors:
    """A flat vector's tensors by name, float32."""
    by_name = tensors(parts.task.model, parts.task.arrays(np.asarray(params)))
    return {name: np.asarray(part, np.float32) for name, part in by_name.items()}


def portable(parts: RunSetup, params: Array, summary: Summary, best: Best | None) -> PortableModel:
    data = parts.data
    about = {
        "title": parts.method.title,
        "data": data.name,
        "model": parts.task.model.name,
        "version": VERSION,
        "rounds": summary.rounds,
        "clients": len(summary.steps),
        "metrics": summary.metrics,
        "best": best and {"round": best.round, "score": best.score},
        "score": "loss" if parts.by_loss else parts.score.title,
        "notes": [summary.note] if summary.note else [],
        "settings": parts.config.model_dump(exclude_none=True),
    }
    return PortableModel(
        parts.task.model.layers,
        named(parts, params),
        data.classes,
        data.features,
        data.recipe and data.recipe._replace(rows="" if parts.mechanism else data.recipe.rows),
        about,
        data.amount,
    )


def model_files(result: Result) -> dict[str, Content]:
    """What of a run's folder leaves: both models, their description, a card."""
    best = None if result.best is None else named(result.parts, result.best.params)
    return folder_files(result.model, best)


def kept(best: Best | None) -> tuple[dict[str, Array], Json]:
    """The arrays and the words of it that a checkpoint holds."""
    if best is None:
        return {}, {}
    return {"best": best.params}, {"best": {"round": best.round, "score": best.score}}


def from_kept(point: Checkpoint) -> Best | None:
    best = point.host.get("best")
    if not best:
        return None
    score = best["score"] if "score" in best else best["accuracy"]  # of checkpoints before other scores
    return Best(best["round"], score, point.arrays["best"])
