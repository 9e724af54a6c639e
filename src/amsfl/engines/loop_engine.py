"""The reference engine: numpy, one client and one step at a time, and it says where things go wrong.

Dense networks are numpy's, of flat vectors: nothing is compiled, which is most of the time of a small job.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from amsfl import protocol, sampling
from amsfl.core import Reading, Remark, Upload
from amsfl.core.records import Array, Json, Tree
from amsfl.engines import losses, optimizers
from amsfl.engines.contract import Results, Work, number_scores, table_scores
from amsfl.engines.models import is_dense
from amsfl.engines.task import Task
from amsfl.methods import Federation, Method
from amsfl.portable.network import flips
from amsfl.protocol import LocalState


def takes(task: Task, federation: Federation) -> bool:
    """Whether numpy can: dense layers with ReLU between, one of our losses, no teacher, no private rows."""
    plain = federation.method.objective is None and federation.private_rows is None
    return plain and task.model.loss is None and is_dense(task.model.layers)


class NumpyNetwork:
    """What the loop engine asks of a network."""

    def __init__(self, task: Task):
        self.task, self.scale = task, task.dtype(1 / task.model.unit)
        self.flips = flips(sum(bool(part.name) for part in task.model.layers))
        placed = task.unravel(np.arange(task.dim))  # where each layer's weight and bias lie in a vector
        self.places = [
            [(slice(part.flat[0], part.flat[-1] + 1), part.shape) for part in each] for each in placed
        ]

    def outputs(self, vector: Array, x: Array) -> Array:
        return self._forward(vector, x)[1][-1]

    def gradient(self, vector: Array, x: Array, y: Array, _: Tree = ()) -> tuple[Array, Array]:
        """The mean loss of some rows, and its gradient."""
        layers, (*before, outputs) = self._forward(vector, x)
        loss, change = loss_and_slope(self.task.loss, outputs, y)
        change = change / self.task.dtype(len(y))
        parts: list[Array] = []
        for place, (weight, flip) in reversed([*enumerate(layers)]):
            came = before[place]
            parts += [change.sum(0), (change.T @ came if flip else came.T @ change).ravel()]
            if place:
                change = change @ weight.T * (came > 0)
        return loss.mean(), np.concatenate(parts[::-1])

    def held_back(self, vector: Array, x: Array, y: Array) -> tuple[Array, Array]:
        """As `losses.held_loss_and_spread` has it."""
        outputs, nothing = self.outputs(vector, x), self.task.dtype(np.nan)
        if not len(y):
            return nothing, nothing
        spread = np.abs(outputs - outputs.mean(0)).max() / (1 + np.abs(outputs).max())
        return loss_and_slope(self.task.loss, outputs, y)[0].mean(), spread if len(y) > 1 else nothing

    def _forward(self, vector: Array, x: Array) -> tuple[list[tuple[Array, bool]], list[Array]]:
        """Weights [inputs, outputs], and whether they are stored turned; what goes into each layer, and what
        comes out of the last."""
        layers, values = [], [x * self.scale if self.task.model.unit != 1 else x]
        for ((place, shape), (behind, _)), flip in zip(self.places, self.flips, strict=True):
            weight = vector[place].reshape(shape)
            layers.append((weight.T if flip else weight, flip))
            out = values[-1] @ layers[-1][0] + vector[behind]
            values.append(out if len(layers) == len(self.flips) else np.maximum(out, 0))
        return layers, values


def loss_and_slope(loss: losses.RowLoss, outputs: Array, y: Array) -> tuple[Array, Array]:
    """Of every row the loss, and its derivative by the outputs."""
    if loss in (losses.squared, losses.absolute):
        off = outputs[:, 0] - y
        of_rows = off**2 / 2 if loss is losses.squared else np.abs(off)
        return of_rows, (off if loss is losses.squared else np.sign(off))[:, None]
    away = outputs - outputs.max(-1, keepdims=True)
    likely = away - np.log(np.exp(away).sum(-1, keepdims=True))
    rows, change = np.arange(len(y)), np.exp(likely)
    of_rows = -likely[rows, y]
    change[rows, y] -= 1
    if isinstance(loss, partial):
        each = np.asarray(loss.args[0], outputs.dtype)[y]
        return of_rows * each, change * each[:, None]
    return of_rows, change


class JaxNetwork:
    """What this engine asks of a network that numpy does not know; as `NumpyNetwork` has it."""

    def __init__(self, task: Task, method: Method):
        import jax
        from jax.flatten_util import ravel_pytree

        from amsfl.engines.client_program import gradient

        self.task, grad = task, gradient(task, method)

        def flat_grad(x: Array, rows: Array, labels: Array, teacher: Tree) -> Tree:
            loss, tree = grad(task.unravel(x), rows, labels, teacher)
            return loss, ravel_pytree(tree)[0]

        def of_row(x: Array, row: Array, label: Array) -> Tree:
            return flat_grad(x, row[None], label[None], ())[1]

        def held(x: Array, rows: Array, y: Array, here: Array) -> Tree:
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

    ahead = None

    def __init__(self, task: Task, federation: Federation, batch: int, readings: bool = False):
        self.task, self.batch, self.readings = task, batch, readings
        self.federation, self.optimizer = federation, federation.method.client_optimizer
        if self.optimizer is not None:
            self.optimizer = optimizers.on_vectors(self.optimizer, task.unravel)
        self.scored = task.scored
        jax_network = partial(JaxNetwork, task, federation.method)
        self.network: Any = NumpyNetwork(task) if takes(task, federation) else jax_network()
        self._threads = ThreadpoolController()
        self._said, self._private = False, None
        if federation.private_rows:
            from amsfl.engines import private_gradients

            each = jax_network().each_gradient
            self._private = private_gradients.reference_gradient(task, federation.private_rows, batch, each)

    def work(self, asked: Sequence[Work]) -> list[Results]:
        found, dtype = [], self.task.dtype
        with self._undisturbed():
            for work in asked:
                each = [self._job(work, place) for place in range(len(work.client))]
                uploads, states, memories, readings = zip(*each, strict=True)
                if work.shares is None:
                    sent = Upload(*map(np.stack, zip(*uploads, strict=True)))
                else:
                    sent = protocol.sum_uploads(uploads, np.asarray(work.shares, dtype))
                fields = np.array(readings, dtype).reshape(len(each), -1)
                found.append(Results(sent, np.stack(states), np.stack(memories), fields))
        return found

    def evaluate(self, models: Array, split: str) -> list[Json]:
        task, (x, y), found = self.task, self.task.evals[split], []
        with self._undisturbed():
            for model in models:
                outputs = np.asarray(self.network.outputs(model, x))
                own = task.model.loss
                rows = np.asarray(own(outputs, y)) if own else loss_and_slope(self.scored, outputs, y)[0]
                loss = rows.mean(dtype=np.float64)
                if task.classes:
                    cells = y * task.classes + outputs.argmax(-1)
                    found.append((loss, np.bincount(cells, minlength=task.classes**2)))
                else:
                    wrong = outputs[:, 0].astype(np.float64) - y
                    found.append((loss, np.array([np.abs(wrong).mean(), (wrong**2).mean()])))
        losses_, rest = map(np.stack, zip(*found, strict=True))
        if not task.classes:
            return number_scores(losses_, *rest.T, task.spread(split), task.unit)  # type: ignore[call-arg]
        return table_scores(losses_, rest.reshape(-1, task.classes, task.classes))

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """One thread: products here are too small to share. And words of 32 bits wrap around on purpose."""
        with self._threads.limit(limits=1, user_api="blas"), np.errstate(all="ignore"):
            yield

    def _job(self, work: Work, place: int) -> tuple[Upload, Array, Array, tuple[Array, ...]]:
        """One client's round: what it sends, its state and its memory afterwards, and the reading."""
        (method, transmit, *_), dtype = self.federation, self.task.dtype
        trial, who, number = work.trial, int(work.client[place]), int(work.number[place])
        begin, models = work.begin[place], work.models
        anchor, server, step = models.anchor[begin], models.server[begin], models.step[begin]
        key = sampling.stream(*map(sampling.words, (self.task.seeds[trial], number, who)))
        teacher: Tree = ()
        if method.objective is not None:
            rows = self._rows(trial, who, key, sampling.PROTOTYPES, method.objective.rows)
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
        local, by = LocalState(anchor, server, work.state[place], dtype(work.lr[place])), self.optimizer
        local = protocol.begin(local if by is None else protocol.recall(local, by), by)
        loss, grad = look(local.x, 0)
        local = protocol.local_step(method, local._replace(loss=loss, grad=grad), grad, optimizer=by)
        for number_ in range(1, steps):
            local = protocol.local_step(method, local, look(local.x, number_)[1], optimizer=by)
        if self.readings and self._private is None:
            local = local._replace(last=look(local.x, 0)[1])
            if self.task.held_back:
                local = local._replace(held=self._held_back(anchor, trial, who))
        if by is not None:
            local = local._replace(optimizer=np.asarray(optimizers.as_vector(local.optimizer)))
        upload, state, taken = protocol.finish(method, local, dtype(steps))
        memory = work.memory[place]
        if transmit is not None:
            upload, memory = protocol.encode_and_decode(transmit, key, upload, memory)
        reading: Reading | tuple[Array, ...] = ()
        if self.readings:
            reading = protocol.measured(taken, upload.delta, step)
        return upload, state, memory, reading

    def _say_once(self, where: str) -> None:
        """A judge goes back then; without one the run ends as diverged."""
        if not self._said and not self.federation.method.judges:
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
