"""ClientApps of ours: any Trainer, held to its site's policy.

A Trainer is what a site brings: torch_client.py, jax_client.py and NumpyTrainer below have one each.
"""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from amsfl.core import RowPrivacy, UserError
from amsfl.flower import privacy
from amsfl.flower.site_policy import obey
from amsfl.flower.task import FlatVector, LocalTask, NoMoreData, fading, flat, received, unflat


class Trainer:
    """What a client brings: rows, a model and how it is trained; the rest may be left out. Those that compute
    flat gradients are a GradientTrainer; what one needs for privacy, privacy.py says."""

    rows: int  # how many it trains on: its weight

    def load(self, arrays: ArrayRecord, task: LocalTask) -> None:
        """Take the model; a UserError where it is not this client's. No row is looked at."""
        raise NotImplementedError

    def train(self, task: LocalTask) -> Mapping[str, float]:
        """Take the steps, `for step in task`; what the server should know besides: `fading`, metrics of one's
        own."""
        raise NotImplementedError

    def arrays(self) -> ArrayRecord:
        """The model as it is now: the same names, shapes and types as came."""
        raise NotImplementedError

    def held_back(self, task: LocalTask) -> tuple[float, float] | None:
        """Mean loss of the share of rows (`task.held_share`) that it does not train on, and how much their
        outputs differ (docs/protocol.md); None without any."""
        return None

    def evaluate(self) -> Mapping[str, float] | None:
        """Scores on its own test rows, and `num-examples`; None without any."""
        return None


class GradientTrainer(Trainer):
    """Steps along flat gradients; `rows` and `gradient` are all that is needed."""

    x: FlatVector

    def gradient(self, x: FlatVector, step: int) -> tuple[float, FlatVector]:
        """Mean loss and gradient of a minibatch at the flat model; the same number, the same rows."""
        raise NotImplementedError

    def load(self, arrays: ArrayRecord, task: LocalTask) -> None:
        self.task, self.came, self.x = task, arrays, flat(arrays)

    def train(self, task: LocalTask) -> Mapping[str, float]:
        first, anchor = None, self.x
        for number in task:
            try:
                loss, grad = self.gradient(self.x, number)
            except NoMoreData:
                break
            if not math.isfinite(loss):
                task.leave_out(loss)
                continue
            first = grad if first is None else first
            self.x = task.step(self.x, anchor, grad)
        if first is None:
            return {}
        return fading(first, self.gradient(self.x, 0)[1], task.done, task.lr)

    def arrays(self) -> ArrayRecord:
        return unflat(self.x, self.came)


class NumpyTrainer(GradientTrainer):
    """A Trainer from one function.

    Args:
        rows: How many it trains on.
        gradient: `gradient(x, step, task)` returns loss and gradient of the flat model; `step` numbers the
            round's minibatches, and `task` has seed, round, client and batch to draw them by.
        evaluate: `evaluate(x)` returns scores on test rows, and how many those are as `num-examples`.
    """

    def __init__(
        self,
        rows: int,
        gradient: Callable[[FlatVector, int, LocalTask], tuple[float, FlatVector]],
        evaluate: Callable[[FlatVector], Mapping[str, float]] | None = None,
    ):
        self.rows, self._gradient, self._evaluate = rows, gradient, evaluate

    def gradient(self, x: FlatVector, step: int) -> tuple[float, FlatVector]:
        loss, grad = self._gradient(x, step, self.task)
        return float(loss), np.asarray(grad, np.float32)

    def evaluate(self) -> Mapping[str, float] | None:
        return self._evaluate(self.x) if self._evaluate else None


def client_app(make: Callable[[Context], Trainer]) -> ClientApp:
    """A ClientApp around a Trainer.

    Args:
        make: `make(context)` returns the Trainer; Flower asks for one a message.

    Returns:
        The app that a pyproject.toml names as `clientapp`.
    """
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        def answer(arrays: ArrayRecord, task: LocalTask) -> Message:
            with privacy.silent(task.terms is not None, UserError):
                return Message(work(arrays, task, context, make), reply_to=message)

        return obey(message, context, answer)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        def answer() -> Message:
            arrays, task = received(message, context)
            privacy.SiteLedger(context).check_open()
            trainer = make(context)
            trainer.load(arrays, task)
            scores = trainer.evaluate()
            if scores is None:
                raise UserError("This client has no test rows to score by.")
            return Message(RecordDict({"metrics": MetricRecord(dict(scores))}), reply_to=message)

        return obey(message, context, answer)

    return app


def work(
    arrays: ArrayRecord, task: LocalTask, context: Context, make: Callable[[Context], Trainer]
) -> RecordDict:
    """A client's round. All that can be wrong with an order is found before anything of its epsilon is
    spent."""
    started, ledger = time.perf_counter(), privacy.SiteLedger(context)
    if task.terms is None:
        ledger.check_open()
    trainer = make(context)
    trainer.load(arrays, task)
    if task.terms is not None:
        said = private_work(trainer, task, ledger, started)
    else:
        held = trainer.held_back(task) if task.held_share else None
        said = {} if held is None else {"held-loss": held[0], "output-spread": held[1]}
        said |= dict(trainer.train(task)) | {"train-seconds": max(sum(task.timed), 1e-9)}
    if not task.done:
        raise UserError("There was no batch to step by: this client's rows are at their end, or it has none.")
    said |= {"num-examples": trainer.rows, "local-steps": task.done}
    return RecordDict({"arrays": trainer.arrays(), "metrics": MetricRecord(said)})


def private_work(
    trainer: Any, task: LocalTask, ledger: privacy.SiteLedger, started: float
) -> dict[str, float]:
    """Private steps, which tell nothing else: no reading, no loss, and seconds that are rounded."""
    terms = task.terms
    assert terms is not None
    privacy.check(trainer)
    private, anchor = RowPrivacy(terms.clip), trainer.x
    task.steps, noise = ledger.spend(task, trainer.rows)
    for _ in task:
        grad = privacy.gradient(trainer, private, noise, task.batch, trainer.x)
        trainer.x = task.step(trainer.x, anchor, grad)
    spent = ledger.give_back(task.run, task.steps - task.done)
    step = privacy.coarse(sum(task.timed) / task.done)
    whole = privacy.coarse(time.perf_counter() - started)
    time.sleep(max(started + whole - time.perf_counter(), 0))  # the server has a clock, too
    return {"train-seconds": step * task.done, "epsilon": spent}
