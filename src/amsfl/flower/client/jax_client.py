"""Our own jax models as a client: the same minibatches, gradients and numbers as the engines."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp

from amsfl import sampling
from amsfl.core import RowPrivacy, UserError
from amsfl.flower import scores as flower_scores
from amsfl.flower.client.app import Own, client_app
from amsfl.flower.client.local_round import Trainer
from amsfl.flower.client.private_steps import pad, room
from amsfl.flower.messages import Buffers, GlobalModel, Order, Vector
from amsfl.methods import Arithmetic, Method
from amsfl.portable.network import check_rows


class Shard(NamedTuple):
    """One client's data, and the model that all share."""

    x: Vector
    y: Vector
    classes: int  # 0 where labels are amounts
    model: str = "mlp"  # as `amsfl run --model`
    test: tuple[Vector, Vector] | None = None
    unit: float = 1.0  # of an amount: what 1 is in the user's own


def jax_client(shard: Callable[[Context], Shard], own: Own = ()) -> ClientApp:
    """A ClientApp around rows, labels and one of our models.

    Args:
        shard: `shard(context)` returns the rows and labels of this client, and the model's name.
        own: Methods and transmissions of your own; the server's order names which to use.

    Returns:
        The app that a pyproject.toml names as `clientapp`.
    """
    return client_app(lambda context: JaxTrainer(shard(context)), own)


class JaxTrainer(Trainer):
    """jax is imported when the first gradient needs it: a hello does not."""

    def __init__(self, shard: Shard):
        self.shard, self.rows = shard, len(shard.y)
        self.trained, self.held, self.held_rows = np.arange(self.rows), np.arange(0), 0

    def start(self, seed: int) -> tuple[Vector, Buffers]:
        return self._compiled(None).start(seed), {}

    def begin(self, order: Order, model: GlobalModel, method: Method) -> None:
        if method.arithmetic.objective is not None and not self.shard.classes:
            raise UserError(
                f"Method {method.name!r} learns from a teacher's classes, and labels are amounts."
            )
        self.batch, self.program = order.batch, self._compiled(method.arithmetic.objective)
        share = order.held_back if method.judges else 0.0
        if share:
            self.trained, self.held = sampling.hold_back(order.seed, order.client, self.rows, share)
            self.held_rows = len(self.held)
        check_rows(self.program.layers, self.shard.x)
        with np.errstate(over="ignore"):  # 32-bit words wrap around on purpose
            self.key = sampling.stream(*map(sampling.words, (order.seed, order.round, order.client)))
        self.teacher: Any = ()
        if method.arithmetic.objective is not None:
            rows = self._batch(sampling.PROTOTYPES, method.arithmetic.objective.rows)
            self.teacher = self.program.teach(model.server, *rows)
        if method.private_rows is not None:
            self.row_sum(
                model.anchor, *pad(np.zeros(1, np.int64), room(self.batch, self.rows)), method.private_rows
            )
        elif order.steps:  # compile before the clock runs
            self.program.grad(model.anchor, *self._batch(0, self.batch), self.teacher)

    def gradient(self, x: Any, step: int) -> tuple[float, Any]:
        loss, grad = self.program.grad(x, *self._batch(step, self.batch), self.teacher)
        return float(loss), np.asarray(grad)

    def held_back(self, x: Any) -> tuple[float, float] | None:
        """Loss and spread of the rows that are held back, at x."""
        if not self.held_rows:
            return None
        sums = self.program.held_back(x, self.shard.x[self.held], self.shard.y[self.held])
        return float(sums[0]), float(sums[1])

    def check_rows(self) -> None:
        """Layers of ours treat every row by itself."""

    def row_sum(self, x: Any, places: Any, present: Any, private: RowPrivacy) -> Any:
        """See private_steps.py."""
        size, summed = room(self.batch, self.rows), self._compiled(None).row_sum(private)
        total = np.zeros_like(x)
        for begin in range(0, len(places), size):
            some = slice(begin, begin + size)
            rows = places[some]
            total += np.asarray(summed(x, self.shard.x[rows], self.shard.y[rows], present[some]))
        return total

    def evaluate(self, x: Any) -> dict[str, float] | None:
        if self.shard.test is None:
            return None
        rows, labels = self.shard.test
        logits = np.asarray(self._compiled(None).logits(x, rows), np.float64)
        if not self.shard.classes:
            return {**flower_scores.errors(logits, labels, self.shard.unit), "rows": float(len(labels))}
        top = logits.max(1)
        loss = np.log(np.exp(logits - top[:, None]).sum(1)) + top - logits[np.arange(len(labels)), labels]
        hits = (logits.argmax(1) == labels).mean()
        return {"loss": float(loss.mean()), "accuracy": float(hits), "rows": float(len(labels))}

    def _batch(self, step: int, size: int) -> tuple[Any, Any]:
        places = np.arange(size, dtype=np.uint32)
        with np.errstate(over="ignore"):
            picked = sampling.draw(self.key, sampling.words(step), places, np.int32(len(self.trained)))
        picked = self.trained[picked]
        return self.shard.x[picked], self.shard.y[picked]

    def _compiled(self, objective: Any) -> "Program":
        return program(self.shard.model, self.shard.x.shape[1], self.shard.classes, objective)


class Program(NamedTuple):
    """A model's compiled functions of flat vectors."""

    start: Callable[[int], Vector]
    grad: Callable[..., Any]  # (x, rows, labels, teacher) -> loss, gradient
    row_sum: Callable[[RowPrivacy], Callable[..., Any]]  # (x, rows, labels, present) -> sum of cut gradients
    teach: Callable[..., Any]  # (x, rows, labels) -> teacher
    logits: Callable[..., Any]  # (x, rows) -> logits
    held_back: Callable[..., Any]  # (x, rows, labels) -> loss, spread
    layers: tuple[Any, ...]  # as a portable model has them
    tensors: Callable[[Vector], dict[str, Vector]]  # by those layers' names


@cache
def program(spec: str, features: int, classes: int, objective: Any) -> Program:
    from amsfl.data import Dataset
    from amsfl.engines import losses, models, private_gradients, task
    from amsfl.engines.client_program import gradient

    import jax  # isort: skip  # after the engines, which set it up
    from jax.flatten_util import ravel_pytree  # isort: skip

    names, columns = (tuple(map(str, range(count))) for count in (classes, features))
    label = np.zeros(1, np.int32 if classes else np.float32)
    nothing = Dataset("none", np.zeros((1, features), np.float32), label, {}, names, columns)
    job = task.make(nothing, models.make(spec, features, classes or 1), [[np.arange(1)]], [0])
    grad = gradient(job, Method("", Arithmetic(objective=objective)))

    @cache
    def row_sum(private: RowPrivacy) -> Callable[..., Any]:
        summed = private_gradients.row_sum(job, private)
        return jax.jit(lambda x, *rows: ravel_pytree(summed(job.unravel(x), *rows))[0])

    def flat(x: Any, rows: Any, labels: Any, teacher: Any) -> Any:
        loss, tree = grad(job.unravel(x), rows, labels, teacher)
        return loss, ravel_pytree(tree)[0]

    def held_back(x: Any, rows: Any, labels: Any) -> Any:
        everyone = jax.numpy.ones(len(labels), bool)
        return losses.held_loss_and_spread(job.loss, job.model.apply(job.unravel(x), rows), labels, everyone)

    return Program(
        lambda seed: np.asarray(job._replace(seeds=(seed,)).start()[0], np.float32),
        jax.jit(flat),
        row_sum,
        jax.jit(lambda x, *rows: losses.teach(job.model.apply, job.unravel(x), *rows)),
        jax.jit(lambda x, rows: job.model.apply(job.unravel(x), rows)),
        jax.jit(held_back),
        job.model.layers,
        lambda x: models.tensors(job.model, job.unravel(jax.numpy.asarray(x))),
    )
