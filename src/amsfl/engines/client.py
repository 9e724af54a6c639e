"""One client's round as jax sees it: steps, corrections, the GDA reading, the report."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from amsfl.core import Upload
from amsfl.drift import reading
from amsfl.engines import losses, sampling
from amsfl.engines.task import Task
from amsfl.methods import Method
from amsfl.methods.base import UNCAPPED


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
    direction: jax.Array
    steps: jax.Array
    lr: jax.Array
    key: tuple[jax.Array, jax.Array]
    rows: Rows


class Done(NamedTuple):
    upload: Upload
    client: jax.Array
    reading: jax.Array  # the fields of a Reading as one vector (one write, not nine); empty when not taken


def batch_of(rows: Rows, key: tuple[Any, Any], step: Any, size: int) -> tuple[jax.Array, jax.Array]:
    places = jnp.arange(size, dtype=jnp.uint32)
    picked = sampling.draw(key, jnp.uint32(step), places, rows.size)
    # without the barrier XLA draws a row's number again for each of its columns: 1.13 and 1.2 times the time
    row = jax.lax.optimization_barrier(rows.order[rows.trial, rows.start + picked])
    return rows.x[row], rows.y[row]


def gradient(task: Task, method: Method) -> Callable[..., tuple[jax.Array, Any]]:
    """value_and_grad of the method's objective: f(params, x, y, teacher)."""
    apply, rule = task.model.apply, method.objective

    def objective(params: Any, x: jax.Array, y: jax.Array, teacher: Any) -> jax.Array:
        if rule is None:
            return losses.cross_entropy(apply, params, x, y)
        return losses.distilled(apply, rule, teacher, params, x, y)

    return jax.value_and_grad(objective)


def teacher_of(task: Task, method: Method, job: Job) -> Any:
    if method.objective is None:
        return ()
    x, y = batch_of(job.rows, job.key, sampling.PROTOTYPES, method.objective.rows)
    return losses.teach(task.model.apply, task.unravel(job.server), x, y)


def program(task: Task, method: Method, batch: int, readings: bool) -> Callable[[Job, Any], Done]:
    """The whole local round as one pure function of a Job and the most steps of any job beside it.

    Inside the loop parameters stay per-layer arrays, not one flat vector (a third faster on the CPU);
    `correct` is elementwise, so it is applied leaf by leaf. Lanes in lockstep all go through `longest` steps
    and move in their own only: a bound that they share is worth a tenth of the time against one for each.
    """
    grad = gradient(task, method)

    def leaves(vector: jax.Array, like: Any) -> Any:
        if vector.size:
            return task.unravel(vector)
        return jax.tree.map(lambda leaf: jnp.zeros(0, leaf.dtype), like)

    def run(job: Job, longest: Any) -> Done:
        anchor = task.unravel(job.anchor)
        server, client = leaves(job.server, anchor), leaves(job.client, anchor)
        teacher = teacher_of(task, method, job)

        def move(x: Any, loss: Any, g: Any, most: Any) -> Any:
            lr = most if method.stride is None else method.stride(most, loss, _square(g))

            def one(x: Any, g: Any, a: Any, s: Any, c: Any) -> Any:
                return x - lr * method.correct(g, x, a, s, c)

            return jax.tree.map(one, x, g, anchor, server, client)

        def step(number: Any, x: Any, most: Any) -> Any:
            moved = move(x, *grad(x, *batch_of(job.rows, job.key, number, batch), teacher), most)
            return jax.tree.map(partial(jnp.where, number < job.steps), moved, x)

        if not readings:
            x = jax.lax.fori_loop(0, longest, partial(step, most=job.lr), anchor)
            flat, _ = ravel_pytree(x)
            return finish(job, flat, flat[:0])

        first = batch_of(job.rows, job.key, 0, batch)
        loss, g = grad(anchor, *first, teacher)
        most = job.lr
        if method.stride is not None:  # lr 0: nobody knows one yet, and the first minibatch's own is the cap
            most = jnp.where(job.lr > 0, job.lr, method.stride(UNCAPPED, loss, _square(g)))
        x = jax.lax.fori_loop(1, longest, partial(step, most=most), move(anchor, loss, g, most))
        end, last = grad(x, *first, teacher)
        flat, before, after = ravel_pytree(x)[0], ravel_pytree(g)[0], ravel_pytree(last)[0]
        taken = reading(loss, before, after, flat - job.anchor, job.direction)
        if method.closing:
            flat, _ = ravel_pytree(move(x, end, last, most))
        return finish(job, flat, jnp.stack(taken))

    def finish(job: Job, x: jax.Array, taken: jax.Array) -> Done:
        # jobs of 0 steps only fill a wave; their report is discarded but must not divide by zero
        upload, client = method.report(
            x, job.anchor, jnp.maximum(job.steps, 1).astype(x.dtype), job.lr, job.server, job.client
        )
        return Done(upload, client, taken)

    return run


def _square(tree: Any) -> jax.Array:
    """Squared norm of a tree of arrays."""
    total: jax.Array = sum((leaf * leaf).sum() for leaf in jax.tree.leaves(tree))
    return total
