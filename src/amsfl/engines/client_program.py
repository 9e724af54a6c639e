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
from amsfl.core.records import Array, Number, Tree
from amsfl.engines import kernel, losses
from amsfl.engines.contract import Ahead, Models, Results, Work
from amsfl.engines.task import Task
from amsfl.methods import Federation, Method
from amsfl.protocol import LocalState

Rows = tuple[Array, Array, Array]  # x, y and every trial's numbers of them: a slice would be copied
Table = tuple[Array, Array, Array]  # integers, floats and chances of jobs, [jobs, columns] each


class ClientJob(NamedTuple):
    """All that one client's round depends on besides models and rows, inside a compiled program."""

    state: Array  # the client's own, of methods that have one
    memory: Array  # what it remembers of its transmissions
    trial: Array
    start: Array  # of its rows
    size: Array
    held: Array  # rows that it holds back
    steps: Array  # 0: an empty place of a wave
    begin: Array  # which of a wave's models it begins from
    key: tuple[Array, Array]  # two words, of its minibatches
    lr: Array
    noise: Array  # of a private step
    chance: Array  # by which rows are in a private minibatch (sampling.digits); else no columns


Given = tuple[Method, ClientJob, LocalState, Tree]  # all that steps read besides rows and their model
# columns of a table, places of some; the last make its key
INTEGERS, TRIAL, STEPS, BEGIN, CLIENT = 9, 0, 4, 5, 8
FLOATS, SHARE = 3, 2  # lr, noise, and how much its upload counts in a sum


def jobs_of(table: Table, state: Array, memory: Array) -> tuple[ClientJob, Array]:
    """A table's columns, inside a compiled program, and how much each upload counts in a sum."""
    integers, floats, chance = table
    *own, seed, number, client = integers.T
    key = sampling.stream(*(each.astype(jnp.uint32) for each in (seed, number, client)))
    lr, noise, share = floats.T
    return ClientJob(state, memory, *own, key, lr, noise, chance), share  # type: ignore[call-arg]


def batch_of(job: ClientJob, rows: Rows, step: Number, size: int, shuffled: int = 0) -> tuple[Tree, Tree]:
    """A client's minibatch of this step."""
    x, y, order = rows
    places = jnp.arange(size, dtype=jnp.uint32)
    picked = sampling.draw(job.key, jnp.uint32(step), places, job.size, shuffled)
    # without the barrier XLA draws a row's number again for each of its columns: 1.13 and 1.2 times the time
    row = jax.lax.optimization_barrier(order[job.trial, job.start + picked])
    return x[row], y[row]


def job_tables(task: Task, batch: int, private: bool) -> Callable[[Sequence[Work | Ahead]], Table]:
    """make(work of many trials) -> the table of all their jobs, one after another, [rounds, ...] if ahead."""
    shards, seeds = task.shards, sampling.words(task.seeds).view(np.int32)
    fixed = np.stack([shards.start, shards.size, shards.held], -1).astype(np.int32)
    noise = np.zeros(shards.size.shape) if task.noise is None else task.noise
    chances = sampling.digits(batch, shards.size)[..., : None if private else 0]

    def make(asked: Sequence[Work | Ahead]) -> Table:
        columns = zip(
            *((each.client, each.steps, each.lr, each.number, each.begin) for each in asked), strict=True
        )
        who, steps, lr, number, begin = (np.concatenate(column, -1) for column in columns)
        trial = np.repeat([each.trial for each in asked], [each.client.shape[-1] for each in asked])
        integers = np.empty((*who.shape, INTEGERS), np.int32)
        integers[..., TRIAL], integers[..., 1:STEPS] = trial, fixed[trial, who]
        integers[..., STEPS], integers[..., BEGIN] = steps, begin
        integers[..., 6], integers[..., 7], integers[..., CLIENT] = seeds[trial], number, who
        floats = np.zeros((*who.shape, FLOATS), task.dtype)
        floats[..., 0], floats[..., 1] = lr, noise[trial, who]
        if asked[0].shares is not None:
            floats[..., SHARE] = np.concatenate([each.shares for each in asked], -1)
        return integers, floats, chances[trial, who]

    return make


def gradient(task: Task, method: Method) -> Callable[..., tuple[jax.Array, Tree]]:
    """value_and_grad of the method's objective: f(params, x, y, teacher)."""
    apply, loss, rule = task.model.apply, task.loss, method.objective

    def objective(params: Tree, x: jax.Array, y: jax.Array, teacher: Tree) -> Array:
        if rule is None:
            return loss(apply(params, x), y).mean()
        return losses.distillation_loss(apply, loss, rule, teacher, params, (x, y))

    return jax.value_and_grad(objective)


def flat(tree: Tree) -> jax.Array:
    vector: jax.Array = ravel_pytree(tree)[0]
    return vector


def program(
    task: Task, federation: Federation, batch: int, readings: bool, private: Callable[..., Tree] | None = None
) -> Callable[[ClientJob, Models, Rows, Number], Results]:
    """run(job, began, rows, longest): one client's round from a model, where no job beside it takes more than
    `longest` steps; `private(params, job, rows, step)` gives its gradients where rows are private.

    Inside the loop parameters stay per-layer arrays, not one flat vector (a third faster on the CPU);
    `correct` is elementwise, so it is applied leaf by leaf. Lanes in lockstep all go as far as the longest
    and move in their own steps only: a bound that they share is worth a tenth of the time against one for
    each. The network's code is here once: three copies of it took twice as long to compile.
    """
    method, apply = federation.method, task.model.apply
    grad = gradient(task, method)
    twice = readings and private is None  # whether the first minibatch is looked at again at the end

    def leaves(vector: jax.Array, like: Tree) -> Tree:
        if vector.size:
            return task.unravel(vector)
        return jax.tree.map(lambda leaf: jnp.zeros(0, leaf.dtype), like)

    def chosen(condition: Array, yes: Tree, no: Tree) -> Tree:
        return jax.tree.map(partial(jnp.where, condition), yes, no)

    def look(params: Tree, given: Given, rows: Rows, step: Number) -> tuple[Array, Tree]:
        """Loss and gradient of a minibatch; where rows are private no loss leaves."""
        _, job, _, teacher = given
        if private is None:
            return grad(params, *batch_of(job, rows, step, batch, task.shuffled), teacher)
        return jnp.zeros((), task.dtype), private(params, job, rows, step)

    def further(look: kernel.Look, given: Given, rows: Rows, number: Number, now: Tree) -> Tree:
        """One step; `now` is the model, its optimizer and the latest look where that is kept."""
        (method, job, begun, _), (x, optimizer, *looked) = given, now
        moving = number < job.steps
        loss, slope = look(x, given, rows, jnp.where(moving, number, 0) if twice else number)
        at = begun._replace(x=x, optimizer=optimizer)
        then = protocol.local_step(method, at, slope, jax.tree.map, method.client_optimizer)
        moved = chosen(moving, (then.x, then.optimizer), (x, optimizer))
        return *moved, *((loss, slope) if twice else looked)

    def loop(given: Given, rows: Rows, lower: Number, upper: Number, now: Tree) -> Tree:
        return jax.lax.fori_loop(lower, upper, partial(further, look, given, rows), now)

    def walk(job: ClientJob, begun: LocalState, teacher: Tree, rows: Rows, longest: Number) -> LocalState:
        """A client after all of its steps, and after its reading where one is taken. Vectors are leaves."""
        known, go = (begun._replace(x=None, optimizer=None), teacher), loop
        given: Given = method, job, *known
        if kernel.serves(task, federation, batch):  # where nobody waits for the longest
            given, longest = (method, job._replace(state=(), memory=(), chance=()), *known), job.steps
            go = kernel.loop(task, batch, further)
        if not twice:
            x, optimizer = go(given, rows, 0, longest, (begun.x, begun.optimizer))
            return begun._replace(x=x, optimizer=optimizer)

        def part(which: Number, before: tuple[Tree, Tree]) -> tuple[Tree, Tree]:
            """The first step, all others, or the first minibatch once more."""
            bounds = jnp.stack([jnp.zeros_like(longest), jnp.ones_like(longest), longest, longest + 1])
            now = go(given, rows, bounds[which], bounds[which + 1], before[0])
            return now, chosen(which == 0, now[2:], before[1])

        nothing = begun.lr, begun.x  # in place of looks that the first part takes
        now, (loss, slope) = jax.lax.fori_loop(0, 3, part, ((begun.x, begun.optimizer, *nothing), nothing))
        x, optimizer, _, last = now
        return begun._replace(x=x, optimizer=optimizer, loss=loss, grad=slope, last=last)

    def held_back(job: ClientJob, anchor: Tree, rows: Rows) -> tuple[jax.Array, jax.Array]:
        """Loss and spread of the rows that the client holds back, at the anchor: a forward pass alone."""
        x, y, order = rows
        places = jnp.arange(task.held_back)
        here = places < job.held
        row = order[job.trial, jnp.where(here, job.start + job.size + places, 0)]
        return losses.held_loss_and_spread(task.loss, apply(anchor, x[row]), y[row], here)

    def run(job: ClientJob, began: Models, rows: Rows, longest: Number) -> Results:
        by = method.client_optimizer
        start = protocol.recall(LocalState(began.anchor, began.server, job.state, job.lr), by)
        anchor = task.unravel(began.anchor)
        teacher: Tree = ()
        if method.objective is not None:
            some = batch_of(job, rows, sampling.PROTOTYPES, method.objective.rows, task.shuffled)
            teacher = losses.teach(apply, task.unravel(began.server), *some)
        server, client = leaves(began.server, anchor), leaves(start.client, anchor)
        tree = start._replace(anchor=anchor, server=server, client=client)
        done = walk(job, protocol.begin(tree, by), teacher, rows, longest)
        end = start._replace(x=flat(done.x), optimizer=flat(done.optimizer), loss=done.loss)
        if twice:
            held = held_back(job, anchor, rows) if task.held_back else None
            end = end._replace(grad=flat(done.grad), last=flat(done.last), held=held)
        # jobs of 0 steps only fill a wave; their report is discarded but must not divide by zero
        steps = jnp.maximum(job.steps, 1).astype(began.anchor.dtype)
        upload, client, reading = protocol.finish(method, end, steps)
        upload, memory = protocol.encode_and_decode(federation.transmit, job.key, upload, job.memory)
        fields = began.anchor[:0]
        if readings:  # as one vector: one write, not eight
            fields = jnp.stack(protocol.measured(reading, upload.delta, began.step))
        return Results(upload, client, memory, fields)

    return run
