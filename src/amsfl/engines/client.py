"""One client's round as jax runs it: the protocol's lines over per-layer arrays, inside a loop."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from amsfl import protocol, sampling
from amsfl.core import Upload
from amsfl.engines import kernel, losses, private
from amsfl.engines.cards import Told, Weighed
from amsfl.engines.task import Task
from amsfl.methods import Method
from amsfl.protocol import Carry, Past


class Rows(NamedTuple):
    """The training rows on the device, and where this client's are."""

    x: jax.Array
    y: jax.Array
    order: jax.Array  # all trials' row numbers; a slice of one trial would be copied for every job
    trial: jax.Array
    start: jax.Array
    size: jax.Array


class Job(NamedTuple):
    """All that one client's round depends on."""

    anchor: jax.Array
    server: jax.Array
    client: jax.Array
    memory: jax.Array
    direction: jax.Array
    steps: jax.Array
    lr: jax.Array
    known: jax.Array
    key: tuple[jax.Array, jax.Array]
    rows: Rows
    word: jax.Array  # under privacy: a row's chance (sampling.digits), and the noise of a step
    noise: jax.Array


class Begin(NamedTuple):
    """The vectors that a job begins from."""

    anchor: jax.Array
    server: jax.Array  # what clients see of it
    client: jax.Array
    memory: jax.Array
    direction: jax.Array


def job(begin: Begin, card: tuple[Told, Weighed, Any], x: Any, y: Any, order: Any) -> Job:
    """A job from its vectors, its card, and everybody's rows."""
    told, weighed, chance = card
    key = told.key.astype(jnp.uint32), told.other.astype(jnp.uint32)
    rows = Rows(x, y, order, told.trial, told.start, told.size)
    return Job(*begin, told.steps, weighed.lr, weighed.known, key, rows, chance, weighed.noise)


class Done(NamedTuple):
    upload: Upload
    client: jax.Array
    memory: jax.Array
    reading: jax.Array  # the fields of a Reading as one vector (one write, not nine); empty when not taken


class Walk(NamedTuple):
    """A client on its way: the model, what its next step looks back at, and the latest look."""

    x: Any
    past: Past | None
    lr: jax.Array
    loss: jax.Array
    grad: Any


class Read(NamedTuple):
    """A client that is read: its walk, the first look, and where the last part of the way began."""

    now: Walk
    loss: jax.Array
    grad: Any
    end: Any


def batch_of(rows: Rows, key: tuple[Any, Any], step: Any, size: int) -> tuple[jax.Array, jax.Array]:
    places = jnp.arange(size, dtype=jnp.uint32)
    picked = sampling.draw(key, jnp.uint32(step), places, rows.size)
    # without the barrier XLA draws a row's number again for each of its columns: 1.13 and 1.2 times the time
    row = jax.lax.optimization_barrier(rows.order[rows.trial, rows.start + picked])
    return rows.x[row], rows.y[row]


def gradient(task: Task, method: Method) -> Callable[..., tuple[jax.Array, Any]]:
    """value_and_grad of the method's objective: f(params, x, y, teacher)."""
    apply, loss, rule = task.model.apply, task.loss, method.objective

    def objective(params: Any, x: jax.Array, y: jax.Array, teacher: Any) -> jax.Array:
        if rule is None:
            return loss(apply(params, x), y).mean()
        return losses.distilled(apply, loss, rule, teacher, params, x, y)

    whole = jax.value_and_grad(objective)
    if task.pieces == 1:
        return whole

    def piecewise(params: Any, x: jax.Array, y: jax.Array, teacher: Any) -> tuple[jax.Array, Any]:
        """The mean over equal pieces, one after another: only one at a time takes memory."""
        parts = jax.tree.map(lambda rows: rows.reshape(task.pieces, -1, *rows.shape[1:]), (x, y))

        def further(total: Any, part: Any) -> Any:
            return jax.tree.map(jnp.add, total, whole(params, *part, teacher)), None

        shapes = jax.eval_shape(whole, params, *jax.tree.map(lambda rows: rows[0], parts), teacher)
        nothing = jax.tree.map(lambda part: jnp.zeros(part.shape, part.dtype) + 0 * x.ravel()[0], shapes)
        total = jax.lax.scan(further, nothing, parts)[0]
        mean: tuple[jax.Array, Any] = jax.tree.map(lambda part: part / task.pieces, total)
        return mean

    return piecewise


def teacher_of(task: Task, method: Method, job: Job) -> Any:
    if method.objective is None:
        return ()
    x, y = batch_of(job.rows, job.key, sampling.PROTOTYPES, method.objective.rows)
    return losses.teach(task.model.apply, task.unravel(job.server), x, y)


def square(tree: Any) -> jax.Array:
    """Squared norm of a tree of arrays."""
    total: jax.Array = sum((leaf * leaf).sum() for leaf in jax.tree.leaves(tree))
    return total


LEAVES = protocol.Layout(jax.tree.map, square)


def program(
    task: Task, method: Method, batch: int, readings: bool, kernels: bool = False
) -> Callable[[Job, Any], Done]:
    """The whole local round as one pure function of a Job and the most steps of any job beside it.

    Inside the loop parameters stay per-layer arrays, not one flat vector (a third faster on the CPU);
    `correct` is elementwise, so it is applied leaf by leaf. Lanes in lockstep all go through `longest` steps
    and move in their own only: a bound that they share is worth a tenth of the time against one for each.
    `longest` as a plain number says that everyone takes just so many steps: nobody has to be held back.
    With `kernels` a GPU runs the loop as one kernel (kernel.py), vectors stay flat, and nobody waits.
    """
    grad = gradient(task, method)
    hidden = private.gradient(task, method.clip, batch) if method.clip else None
    twice = readings and not method.clip  # whether the first minibatch is looked at again at the end

    walk = kernel.walker(task, method, batch, twice, LEAVES) if kernels else None
    unravel = (lambda vector: vector) if kernels else task.unravel

    def leaves(vector: jax.Array, like: Any) -> Any:
        if vector.size:
            return unravel(vector)
        return jax.tree.map(lambda leaf: jnp.zeros(0, leaf.dtype), like)

    def run(job: Job, longest: Any) -> Done:
        anchor = unravel(job.anchor)
        teacher = teacher_of(task, method, job)
        server, client = leaves(job.server, anchor), leaves(job.client, anchor)
        carry = protocol.begin(method, anchor, server, client, job.lr, job.known, LEAVES)

        def look(x: Any, number: Any) -> tuple[jax.Array, Any]:
            if hidden is not None:  # no loss leaves
                return jnp.zeros((), task.dtype), hidden(x, job.rows, job.key, number, job.word, job.noise)
            return grad(x, *batch_of(job.rows, job.key, number, batch), teacher)

        def further(number: Any, now: tuple[Any, Past | None]) -> Any:
            x, past = now
            then = protocol.step(method, carry._replace(x=x, past=past), *look(x, number), LEAVES)
            if isinstance(longest, int):
                return then.x, then.past
            return jax.tree.map(partial(jnp.where, number < job.steps), (then.x, then.past), now)

        def onwards(number: Any, now: Walk, known: Any, moves: Any) -> Walk:
            at = carry._replace(x=now.x, past=now.past, lr=now.lr, known=known)
            loss, slope = look(now.x, number)
            then = protocol.first(method, at, loss, slope, LEAVES)  # as any other where an lr is known
            x, past = jax.tree.map(partial(jnp.where, moves(number)), (then.x, then.past), (now.x, now.past))
            return Walk(x, past, then.lr, loss, slope)

        def part(which: Any, before: Read) -> Read:
            """The first step, all others, or the first minibatch once more: the network's code is here once.

            Three copies of it took twice as long to compile.
            """
            alone, later = which != 1, which > 0

            def moves(number: Any) -> Any:
                return jnp.where(alone, ~later | method.closing, number < job.steps)

            known, first = jnp.where(later, 1, job.known), jnp.where(alone, 0, 1)
            if walk is None:
                step = partial(onwards, known=known, moves=moves)
                now = jax.lax.fori_loop(first, jnp.where(alone, 1, longest), step, before.now)
            else:
                until = jnp.where(alone, 1, job.steps)
                now = Walk(*walk(told(first, until, ~alone | moves(0)), *seen, before.now[:3], known))
            loss, slope = jax.tree.map(
                partial(jnp.where, later), (before.loss, before.grad), (now.loss, now.grad)
            )
            return Read(now, loss, slope, before.now.x)

        def told(first: Any, until: Any, moving: Any) -> kernel.Told:
            rows = job.rows
            return kernel.Told(rows.trial, rows.start, rows.size, *job.key, first, until, moving)

        seen = kernel.Seen(job.anchor, job.server, job.client), job.rows[:3]
        if not twice:
            if walk is None:
                x, past = jax.lax.fori_loop(0, longest, further, (carry.x, carry.past))
            else:
                x, past, _ = walk(told(0, job.steps, 1), *seen, (carry.x, carry.past, carry.lr), job.known)
            return sent(job, carry._replace(x=x, past=past))
        zero = 0 * job.lr, jax.tree.map(lambda leaf: 0 * leaf, anchor)  # on the devices that the job is on
        now = Walk(carry.x, carry.past, carry.lr, *zero)
        found = jax.lax.fori_loop(0, 3, part, Read(now, *zero, anchor))
        x, past, lr, _, last = found.now
        carry = carry._replace(
            x=x, past=past, lr=lr, loss=found.loss, grad=found.grad, end=found.end, last=last
        )
        return sent(job, carry)

    def sent(job: Job, carry: Carry) -> Done:
        x, *looks = (
            part if part is None else task.ravel(part)
            for part in (carry.x, carry.grad, carry.end, carry.last)
        )
        flat = Carry(
            job.anchor,
            job.server,
            job.client,
            x,
            carry.lr,
            carry.known,
            carry.loss,
            looks[0],
            looks[1],
            looks[2],
        )
        # jobs of 0 steps only fill a wave; their report is discarded but must not divide by zero
        steps = jnp.maximum(job.steps, 1).astype(job.anchor.dtype)
        upload, client, reading = protocol.finish(method, flat, steps, job.direction)
        upload, memory = protocol.delivered(method.transmit, job.key, upload, job.memory)
        told = job.anchor[:0] if reading is None or not readings else jnp.stack(reading)
        return Done(upload, client, memory, told)

    return run
