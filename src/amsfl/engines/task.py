"""A learning task as the engines see it: a flat vector, rows in one array, who owns which rows."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from amsfl import sampling
from amsfl.core.records import Array, Tree
from amsfl.data.dataset import Dataset
from amsfl.engines import devices, losses, models
from amsfl.engines.models import Model, dense_layers, drawn, is_dense

Matrix = np.ndarray[Any, np.dtype[Any]]
PAGE = 4096
TOGETHER = 16  # first models that are drawn in one call
FloatType = type[np.float32] | type[np.float64]  # of all arithmetic of a run


class Shards(NamedTuple):
    """Every trial's partition over the same rows: no copies of the data, no padding."""

    order: Matrix  # int32 [trials, rows]: row numbers, client after client
    start: Matrix  # int32 [trials, clients]: where a client's rows begin in `order`
    size: Matrix  # int32 [trials, clients]: how many it trains on
    held: Matrix  # int32 [trials, clients]: how many it holds back, which lie behind those

    @property
    def rows(self) -> Matrix:
        """How many rows each client has."""
        return np.asarray(self.size + self.held)

    @property
    def weights(self) -> Matrix:
        """Each client's share of all rows, float64 [trials, clients]."""
        return np.asarray(self.rows / self.rows.sum(1, keepdims=True))


class Task(NamedTuple):
    model: Model
    dim: int
    measured: Callable[[], tuple[int, Tree, Callable[[Array], Tree]]]  # `measure`, once somebody asks
    x: Matrix
    y: Matrix
    evals: dict[str, tuple[Matrix, Matrix]]
    classes: int  # 0 where numbers are predicted
    shards: Shards
    seeds: tuple[int, ...]  # one per trial: initial model and sampling
    dtype: FloatType
    loss: losses.RowLoss = losses.cross_entropy
    unit: float = 1.0  # of a predicted number: what 1 is in the user's own
    noise: Matrix | None = None  # [trials, clients] of a private step, in units of the clipping norm
    shuffled: int = 0  # rows of a minibatch, where these are cut from passes over all rows; 0: by chance
    held_back: int = 0  # rows at most that a client holds back

    @property
    def unravel(self) -> Callable[[Array], Tree]:
        """The way from a vector to the network's arrays."""
        return self.measured()[2]

    @property
    def shapes(self) -> Tree:
        """The network's arrays, without their numbers."""
        return self.measured()[1]

    def arrays(self, vector: Matrix) -> Tree:
        """The network's arrays of a vector on the host, numpy's: nothing is compiled for them."""
        if is_dense(self.model.layers):
            return dense_layers(self.model.layers, vector)
        import jax

        shapes, tree = jax.tree.flatten(self.shapes)
        ends = np.cumsum([leaf.size for leaf in shapes])[:-1]
        leaves = zip(np.split(vector, ends), shapes, strict=True)
        return jax.tree.unflatten(tree, [part.reshape(leaf.shape) for part, leaf in leaves])

    def rows(self, split: str | None) -> Matrix:
        """The features of a split; of the training rows where it is None."""
        return self.x if split is None else self.evals[split][0]

    @property
    def scored(self) -> losses.RowLoss:
        """The loss that evaluations tell: of classes the plain cross-entropy, whatever weights train by."""
        return self.loss if self.model.loss or not self.classes else losses.cross_entropy

    def spread(self, split: str) -> float:
        """Of a split's numbers about their mean, squared."""
        return float(np.var(np.asarray(self.evals[split][1], np.float64)))

    def start(self) -> Matrix:
        """Initial models, [trials, dim]: drawn in float32, so that they are the same in any precision."""
        init = self.model.init
        if isinstance(init, partial) and init.func is models.zeros:
            return np.zeros((len(self.seeds), self.dim), self.dtype)
        if isinstance(init, partial) and init.func is models.init and is_dense(self.model.layers):
            return np.stack([drawn(self.model.layers, seed) for seed in self.seeds]).astype(self.dtype)
        import jax
        from jax.flatten_util import ravel_pytree

        with jax.enable_x64(False):

            def one(seed: Array) -> Array:
                return ravel_pytree(self.model.init(jax.random.key(seed)))[0]

            # so many in one call: one program serves any number of trials
            many = devices.jit_small(lambda seeds: jax.lax.map(one, seeds))
            seeds = sampling.words(self.seeds)
            room = np.resize(seeds, (-(-len(seeds) // TOGETHER), TOGETHER))
            return np.concatenate([many(some) for some in room]).astype(self.dtype)[: len(self.seeds)]


def shard(trials: Sequence[Sequence[Matrix]]) -> Shards:
    """Partitions (for each trial a list of row numbers per client) as arrays; nothing is held back."""
    count = np.array([[len(rows) for rows in parts] for parts in trials], np.int32)
    order = np.stack([np.concatenate(parts) for parts in trials]).astype(np.int32)
    start = (np.cumsum(count, axis=1) - count).astype(np.int32)
    return Shards(order, start, count, np.zeros_like(count))


def hold_back(task: Task, share: float) -> Task:
    """The task whose clients hold back a share of their rows: always the same, drawn once by the seed."""
    shards = task.shards
    order, held = shards.order.copy(), np.zeros_like(shards.size)
    for trial, seed in enumerate(task.seeds):
        for client, (begin, rows) in enumerate(zip(shards.start[trial], shards.size[trial], strict=True)):
            trained, back = sampling.hold_back(seed, client, int(rows), share)
            mine = begin + np.concatenate([trained, back])
            order[trial, begin : begin + rows] = shards.order[trial, mine]
            held[trial, client] = len(back)
    shards = Shards(order, shards.start, (shards.size - held).astype(np.int32), held)
    return task._replace(shards=shards, held_back=int(held.max()))


def make(
    data: Dataset,
    model: Model,
    partitions: Sequence[Sequence[Matrix]],
    seeds: Sequence[int],
    dtype: FloatType = np.float32,
    loss: losses.RowLoss | None = None,
) -> Task:
    measured = cache(partial(measure, model, dtype))  # tracing takes longer than scoring a thousand rows
    label = np.int32 if data.classes else dtype
    evals = {name: (x.astype(dtype), y.astype(label)) for name, (x, y) in data.evals.items()}
    return Task(
        model,
        models.numbers(model.layers) if model.layers else measured()[0],
        measured,
        _on_pages(data.x, dtype),
        data.y.astype(label),
        evals,
        len(data.classes),
        shard(partitions),
        tuple(seeds),
        dtype,
        loss or losses.named("auto", len(data.classes)),
        1.0 if data.amount is None else data.amount.scale,
    )


def measure(model: Model, dtype: FloatType) -> tuple[int, Tree, Callable[[Array], Tree]]:
    """How many numbers a model has, its arrays without them, and the way from a vector of jax to these;
    nothing is computed, for which a GPU would load a program an operation."""
    import jax
    from jax.flatten_util import ravel_pytree

    ways: list[Callable[[Array], Tree]] = []

    def begun() -> Tree:
        shapes = jax.eval_shape(model.init, jax.random.key(0))
        zeros = jax.tree.map(lambda leaf: jax.numpy.zeros(leaf.shape, dtype), shapes)
        ways.append(ravel_pytree(zeros)[1])
        return zeros

    shapes = jax.eval_shape(begun)
    return sum(leaf.size for leaf in jax.tree.leaves(shapes)), shapes, ways[0]


def _on_pages(values: Matrix, dtype: FloatType) -> Matrix:
    """A copy that begins where a page does, so that jax on a CPU takes it as it is and makes none of its own.

    numpy asks for large pages where it can, which drawing rows at random gains from: 2% of a round of jobs A
    and B of benchmarks/, and the memory of the rows once instead of twice.
    """
    each = np.dtype(dtype).itemsize
    room = np.empty(values.size * each + PAGE, np.uint8)
    begin = -room.ctypes.data % PAGE
    rows: Matrix = room[begin : begin + values.size * each].view(dtype).reshape(values.shape)
    rows[...] = values
    return rows
