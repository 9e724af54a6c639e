"""A learning task as the engines see it: a flat vector, rows in one array, who owns which rows; and whether
its clients fit into memory, said with a number before the run starts."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from amsfl import sampling
from amsfl.core import UserError
from amsfl.core.records import Array, Tree
from amsfl.data.dataset import Dataset
from amsfl.engines import devices, losses, models
from amsfl.engines.models import Model
from amsfl.methods import Federation, Method
from amsfl.protocol import initial_client_state

Matrix = np.ndarray[Any, np.dtype[Any]]
PAGE = 4096
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
    unravel: Callable[[Array], Tree]  # from a vector to the network's arrays: numpy's stay numpy's
    x: Matrix  # with room behind its rows (with_room), as y
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
    def shapes(self) -> Tree:
        """The network's arrays, of zeros."""
        return self.unravel(np.zeros(self.dim, self.dtype))

    @property
    def bare(self) -> "Task":
        """Without rows and trials: what programs are made for."""
        nothing: Any = None
        rows = dict.fromkeys(("x", "y", "evals", "shards", "noise"), nothing)
        return self._replace(seeds=(), **rows)

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
        if self.model.layers:
            keys = [np.array([0, seed], np.uint32) for seed in self.seeds]
            firsts = [[part.ravel() for layer in init(key) for part in layer] for key in keys]
            return np.stack([*map(np.concatenate, firsts)]).astype(self.dtype)
        import jax
        from jax.flatten_util import ravel_pytree

        with jax.enable_x64(False):
            drawn = devices.jit(lambda seed: ravel_pytree(init(jax.random.key(seed)))[0], True)
            return np.stack([drawn(seed) for seed in sampling.words(self.seeds)]).astype(self.dtype)


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
    dim, unravel = shape_of(model)
    label = np.int32 if data.classes else dtype
    evals = {name: (x.astype(dtype), y.astype(label)) for name, (x, y) in data.evals.items()}
    return Task(
        model,
        dim,
        unravel,
        with_room(data.x, dtype),
        with_room(data.y, label),
        evals,
        len(data.classes),
        shard(partitions),
        tuple(seeds),
        dtype,
        loss or losses.named("auto", len(data.classes)),
        1.0 if data.amount is None else data.amount.scale,
    )


@devices.kept
def shape_of(model: Model) -> tuple[int, Callable[[Array], Tree]]:
    """How many numbers a model has, and the way from a vector to its arrays."""
    if model.layers:
        return models.numbers(model.layers), partial(models.layers_of, model.layers)
    import jax

    leaves, tree = jax.tree.flatten(jax.eval_shape(model.init, jax.random.key(0)))
    sizes = [leaf.shape for leaf in leaves]
    return sum(map(prod, sizes)), lambda vector: jax.tree.unflatten(tree, models.cut(sizes, vector))


def with_room(values: Matrix, dtype: type[np.generic]) -> Matrix:
    """A copy that begins where a page does, so that jax on a CPU takes it as it is and makes none of its own.

    numpy asks for large pages where it can, which drawing rows at random gains from: 2% of a round of jobs A
    and B of benchmarks/. On a CPU there is room behind it, up to a power of four rows: zeros that nobody
    touches take no memory, and a table and its part that settings are searched on share compiled programs.
    """
    count = 4 ** -(-(len(values) - 1).bit_length() // 2) if devices.on_cpu() else len(values)
    size = count * prod(values.shape[1:]) * np.dtype(dtype).itemsize
    room = np.zeros(size + PAGE, np.uint8)
    begin = -room.ctypes.data % PAGE
    rows: Matrix = room[begin : begin + size].view(dtype).reshape(count, *values.shape[1:])
    rows[: len(values)] = values
    return rows


VECTORS = 6  # of a model's size that a client at work has: start, model, change, what it sends and reads


def state_bytes(task: Task, method: Method) -> int:
    """Bytes of client state, which grow with clients x dim x trials (0 for methods without)."""
    import jax

    first = jax.ShapeDtypeStruct((task.dim,), task.dtype)
    probe: Array = jax.eval_shape(lambda x: initial_client_state(Federation(method), x)[0], first)
    trials, clients = task.shards.size.shape
    return int(trials * clients * probe.shape[0] * np.dtype(task.dtype).itemsize)


def check_fits(task: Task, method: Method, cohort: int | None = None) -> None:
    """Refuse, with the numbers, client state that cannot fit: everybody's, and a cohort's twice."""
    if not hasattr(os, "sysconf"):  # on Windows
        return
    clients, have = task.shards.size.shape[1], os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    need = state_bytes(task, method) // clients * (clients + 2 * (cohort or clients))
    if need > have:
        raise UserError(
            f"Method {method.name!r} keeps a state of {task.dim:,} numbers for each of {clients:,} clients: "
            f"{need / 2**30:.1f} GiB with its working copies, and this machine has {have / 2**30:.1f}; use "
            "fewer clients, a smaller model or a method without state."
        )


def room_for(each: float, most: int) -> int:
    """How many things of that many bytes fit side by side in half of a GPU's memory, `most` at most.

    Of all of it, not of what is free just now: waves that changed from start to start would change bits.
    """
    import jax

    stats = jax.local_devices()[0].memory_stats()
    if not stats or "bytes_limit" not in stats:
        return most
    return int(np.clip(int(stats["bytes_limit"]) // 2 // max(each, 1), 1, most))


def lane_bytes(task: Task, federation: Federation, batch: int) -> int:
    """What a client that is at work takes: its vectors, and all that a step makes on its way."""
    import jax

    x = jax.ShapeDtypeStruct((batch, *task.x.shape[1:]), task.dtype)
    y = jax.ShapeDtypeStruct((batch,), task.y.dtype)

    def loss(params: Tree, x: Array, y: Array) -> Tree:
        return task.loss(task.model.apply(params, x), y).mean()

    step = intermediate_bytes(jax.grad(loss), task.shapes, x, y)
    beside = batch if federation.private_rows else 1  # rows whose gradients lie side by side
    numbers = batch * int(np.prod(task.x.shape[1:])) + (VECTORS + beside) * task.dim
    return step + numbers * int(np.dtype(task.dtype).itemsize)


def intermediate_bytes(function: devices.Program, *shapes: Tree) -> int:
    """What all intermediate values of a function take: more than it needs at once, and never less."""
    import jax

    return _bytes(jax.make_jaxpr(function)(*shapes).jaxpr)


def _bytes(jaxpr: Any) -> int:
    total = 0
    for step in jaxpr.eqns:
        inner = [getattr(part, "jaxpr", part) for part in step.params.values()]
        within = sum(_bytes(part) for part in inner if hasattr(part, "eqns"))
        own = sum(int(np.prod(out.aval.shape)) * out.aval.dtype.itemsize for out in step.outvars)
        total += max(within, own)
    return total
