"""Our own jax models as a client: the same minibatches, gradients and numbers as the engines."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, Context
from flwr.clientapp import ClientApp

from amsfl import sampling
from amsfl.core import RowPrivacy, UserError
from amsfl.core.records import Array as Vector
from amsfl.flower.arrays import FlatVector
from amsfl.flower.client import client_app
from amsfl.flower.site_policy import room
from amsfl.flower.trainer import GradientTrainer, LocalTask
from amsfl.portable.network import check_rows

NAME = "parameters"  # of the one array that travels


class Shard(NamedTuple):
    """One client's data, and the model that all share."""

    x: Vector
    y: Vector
    classes: int  # 0 where labels are amounts
    model: str = "mlp"  # as `amsfl run --model`


def jax_client(shard: Callable[[Context], Shard]) -> ClientApp:
    """A ClientApp around rows, labels and one of our models.

    Args:
        shard: `shard(context)` returns the rows and labels of this client, and the model's name.

    Returns:
        The app that a pyproject.toml names as `clientapp`.
    """
    return client_app(lambda context: JaxTrainer(shard(context)))


def one_array(vector: Any) -> ArrayRecord:
    """A flat model as it travels."""
    return ArrayRecord({NAME: Array(np.asarray(vector, np.float32))})


class JaxTrainer(GradientTrainer):
    """jax is imported when the first gradient needs it."""

    def __init__(self, shard: Shard):
        self.shard, self.rows = shard, len(shard.y)
        self.trained, self.held = np.arange(self.rows), np.arange(0)

    def load(self, arrays: ArrayRecord, task: LocalTask) -> None:
        super().load(arrays, task)
        self.program = program(self.shard.model, self.shard.x.shape[1], self.shard.classes)
        check_rows(self.program.layers, self.shard.x)
        if self.x.size != self.program.dim:
            have = f"{self.shard.model} has {self.program.dim}"
            raise UserError(f"The server's model has {self.x.size} numbers, and this client's {have}.")
        self.batch, self.key = task.batch, task.key

    def train(self, task: LocalTask) -> Mapping[str, float]:
        self.program.grad(self.x, *self._batch(0))  # compile before the clock runs
        return super().train(task)

    def gradient(self, x: FlatVector, step: int) -> tuple[float, FlatVector]:
        loss, grad = self.program.grad(x, *self._batch(step))
        return float(loss), np.asarray(grad)

    def held_back(self, task: LocalTask) -> tuple[float, float] | None:
        self.trained, self.held = sampling.hold_back(task.seed, task.client, self.rows, task.held_share)
        if not len(self.held):
            return None
        sums = self.program.held_back(self.x, self.shard.x[self.held], self.shard.y[self.held])
        return float(sums[0]), float(sums[1])

    def check_rows(self) -> None:
        """Layers of ours treat every row by itself."""

    def row_sum(self, x: Any, places: Any, present: Any, private: RowPrivacy) -> Any:
        size, summed = room(self.batch, self.rows), self.program.row_sum(private)
        total = np.zeros_like(x)
        for begin in range(0, len(places), size):
            some = slice(begin, begin + size)
            rows = places[some]
            total += np.asarray(summed(x, self.shard.x[rows], self.shard.y[rows], present[some]))
        return total

    def _batch(self, step: int) -> tuple[Any, Any]:
        places = np.arange(self.batch, dtype=np.uint32)
        with np.errstate(over="ignore"):  # 32-bit words wrap around on purpose
            picked = sampling.draw(self.key, sampling.words(step), places, np.int32(len(self.trained)))
        picked = self.trained[picked]
        return self.shard.x[picked], self.shard.y[picked]


class Program:
    """A model's compiled functions of flat vectors."""

    def __init__(self, spec: str, features: int, classes: int, evals: Any = None, amount: Any = None):
        from amsfl.data import Dataset
        from amsfl.engines import losses, models, private_gradients, task

        import jax  # isort: skip  # after the engines, which set it up
        from jax.flatten_util import ravel_pytree  # isort: skip

        names, columns = (tuple(map(str, range(count))) for count in (classes, features))
        label = np.zeros(1, np.int32 if classes else np.float32)
        nothing = Dataset("none", np.zeros((1, features), np.float32), label, {}, names, columns)
        nothing = nothing._replace(evals=evals or {}, amount=amount)
        job = self.job = task.make(nothing, models.make(spec, features, classes or 1), [[np.arange(1)]], [0])

        def outputs(x: Any, rows: Any) -> Any:
            return job.model.apply(job.unravel(x), rows)

        def loss(x: Any, rows: Any, labels: Any) -> Any:
            return job.loss(outputs(x, rows), labels).mean()

        def row_sum(private: RowPrivacy) -> Callable[..., Any]:
            """(x, rows, labels, present) -> sum of cut gradients."""
            summed = private_gradients.row_sum(job, private)
            return jax.jit(lambda x, *rows: ravel_pytree(summed(job.unravel(x), *rows))[0])

        def held_back(x: Any, rows: Any, labels: Any) -> Any:
            everyone = jax.numpy.ones(len(labels), bool)
            return losses.held_loss_and_spread(job.loss, outputs(x, rows), labels, everyone)

        self.dim, self.layers = job.dim, job.model.layers
        self.start: Callable[[int], FlatVector] = lambda seed: np.asarray(
            job._replace(seeds=(seed,)).start()[0], np.float32
        )
        self.tensors: Callable[[FlatVector], dict[str, Vector]] = lambda x: models.tensors(
            job.model, job.unravel(jax.numpy.asarray(x))
        )  # by layers' names
        self.grad, self.held_back = jax.jit(jax.value_and_grad(loss)), jax.jit(held_back)
        self.row_sum = cache(row_sum)


program = cache(Program)
