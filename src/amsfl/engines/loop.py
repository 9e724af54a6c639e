"""The reference engine: numpy, one client and one step at a time, and it says where things go wrong."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from amsfl.core import Reading, Upload, UserError
from amsfl.drift import reading
from amsfl.engines import losses, sampling
from amsfl.engines.base import Orders, Outcome, Scores, State
from amsfl.engines.client import gradient
from amsfl.engines.task import Task
from amsfl.methods import Method
from amsfl.methods.base import UNCAPPED


class Loop:
    """Engine (see base.Engine). Only gradients and logits come from jax; the rest is numpy to read."""

    def __init__(self, task: Task, method: Method, batch: int, readings: bool = False):
        self.task, self.method, self.batch, self.readings = task, method, batch, readings
        grad = gradient(task, method)

        def flat_grad(x: jax.Array, rows: jax.Array, labels: jax.Array, teacher: Any) -> Any:
            loss, tree = grad(task.unravel(x), rows, labels, teacher)
            return loss, ravel_pytree(tree)[0]

        self._grad = jax.jit(flat_grad)
        self._logits = jax.jit(lambda x, rows: task.model.apply(task.unravel(x), rows))
        self._teach = jax.jit(lambda x, *rows: losses.teach(task.model.apply, task.unravel(x), *rows))

    def start(self) -> State:
        anchor = self.task.start()
        pairs = [self.method.init(x) for x in anchor]
        clients = self.task.shards.size.shape[1]
        server = np.stack([pair[0] for pair in pairs])
        client = np.stack([np.stack([pair[1]] * clients) for pair in pairs])
        return State(anchor, server, client, np.zeros_like(anchor))

    def place(self, state: State) -> State:
        return State(*(np.asarray(part) for part in state))

    def round(self, state: State, orders: Orders, number: int, keep: bool = False) -> tuple[State, Outcome]:
        state = State(*(np.array(part) for part in state))
        shape = np.shape(orders.steps)
        readings = Reading(*(np.zeros(shape, self.task.dtype) for _ in Reading._fields))
        deltas = np.zeros((*shape, self.task.dim), self.task.dtype) if keep else None
        for trial in range(shape[0]):
            if np.any(orders.steps[trial] > 0):
                self._trial(trial, state, orders, number, readings, deltas)
        return state, Outcome(readings, deltas)

    def _trial(
        self, trial: int, state: State, orders: Orders, number: int, readings: Reading, deltas: Any
    ) -> None:
        """One trial's round, written into the fresh copies of `round`."""
        dtype = self.task.dtype
        anchor, server = state.anchor[trial].copy(), state.server[trial].copy()
        steps = np.asarray(orders.steps[trial])
        weights = np.asarray(orders.weights[trial], dtype)
        mix = self.method.mix(weights, np.maximum(steps, 1).astype(dtype))
        total: Upload | None = None
        for place, who in enumerate(orders.cohort[trial]):
            if steps[place] == 0:
                continue
            lr = dtype(orders.lr[trial])
            x, taken = self._local(trial, int(who), state, int(steps[place]), lr, number)
            upload, state.client[trial, who] = self.method.report(
                x, anchor, dtype(steps[place]), lr, server, state.client[trial, who]
            )
            for field, value in zip(readings, taken, strict=True):
                field[trial, place] = value
            if deltas is not None:
                deltas[trial, place] = upload.delta
            scaled = Upload(*(mix[place] * part for part in upload))
            total = scaled if total is None else Upload(*(a + b for a, b in zip(total, scaled, strict=True)))
        assert total is not None
        moved, fresh = self.method.aggregate(
            anchor, total, weights, np.maximum(steps, 1).astype(dtype), server
        )
        state.anchor[trial], state.server[trial], state.step[trial] = moved, fresh, moved - anchor

    def _local(
        self, trial: int, who: int, state: State, steps: int, lr: Any, number: int
    ) -> tuple[Any, Reading]:
        """One client's steps from the anchor, one at a time."""
        anchor, server, client = state.anchor[trial], state.server[trial], state.client[trial, who]
        with np.errstate(over="ignore"):  # 32-bit words wrap around on purpose
            key = sampling.stream(*map(sampling.words, (self.task.seeds[trial], number, who)))
        teacher: Any = ()
        if self.method.objective is not None:
            rows = self._rows(trial, who, key, sampling.PROTOTYPES, self.method.objective.rows)
            teacher = self._teach(server, *rows)
        x, loss, first = anchor, np.zeros(()), anchor
        for step in range(steps):
            value, grad = self._grad(x, *self._rows(trial, who, key, step, self.batch), teacher)
            grad = np.asarray(grad)
            if not np.isfinite(grad).all():
                raise UserError(
                    f"Client {who}, round {number + 1}, step {step + 1}: the gradient is not finite; "
                    "lower --lr, or look at this client's rows."
                )
            if step == 0:
                loss, first = value, grad
                if lr == 0 and self.method.stride is not None:  # nobody knows one yet: this one's is the cap
                    lr = self._stride(self.task.dtype(UNCAPPED), value, grad)
            x = x - self._stride(lr, value, grad) * self.method.correct(grad, x, anchor, server, client)
        if not self.readings:
            return x, Reading(*[np.zeros(())] * len(Reading._fields))
        value, last = self._grad(x, *self._rows(trial, who, key, 0, self.batch), teacher)
        last = np.asarray(last)
        taken = reading(loss, first, last, x - anchor, state.step[trial])
        if self.method.closing:
            x = x - self._stride(lr, value, last) * self.method.correct(last, x, anchor, server, client)
        return x, taken

    def _stride(self, lr: Any, loss: Any, grad: Any) -> Any:
        if self.method.stride is None:
            return lr
        return self.task.dtype(self.method.stride(lr, np.asarray(loss), (grad * grad).sum()))

    def _rows(self, trial: int, who: int, key: Any, step: int, size: int) -> tuple[Any, Any]:
        shards = self.task.shards
        places = np.arange(size, dtype=np.uint32)
        with np.errstate(over="ignore"):
            picked = sampling.draw(key, sampling.words(step), places, shards.size[trial, who])
        row = shards.order[trial, shards.start[trial, who] + picked]
        return self.task.x[row], self.task.y[row]

    def evaluate(self, models: Any, split: str) -> Scores:
        x, y = self.task.evals[split]
        losses_, tables = [], []
        for model in np.asarray(models):
            logits = np.asarray(self._logits(model, x))
            likely = logits - jnp.asarray(jax.nn.logsumexp(logits, axis=-1, keepdims=True))
            losses_.append(-np.take_along_axis(np.asarray(likely), y[:, None], 1).mean())
            table = np.zeros((self.task.classes, self.task.classes), np.int64)
            np.add.at(table, (y, logits.argmax(-1)), 1)
            tables.append(table)
        return Scores(np.array(losses_), np.stack(tables))
