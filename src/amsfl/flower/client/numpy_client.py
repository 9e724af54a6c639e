"""Plain numpy as a client: all that it takes is a function that computes a gradient."""

from collections.abc import Callable
from typing import Any

import numpy as np

from amsfl.flower import messages
from amsfl.flower.client.app import client_app
from amsfl.flower.client.local_round import Trainer
from amsfl.methods import Method

numpy_client = client_app
"""A client_app, by the name that says what it is for: `make(context)` returns a NumpyTrainer."""


class NumpyTrainer(Trainer):
    """A Trainer from one function: gradient(x, step, order) -> loss, gradient, all flat float32.

    `step` numbers the round's minibatches: the same number must mean the same rows within a round;
    `order` has seed, round, client and batch to draw them by.
    """

    def __init__(
        self,
        rows: int,
        start: messages.Vector,
        gradient: Callable[[messages.Vector, int, messages.Order], tuple[float, messages.Vector]],
        evaluate: Callable[[messages.Vector], dict[str, float]] | None = None,
    ):
        self.rows, self._start, self._gradient, self._evaluate = rows, start, gradient, evaluate

    def start(self, seed: int) -> tuple[messages.Vector, messages.Buffers]:
        """The first model, where the server asks this client for one.

        Args:
            seed: Of the first model.

        Returns:
            The flat model and its buffers.
        """
        return np.asarray(self._start, np.float32), {}

    def begin(self, order: messages.Order, model: messages.GlobalModel, method: Method) -> None:
        """Called once before the steps of a round.

        Args:
            order: What the server asks for.
            model: Where the round begins.
            method: How to step.
        """
        super().begin(order, model, method)
        self.order = order

    def gradient(self, x: Any, step: int) -> tuple[float, Any]:
        """Loss and gradient of a minibatch.

        Args:
            x: The flat model.
            step: Of this round, from 0; it says which minibatch.

        Returns:
            The loss and its gradient.
        """
        loss, grad = self._gradient(x, step, self.order)
        return float(loss), np.asarray(grad, np.float32)

    def evaluate(self, x: Any) -> dict[str, float] | None:
        """Scores on the client's own test rows.

        Args:
            x: The flat model.

        Returns:
            loss, rows and scores, or None without test rows.
        """
        return self._evaluate(x) if self._evaluate else None
