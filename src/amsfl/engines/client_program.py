"""One client's round as jax runs it: the protocol's lines over per-layer arrays, inside a loop.

First what a job needs besides vectors, as numbers in tables, and the rows that its minibatches hold.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from amsfl import protocol, sampling
from amsfl.core import Upload
from amsfl.core.records import Array, Number, Tree
from amsfl.engines import losses
from amsfl.engines.contract import Work
from amsfl.engines.task import Task
from amsfl.methods import Federation, Method
from amsfl.protocol import LocalState


class JobIntegers(NamedTuple):
    """The columns of `JobTable.integers`."""

    trial: Array
    start: Array  # of its rows
    size: Array
    held: Array  # rows that it holds back
    steps: Array  # 0: an empty place of a wave
    begin: Array  # which of a wave's models it begins from
    key: Array  # two words, of its minibatches
    other: Array


class JobFloats(NamedTuple):
    """The columns of `JobTable.floats`."""

    lr: Array
    noise: Array  # of a private step
    share: Array  # how much its upload counts in a sum


class JobTable(NamedTuple):
    """[jobs, columns] each."""

    integers: Array  # int32; words are bits as they are
    floats: Array
    chance: Array  # uint32: by which rows are in a private minibatch (sampling.digits); else no columns


class DeviceRows(NamedTuple):
    """What never changes in a run, on every device once: the rows, and all trials' numbers of them."""

    x: Array
    y: Array
    order: Array  # a slice of one trial would be copied for every job


class JobStart(NamedTuple):
    """What one job begins from."""

    anchor: Array
    server: Array
    step: Array
    client: Array
    memory: Array


class ClientJob(NamedTuple):
    """All that one client's round depends on, inside a compiled program."""

    start: JobStart
    integers: JobIntegers
    floats: JobFloats
    chance: Array
    rows: DeviceRows

    @property
    def key(self) -> tuple[Array, Array]:
        return self.integers.key, self.integers.other


class ClientResult(NamedTuple):
    upload: Upload
    state: jax.Array
    memory: jax.Array
    reading: jax.Array  # the fields of a Reading as one vector (one write, not nine); empty when not taken


def columns(table: JobTable) -> tuple[JobIntegers, JobFloats, Array]:
    """A table's columns, inside a compiled program."""
    own = JobIntegers(*table.integers.T)
    own = own._replace(key=own.key.astype(jnp.uint32), other=own.other.astype(jnp.uint32))
    return own, JobFloats(*table.floats.T), table.chance


def batch_of(job: ClientJob, step: Number, size: int, shuffled: int = 0) -> tuple[jax.Array, jax.Array]:
    """A client's minibatch of this step."""
    (x, y, order), own = job.rows, job.integers
    places = jnp.arange(size, dtype=jnp.uint32)
    picked = sampling.draw(job.key, jnp.uint32(step), places, own.size, shuffled)
    # without the barrier XLA draws a row's number again for each of its columns: 1.13 and 1.2 times the time
    row = jax.lax.optimization_barrier(order[own.trial, own.start + picked])
    return x[row], y[row]


def held_rows(job: ClientJob, most: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The rows that a client holds back, in `most` places, and which of these are its own."""
    (x, y, order), own = job.rows, job.integers
    places = jnp.arange(most)
    here = places < own.held
    row = order[own.trial, jnp.where(here, own.start + own.size + places, 0)]
    return x[row], y[row], here


def job_tables(task: Task, batch: int, private: bool) -> Callable[[Sequence[Work]], JobTable]:
    """make(work of many trials) -> the table of all their jobs, one after another."""
    shards, seeds = task.shards, sampling.words(task.seeds)
    fixed = np.stack([shards.start, shards.size, shards.held], -1).astype(np.int32)
    noise = np.zeros(shards.size.shape) if task.noise is None else task.noise
    chances = sampling.digits(batch, shards.size)[..., : None if private else 0]

    def make(asked: Sequence[Work]) -> JobTable:
        trial = np.repeat([work.trial for work in asked], [len(work.client) for work in asked])
        who, steps, lr, number, begin = (
            np.concatenate([getattr(work, name) for work in asked])
            for name in ("client", "steps", "lr", "number", "begin")
        )
        integers = np.empty((len(who), len(JobIntegers._fields)), np.int32)
        integers[:, 0], integers[:, 1:4] = trial, fixed[trial, who]
        integers[:, 4], integers[:, 5] = steps, begin
        with np.errstate(over="ignore"):  # hashes do
            keys = sampling.stream(seeds[trial], sampling.words(number), sampling.words(who))
        integers[:, 6], integers[:, 7] = (key.view(np.int32) for key in keys)
        floats = np.zeros((len(who), len(JobFloats._fields)), task.dtype)
        floats[:, 0], floats[:, 1] = lr, noise[trial, who]
        at = 0
        for work in asked:
            if work.shares is not None:
                floats[at : at + len(work.client), 2] = work.shares
            at += len(work.client)
        return JobTable(integers, floats, chances[trial, who])

    return make


def gradient(task: Task, method: Method) -> Callable[..., tuple[jax.Array, Tree]]:
    """value_and_grad of the method's objective: f(params, x, y, teacher)."""
    apply, loss, rule = task.model.apply, task.loss, method.objective

    def objective(params: Tree, x: jax.Array, y: jax.Array, teacher: Tree) -> Array:
        if rule is None:
            return loss(apply(params, x), y).mean()
        return losses.distillation_loss(apply, loss, rule, teacher, params, (x, y))

    return jax.value_and_grad(objective)


class Walk(NamedTuple):
    """A client on its way, and its latest look where those are kept."""

    x: Tree
    optimizer: Tree
    loss: Array
    slope: Tree


def flat(tree: Tree) -> jax.Array:
    vector: jax.Array = ravel_pytree(tree)[0]
    return vector


def program(
    task: Task, federation: Federation, batch: int, readings: bool, private: Callable[..., Tree] | None = None
) -> Callable[[ClientJob, Number], ClientResult]:
    """run(job, longest): one client's round, where no job beside it takes more than `longest` steps;
    `private(params, job, step)` gives its gradients where rows are private.

    Inside the loop parameters stay per-layer arrays, not one flat vector (a third faster on the CPU);
    `correct` is elementwise, so it is applied leaf by leaf. Lanes in lockstep all go as far as the longest
    and move in their own steps only: a bound that they share is worth a tenth of the time against one for
    each. The network's code is here once: three copies of it took twice as long to compile.
    """
    method = federation.method
    grad = gradient(task, method)
    twice = readings and private is None  # whether the first minibatch is looked at again at the end

    def leaves(vector: jax.Array, like: Tree) -> Tree:
        if vector.size:
            return task.unravel(vector)
        return jax.tree.map(lambda leaf: jnp.zeros(0, leaf.dtype), like)

    def walk(job: ClientJob, begun: LocalState, longest: Number) -> LocalState:
        """A client after all of its steps, and after its reading where one is taken. Vectors are leaves."""
        steps = job.integers.steps
        teacher: Tree = ()
        if method.objective is not None:
            rows = batch_of(job, sampling.PROTOTYPES, method.objective.rows, task.shuffled)
            teacher = losses.teach(task.model.apply, task.unravel(job.start.server), *rows)

        def look(x: Array, number: Number) -> tuple[jax.Array, Tree]:
            if private is not None:  # no loss leaves
                return jnp.zeros((), task.dtype), private(x, job, number)
            return grad(x, *batch_of(job, number, batch, task.shuffled), teacher)

        def chosen(condition: Array, yes: Tree, no: Tree) -> Tree:
            return jax.tree.map(partial(jnp.where, condition), yes, no)

        def further(number: Number, now: Walk) -> Walk:
            moving = number < steps
            loss, slope = look(now.x, jnp.where(moving, number, 0) if twice else number)
            at = begun._replace(x=now.x, optimizer=now.optimizer)
            then = protocol.local_step(method, at, slope, jax.tree.map, method.client_optimizer)
            moved = chosen(moving, (then.x, then.optimizer), (now.x, now.optimizer))
            return Walk(*moved, *((loss, slope) if twice else now[2:]))

        if not twice:
            now = jax.lax.fori_loop(0, longest, further, Walk(begun.x, begun.optimizer, (), ()))
            return begun._replace(x=now.x, optimizer=now.optimizer)

        def part(which: Number, before: tuple[Walk, Tree]) -> tuple[Walk, Tree]:
            """The first step, all others, or the first minibatch once more."""
            bounds = jnp.stack([jnp.zeros_like(longest), jnp.ones_like(longest), longest, longest + 1])
            now = jax.lax.fori_loop(bounds[which], bounds[which + 1], further, before[0])
            return now, chosen(which == 0, (now.loss, now.slope), before[1])

        first = begun.lr, begun.x  # in place of looks that the first part takes
        now, (loss, slope) = jax.lax.fori_loop(0, 3, part, (Walk(begun.x, begun.optimizer, *first), first))
        done = begun._replace(x=now.x, optimizer=now.optimizer, loss=loss, grad=slope)
        return done._replace(last=now.slope)

    def held_back(job: ClientJob) -> tuple[jax.Array, jax.Array]:
        """Loss and spread of the rows that the client holds back, at the anchor: a forward pass alone."""
        x, y, here = held_rows(job, task.held_back)
        outputs = task.model.apply(task.unravel(job.start.anchor), x)
        return losses.held_loss_and_spread(task.loss, outputs, y, here)

    def run(job: ClientJob, longest: Number) -> ClientResult:
        by = method.client_optimizer
        start = LocalState(job.start.anchor, job.start.server, job.start.client, job.floats.lr)
        start = protocol.recall(start, by)
        anchor = task.unravel(start.anchor)
        server, client = leaves(start.server, anchor), leaves(start.client, anchor)
        done = walk(
            job, protocol.begin(start._replace(anchor=anchor, server=server, client=client), by), longest
        )
        end = start._replace(x=flat(done.x), optimizer=flat(done.optimizer), loss=done.loss)
        if twice:
            end = end._replace(grad=flat(done.grad), last=flat(done.last))
            end = end._replace(held=held_back(job) if task.held_back else None)
        # jobs of 0 steps only fill a wave; their report is discarded but must not divide by zero
        steps = jnp.maximum(job.integers.steps, 1).astype(job.start.anchor.dtype)
        upload, client, reading = protocol.finish(method, end, steps)
        upload, memory = protocol.encode_and_decode(federation.transmit, job.key, upload, job.start.memory)
        fields = job.start.anchor[:0]
        if readings:
            fields = jnp.stack(protocol.measured(reading, upload.delta, job.start.step))
        return ClientResult(upload, client, memory, fields)

    return run
