"""Dense networks in numpy, of flat vectors: nothing is compiled, which is most of the time of a small job."""

from functools import partial

import numpy as np

from amsfl.core.records import Array, Tree
from amsfl.engines import losses
from amsfl.engines.dense import flips
from amsfl.engines.models.draw import is_dense
from amsfl.engines.task import Task
from amsfl.methods import Method

Layers = list[tuple[Array, Array]]  # weights [inputs, outputs] and biases


def takes(task: Task, method: Method) -> bool:
    """Whether numpy can: dense layers with ReLU between, one of our losses, no teacher, no private rows."""
    return is_dense(task.model.layers) and method.arithmetic.objective is None and method.private_rows is None


class NumpyNetwork:
    """What the loop engine asks of a network."""

    def __init__(self, task: Task):
        self.task, self.scale = task, task.dtype(1 / task.model.unit)
        sizes = [(part.inputs, part.outputs) for part in task.model.layers if part.kind == "dense"]
        self.sizes = [(*size, flip) for size, flip in zip(sizes, flips(len(sizes)), strict=True)]

    def outputs(self, vector: Array, x: Array) -> Array:
        return self._forward(self._layers(vector), x)[-1]

    def gradient(self, vector: Array, x: Array, y: Array, _: Tree = ()) -> tuple[Array, Array]:
        """The mean loss of some rows, and its gradient."""
        layers = self._layers(vector)
        *before, outputs = self._forward(layers, x)
        loss, change = loss_and_slope(self.task.loss, outputs, y)
        change = change / self.task.dtype(len(y))
        parts: list[Array] = []
        for place in reversed(range(len(layers))):
            came, flip = before[place], self.sizes[place][2]
            parts += [change.sum(0), (change.T @ came if flip else came.T @ change).ravel()]
            if place:
                change = change @ layers[place][0].T * (came > 0)
        return loss.mean(), np.concatenate(parts[::-1])

    def held_back(self, vector: Array, x: Array, y: Array) -> tuple[Array, Array]:
        """As `losses.held_loss_and_spread` has it."""
        outputs, nothing = self.outputs(vector, x), self.task.dtype(np.nan)
        if not len(y):
            return nothing, nothing
        spread = np.abs(outputs - outputs.mean(0)).max() / (1 + np.abs(outputs).max())
        return loss_and_slope(self.task.loss, outputs, y)[0].mean(), spread if len(y) > 1 else nothing

    def _forward(self, layers: Layers, x: Array) -> list[Array]:
        """What goes into every layer, and what comes out of the last."""
        values = [x * self.scale if self.task.model.unit != 1 else x]
        for weight, bias in layers:
            out = values[-1] @ weight + bias
            values.append(out if len(values) == len(layers) else np.maximum(out, 0))
        return values

    def _layers(self, vector: Array) -> Layers:
        layers, at = [], 0
        for inputs, outputs, flip in self.sizes:
            flat, at = vector[at : at + inputs * outputs], at + inputs * outputs
            weight = flat.reshape(outputs, inputs).T if flip else flat.reshape(inputs, outputs)
            layers.append((weight, vector[at : at + outputs]))
            at += outputs
        return layers


def loss_and_slope(loss: losses.RowLoss, outputs: Array, y: Array) -> tuple[Array, Array]:
    """Of every row the loss, and its derivative by the outputs."""
    if loss in (losses.squared, losses.absolute):
        off = outputs[:, 0] - y
        of_rows = off**2 / 2 if loss is losses.squared else np.abs(off)
        return of_rows, (off if loss is losses.squared else np.sign(off))[:, None]
    likely = log_softmax(outputs)
    rows, change = np.arange(len(y)), np.exp(likely)
    of_rows = -likely[rows, y]
    change[rows, y] -= 1
    if isinstance(loss, partial):
        each = np.asarray(loss.args[0], outputs.dtype)[y]
        return of_rows * each, change * each[:, None]
    return of_rows, change


def log_softmax(outputs: Array) -> Array:
    away = outputs - outputs.max(-1, keepdims=True)
    return np.asarray(away - np.log(np.exp(away).sum(-1, keepdims=True)))
