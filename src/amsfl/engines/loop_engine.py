"""The reference engine: numpy, one client and one step at a time, and it says where things go wrong."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from threadpoolctl import ThreadpoolController

from amsfl import protocol, sampling
from amsfl.core import Reading, Remark, Upload
from amsfl.core.records import Array, Tree
from amsfl.engines import losses, private_gradients
from amsfl.engines.client_program import gradient
from amsfl.engines.contract import Results, Work, as_readings
from amsfl.engines.numpy_network import NumpyNetwork, takes
from amsfl.engines.scores import Scores, score_logits
from amsfl.engines.task import Task
from amsfl.methods import Method
from amsfl.protocol import LocalState


class JaxNetwork:
    """What this engine asks of a network that numpy does not know; as `NumpyNetwork` has it."""

    def __init__(self, task: Task, method: Method):
        self.task, grad = task, gradient(task, method)

        def flat_grad(x: jax.Array, rows: jax.Array, labels: jax.Array, teacher: Tree) -> Tree:
            loss, tree = grad(task.unravel(x), rows, labels, teacher)
            return loss, ravel_pytree(tree)[0]

        def of_row(x: jax.Array, row: jax.Array, label: jax.Array) -> Tree:
            return flat_grad(x, row[None], label[None], ())[1]

        def held(x: jax.Array, rows: jax.Array, y: jax.Array, here: jax.Array) -> Tree:
            return losses.held_loss_and_spread(task.loss, task.model.apply(task.unravel(x), rows), y, here)

        self.gradient = jax.jit(flat_grad)
        self.each_gradient = jax.jit(jax.vmap(of_row, (None, 0, 0)))
        self.outputs = jax.jit(lambda x, rows: task.model.apply(task.unravel(x), rows))
        self.teach = jax.jit(lambda x, *rows: losses.teach(task.model.apply, task.unravel(x), *rows))
        self._held = jax.jit(held)

    def held_back(self, vector: Array, x: Array, y: Array) -> tuple[Array, Array]:
        """Rows are filled up, so that one program serves every client."""
        here = np.arange(self.task.held_back) < len(y)
        some = np.resize(np.arange(max(len(y), 1)), len(here))
        x, y = (x[some], y[some]) if len(y) else (self.task.x[some], self.task.y[some])
        loss, spread = self._held(vector, x, y, here)
        return np.asarray(loss), np.asarray(spread)


class LoopEngine:
    """Engine (see contract.Engine). Networks that numpy does not know compute in jax; the rest is to read."""

    def __init__(self, task: Task, method: Method, batch: int, readings: bool = False):
        self.task, self.method, self.batch, self.readings = task, method, batch, readings
        self.network: Any = NumpyNetwork(task) if takes(task, method) else JaxNetwork(task, method)
        self._threads = ThreadpoolController()
        self._said, self._private = False, None
        if method.private_rows is not None:
            self._private = private_gradients.reference_gradient(
                task, method.private_rows, batch, JaxNetwork(task, method).each_gradient
            )

    def work(self, asked: Sequence[Work]) -> list[Results]:
        with self._undisturbed():
            return [self._trial(work) for work in asked]

    def evaluate(self, models: Array, split: str) -> Scores:
        x, _ = self.task.evals[split]
        with self._undisturbed():
            outputs = [np.asarray(self.network.outputs(model, x)) for model in models]
            return score_logits(self.task, split, outputs)

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """One thread: products here are too small to share. And words of 32 bits wrap around on purpose."""
        with self._threads.limit(limits=1, user_api="blas"), np.errstate(all="ignore"):
            yield

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
        key = sampling.stream(*map(sampling.words, (self.task.seeds[trial], number, who)))
        teacher: Tree = ()
        if method.arithmetic.objective is not None:
            rows = self._rows(trial, who, key, sampling.PROTOTYPES, method.arithmetic.objective.rows)
            teacher = self.network.teach(server, *rows)

        def look(x: Array, step: int) -> tuple[Tree, Tree]:
            if self._private is not None:
                return dtype(0), self._private(x, trial, who, key, step)
            loss, grad = self.network.gradient(x, *self._rows(trial, who, key, step, self.batch), teacher)
            loss, grad = np.asarray(loss), np.asarray(grad)
            if not np.isfinite(grad).all():
                self._say_once(
                    f"Client {who}, round {number + 1}, step {step + 1}: the gradient is not finite."
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
            upload, memory = protocol.encode_and_decode(method.transmit, key, upload, memory)
        reading: Reading | tuple[Array, ...] = ()
        if self.readings:
            reading = protocol.measured(taken, upload.delta, step)
        return upload, state, memory, reading

    def _say_once(self, where: str) -> None:
        """A judge goes back then; without one the run ends as diverged."""
        if not self._said and not self.method.judges:
            self._said = True
            warnings.warn(where, Remark, stacklevel=2)

    def _held_back(self, anchor: Array, trial: int, who: int) -> tuple[Array, Array]:
        """Loss and spread of the rows that a client holds back."""
        shards = self.task.shards
        begin = shards.start[trial, who] + shards.size[trial, who]
        row = shards.order[trial, begin : begin + shards.held[trial, who]]
        return self.network.held_back(anchor, self.task.x[row], self.task.y[row])  # type: ignore[no-any-return]

    def _rows(self, trial: int, who: int, key: Array, step: int, size: int) -> tuple[Tree, Tree]:
        shards = self.task.shards
        places = np.arange(size, dtype=np.uint32)
        picked = sampling.draw(key, sampling.words(step), places, shards.size[trial, who], self.task.shuffled)
        row = shards.order[trial, shards.start[trial, who] + picked]
        return self.task.x[row], self.task.y[row]
