"""What a run leaves: its summary, every round, its clients, a curve, and a model that can be used."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from amsfl.clock.profile import MEGABYTE
from amsfl.core import VERSION, Score
from amsfl.core.records import Json
from amsfl.data import Frame
from amsfl.engines.contract import outputs
from amsfl.engines.models import tensors
from amsfl.portable import PortableModel
from amsfl.portable.model import folder_files
from amsfl.portable.network import Tensors
from amsfl.record import RoundRecord, Summary
from amsfl.record.schema import Array
from amsfl.simulation.setup import RunSetup

if TYPE_CHECKING:
    import pandas

NewRows = Array | Frame | str | Path  # features, a data frame, or a table's file


class Client(NamedTuple):
    """What one client did in a run; `pandas.DataFrame(result.clients)` is a table of them."""

    name: str
    rows: int  # that it trained on
    steps: int  # local ones, over all rounds
    seconds: float  # virtual ones of its own, over all rounds
    joules: float | None = None  # over all rounds; None where the profile does not say


class Result(NamedTuple):
    """What a run leaves: the summary that the command prints, every round, and the trained model."""

    summary: Summary
    rounds: list[RoundRecord]
    params: Array  # flat, after the last round
    parts: RunSetup
    best_params: Array | None = None  # of the best round (summary.best); None where nobody looked
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
        return self._portable(self.params)

    @property
    def best_model(self) -> PortableModel:
        """The model of the best round by the hold-out; the last one's where nobody looked."""
        return self._portable(self.params if self.best_params is None else self.best_params)

    @property
    def clients(self) -> list[Client]:
        """Name (the data's site, or a number), rows, steps and virtual seconds of each."""
        seconds, joules = (_by_client(self.rounds, key) for key in ("client_seconds", "client_joules"))
        rows, known = self.parts.task.shards.rows[self.place], self.summary.joules is not None
        return [
            Client(
                name, int(rows[who]), steps, seconds.get(who, 0.0), joules.get(who, 0.0) if known else None
            )
            for who, (name, steps) in enumerate(self.summary.steps.items())
        ]

    def to_frame(self) -> "pandas.DataFrame":
        """One row a round: seconds, every score (`holdout_accuracy`), learning rate, steps, megabytes."""
        import pandas

        table = pandas.DataFrame([row(each, self.summary.clock, self.parts.score) for each in self.rounds])
        return table.set_index("round") if len(table) else table

    def predict(self, x: NewRows) -> Array:
        """By the last model the name of each row's class, or its number in the label's own units."""
        return self.model.named(self.logits(x))

    def predict_proba(self, x: NewRows) -> Array:
        """Probabilities [rows, classes], in the order of the data's classes."""
        return self.model.chances(self.logits(x))

    def logits(self, x: NewRows) -> Array:
        """The network's outputs, [rows, classes], by the engine: a user's own network gives them, too."""
        task = self.parts.task
        rows = np.asarray(self.model.encode(x), task.dtype)
        return np.asarray(outputs(task)(self.params, rows))

    def _portable(self, params: Array) -> PortableModel:
        data, best = self.parts.data, None
        if self.best_params is not None:
            best = {key: self.summary.best[key] for key in ("round", "score")}
        about = {
            "title": self.parts.federation.method.title,
            "data": data.name,
            "model": self.parts.task.model.name,
            "version": VERSION,
            "rounds": self.summary.rounds,
            "clients": len(self.summary.steps),
            "metrics": self.summary.metrics,
            "best": best,
            "score": "loss" if self.parts.by_loss else self.parts.score.title,
            "notes": [self.summary.note] if self.summary.note else [],
            "settings": self.parts.config.model_dump(exclude_none=True),
        }
        return PortableModel(
            self.parts.task.model.layers,
            named(self.parts, params),
            data.classes,
            data.features,
            data.recipe and data.recipe._replace(rows="" if self.parts.mechanism else data.recipe.rows),
            about,
            data.amount,
        )

    def __repr__(self) -> str:
        summary = self.summary
        return (
            f"<Result: {summary.method} on {summary.data}, {summary.rounds} rounds, "
            f"{summary.virtual_seconds:.1f} virtual seconds, "
            f"{self.parts.score.title} {self.score:.4g}, {summary.status}>"
        )


def _by_client(rounds: list[RoundRecord], key: str) -> dict[int, float]:
    totals: dict[int, float] = {}
    for record in rounds:
        for who, each in zip(record.cohort, record.plan.get(key, ()), strict=False):
            totals[who] = totals.get(who, 0.0) + each
    return totals


def row(record: RoundRecord, clock: str, main: Score) -> Json:
    """A round as a table's row: when it ended, its scores, what it cost."""
    scores = {key.replace("/", "_"): value for key, value in record.scores.items()}
    if main.listed:
        scores |= {
            f"{split}_{main.name}": value
            for split, metrics in record.metrics.items()
            if (value := main.of(metrics)) is not None
        }
    return {
        "round": record.round,
        "seconds": record.seconds[clock],
        **scores,
        "lr": record.lr,
        "steps": sum(record.steps),
        "clients": len(record.cohort),
        "megabytes": (record.bytes_up + record.bytes_down) / MEGABYTE,
        **({} if record.joules is None else {"joules": record.joules}),
        "wall_seconds": record.wall.get("seconds"),
    }


def named(parts: RunSetup, params: Array) -> Tensors:
    """A flat vector's tensors by name, float32."""
    by_name = tensors(parts.task.model, parts.task.unravel(np.asarray(params)))
    return {name: np.asarray(part, np.float32) for name, part in by_name.items()}


def model_files(result: Result) -> dict[str, bytes]:
    """What of a run's folder leaves: both models, their description, a card."""
    best = None if result.best_params is None else named(result.parts, result.best_params)
    return folder_files(result.model, best)
