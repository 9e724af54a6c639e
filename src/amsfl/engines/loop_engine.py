"""The reference engine: numpy, one client and one step at a time, and it says where things go wrong."""

from collections.abc import Sequence

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from amsfl import protocol, sampling
from amsfl.core import Reading, Upload, UserError
from amsfl.core.records import Array, Tree
from amsfl.engines import losses, private_gradients
from amsfl.engines.client_program import gradient
from amsfl.engines.contract import Results, Work, as_readings
from amsfl.engines.scores import Scores, score_logits
from amsfl.engines.task import Task
from amsfl.methods import Method
from amsfl.protocol import LocalState


class LoopEngine:
    """Engine (see contract.Engine). Only gradients and logits come from jax; the rest is numpy to read."""

    def __init__(self, task: Task, method: Method, batch: int, readings: bool = False):
        self.task, self.method, self.batch, self.readings = task, method, batch, readings
        grad = gradient(task, method)

        def flat_grad(x: jax.Array, rows: jax.Array, labels: jax.Array, teacher: Tree) -> Tree:
            loss, tree = grad(task.unravel(x), rows, labels, teacher)
            return loss, ravel_pytree(tree)[0]

        def each_grad(x: jax.Array, rows: jax.Array, labels: jax.Array) -> Tree:
            def one(row: jax.Array, label: jax.Array) -> Tree:
                return flat_grad(x, row[None], label[None], ())[1]

            return jax.vmap(one)(rows, labels)

        self._grad = jax.jit(flat_grad)
        self._private = None
        if method.private_rows is not None:
            each = jax.jit(each_grad)
            self._private = private_gradients.reference_gradient(task, method.private_rows, batch, each)
        self._logits = jax.jit(lambda x, rows: task.model.apply(task.unravel(x), rows))
        self._held = jax.jit(
            lambda x, rows, y, here: losses.held_loss_and_spread(
                task.loss, task.model.apply(task.unravel(x), rows), y, here
            )
        )
        self._teach = jax.jit(lambda x, *rows: losses.teach(task.model.apply, task.unravel(x), *rows))

    def work(self, asked: Sequence[Work]) -> list[Results]:
        return [self._trial(work) for work in asked]

    def evaluate(self, models: Array, split: str) -> Scores:
        x, _ = self.task.evals[split]
        return score_logits(self.task, split, [np.asarray(self._logits(model, x)) for model in models])

    def _trial(self, work: Work) -> Results:
        each = [self._job(work, place) for place in range(len(work.client))]
        uploads, states, memories, readings = zip(*each, strict=True)
        if work.shares is None:
            sent = Upload(*(np.stack(part) for part in zip(*uploads, strict=True)))
        else:
            sent = protocol.sum_uploads(uploads, np.asarray(work.shares, self.task.dtype))
        fields = np.array(readings, self.task.dtype).reshape(len(each), -1)
        return Results(sent, np.stack(states), np.stack(memories), as_readings(fields))

    def _job(self, work: Work, place: int) -> tuple[Upload, Array, Array, tuple[Array, ...]]:
        """One client's round: what it sends, its state and its memory afterwards, and the reading."""
        method, dtype = self.method, self.task.dtype
        trial, who, number = work.trial, int(work.client[place]), int(work.number[place])
        anchor, server, step = (part[work.begin[place]] for part in work.models)
        with np.errstate(over="ignore"):  # 32-bit words wrap around on purpose
            key = sampling.stream(*map(sampling.words, (self.task.seeds[trial], number, who)))
        teacher: Tree = ()
        if method.arithmetic.objective is not None:
            rows = self._rows(trial, who, key, sampling.PROTOTYPES, method.arithmetic.objective.rows)
            teacher = self._teach(server, *rows)

        def look(x: Array, step: int) -> tuple[Tree, Tree]:
            if self._private is not None:
                return dtype(0), self._private(x, trial, who, key, step)
            loss, grad = self._grad(x, *self._rows(trial, who, key, step, self.batch), teacher)
            loss, grad = np.asarray(loss), np.asarray(grad)
            if not np.isfinite(grad).all() and not method.judges:  # a judge goes back instead
                raise UserError(
                    f"Client {who}, round {number + 1}, step {step + 1}: the gradient is not finite; "
                    "lower --lr, or look at this client's rows."
                )
            return loss, grad

        steps = int(work.steps[place])
        local = LocalState(anchor, server, work.state[place], dtype(work.lr[place]))
        local = protocol.begin(method, local)
        local = protocol.first_step(method, local, *look(local.x, 0))
        for number_ in range(1, steps):
            local = protocol.local_step(method, local, look(local.x, number_)[1])
        if self.readings and not method.private_rows:
            local = protocol.look_back(local, look(local.x, 0)[1])
            if self.task.held_back:
                local = local._replace(held=self._held_back(anchor, trial, who))
        upload, state, taken = protocol.finish(method, local, dtype(steps))
        memory = work.memory[place]
        if method.transmit is not None:
            with np.errstate(over="ignore"):
                upload, memory = protocol.encode_and_decode(method.transmit, key, upload, memory)
        reading: Reading | tuple[Array, ...] = ()
        if self.readings:
            reading = protocol.measured(taken, upload.delta, step)
        return upload, state, memory, reading

    def _held_back(self, anchor: Array, trial: int, who: int) -> tuple[Array, Array]:
        """Loss and spread of the rows that a client holds back."""
        shards, most = self.task.shards, self.task.held_back
        begin = shards.start[trial, who] + shards.size[trial, who]
        here = np.arange(most) < shards.held[trial, who]
        row = shards.order[trial, np.where(here, begin + np.arange(most), 0)]
        loss, spread = self._held(anchor, self.task.x[row], self.task.y[row], here)
        return np.asarray(loss), np.asarray(spread)

    def _rows(self, trial: int, who: int, key: Array, step: int, size: int) -> tuple[Tree, Tree]:
        shards = self.task.shards
        places = np.arange(size, dtype=np.uint32)
        with np.errstate(over="ignore"):
            picked = sampling.draw(
                key, sampling.words(step), places, shards.size[trial, who], self.task.shuffled
            )
        row = shards.order[trial, shards.start[trial, who] + picked]
        return self.task.x[row], self.task.y[row]
