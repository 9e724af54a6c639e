"""One client's round as jax runs it: the protocol's lines over per-layer arrays, inside a loop."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from amsfl import protocol, sampling
from amsfl.core.records import Array, Number, Tree
from amsfl.engines import kernel, losses, private_gradients
from amsfl.engines.job_table import ClientJob, ClientResult, batch_of, held_rows
from amsfl.engines.task import Task
from amsfl.methods import Method
from amsfl.protocol import LastStep, LocalState

FIRST, TRIAL, OTHERS, CLOSING = range(4)  # parts of a client's way; the trial only where methods open a rate


class StepState(NamedTuple):
    """A client on its way: the model, what its next step looks back at, and the latest look."""

    x: Array
    past: LastStep | None
    lr: jax.Array
    loss: jax.Array
    grad: Array


class ReadingState(NamedTuple):
    """A client that is read: its walk, the first look, and where the last part of the way began."""

    now: StepState
    loss: jax.Array
    grad: jax.Array  # flat: what is chosen layer by layer is compiled layer by layer
    end: Number


def gradient(task: Task, method: Method) -> Callable[..., tuple[jax.Array, Tree]]:
    """value_and_grad of the method's objective: f(params, x, y, teacher)."""
    apply, loss, rule = task.model.apply, task.loss, method.arithmetic.objective

    def objective(params: Tree, x: jax.Array, y: jax.Array, teacher: Tree) -> jax.Array:
        if rule is None:
            return loss(apply(params, x), y).mean()
        return losses.distillation_loss(apply, loss, rule, teacher, params, (x, y))

    whole = jax.value_and_grad(objective)
    if task.pieces == 1:
        return whole

    def piecewise(params: Tree, x: jax.Array, y: jax.Array, teacher: Tree) -> tuple[jax.Array, Tree]:
        """The mean over equal pieces, one after another: only one at a time takes memory."""
        parts = jax.tree.map(lambda rows: rows.reshape(task.pieces, -1, *rows.shape[1:]), (x, y))

        def further(total: Tree, part: Tree) -> Tree:
            return jax.tree.map(jnp.add, total, whole(params, *part, teacher)), None

        shapes = jax.eval_shape(whole, params, *jax.tree.map(lambda rows: rows[0], parts), teacher)
        nothing = jax.tree.map(lambda part: jnp.zeros(part.shape, part.dtype) + 0 * x.ravel()[0], shapes)
        total = jax.lax.scan(further, nothing, parts)[0]
        mean: tuple[jax.Array, Tree] = jax.tree.map(lambda part: part / task.pieces, total)
        return mean

    return piecewise


def teacher_of(task: Task, method: Method, job: ClientJob) -> Tree:
    if method.arithmetic.objective is None:
        return ()
    rows = batch_of(job, sampling.PROTOTYPES, method.arithmetic.objective.rows, task.shuffled)
    return losses.teach(task.model.apply, task.unravel(job.start.server), *rows)


def inner_product(one: Tree, other: Tree) -> jax.Array:
    """<one, other> of trees of arrays."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    total: jax.Array = sum((a * b).sum() for a, b in pairs)
    return total


LEAVES = protocol.VectorLayout(jax.tree.map, inner_product)


def program(
    task: Task, method: Method, batch: int, readings: bool, kernels: bool = False
) -> Callable[[ClientJob, Number, Number], ClientResult]:
    """run(job, longest, opens): one client's round, where no job beside it takes more than `longest` steps;
    `opens`: whether any of them has to find its learning rate.

    Inside the loop parameters stay per-layer arrays, not one flat vector (a third faster on the CPU);
    `correct` is elementwise, so it is applied leaf by leaf. Lanes in lockstep all go as far as the longest
    and move in their own steps only: a bound that they share is worth a tenth of the time against one for
    each. `longest` as a plain number says that every job takes just so many steps, so no lane is masked.
    With `kernels` a GPU runs the loop as one kernel (kernel.py), vectors stay flat, and no lane waits.
    """
    grad = gradient(task, method)
    private = None
    if method.private_rows is not None:
        private = private_gradients.gradient(task, method.private_rows, batch)
    twice = readings and not method.private_rows  # whether the first minibatch is looked at again at the end
    opening = method.arithmetic.opening is not None and twice

    walk = kernel.stepper(task, method, batch, twice, LEAVES) if kernels else None
    unravel = (lambda vector: vector) if kernels else task.unravel

    def leaves(vector: jax.Array, like: Tree) -> Tree:
        if vector.size:
            return unravel(vector)
        return jax.tree.map(lambda leaf: jnp.zeros(0, leaf.dtype), like)

    def received(job: ClientJob) -> LocalState:
        lr, _, cut, correction, _ = job.floats
        number = job.integers.number.astype(lr.dtype)
        state = LocalState(*job.start[:3], lr, number, cut=cut, correction=correction)
        return protocol.receive(method, state)

    def steps_of(job: ClientJob, flat: LocalState, longest: Number, opens: Number) -> Tree:
        """A client after all of its steps, and after its reading where one is taken."""
        anchor, steps, lr = unravel(job.start.anchor), job.integers.steps, job.floats.lr
        server, client = leaves(flat.server, anchor), leaves(flat.client, anchor)
        carry = protocol.begin(method, flat._replace(anchor=anchor, server=server, client=client), LEAVES)
        teacher = teacher_of(task, method, job)

        def look(x: Array, number: Number) -> tuple[jax.Array, Tree]:
            if private is not None:  # no loss leaves
                return jnp.zeros((), task.dtype), private(x, job, number)
            return grad(x, *batch_of(job, number, batch, task.shuffled), teacher)

        def further(number: Number, now: tuple[Tree, LastStep | None]) -> Tree:
            x, past = now
            then = protocol.local_step(method, carry._replace(x=x, past=past), *look(x, number), LEAVES)
            if isinstance(longest, int):
                return then.x, then.past
            return jax.tree.map(partial(jnp.where, number < steps), (then.x, then.past), now)

        def onwards(number: Number, now: StepState, which: Number, before: ReadingState) -> StepState:
            alone, later = which != OTHERS, which != FIRST
            moving = jnp.where(alone, ~later | method.arithmetic.closing, number < steps)
            at = carry._replace(x=now.x, past=now.past, lr=now.lr)
            loss, slope = look(now.x, number)
            then = protocol.local_step(method, at, loss, slope, LEAVES)
            x, past = jax.tree.map(partial(jnp.where, moving), (then.x, then.past), (now.x, now.past))
            if not opening:
                return StepState(x, past, now.lr, loss, slope)
            known = job.floats.lr_known > 0

            def opened() -> tuple[Tree, Tree, jax.Array]:
                """The trial step in place of the first one, or what it leads to, where no rate is known."""
                tried = protocol.trial_step(method, at, loss, slope, LEAVES)
                saved = at._replace(loss=before.loss, grad=unravel(before.grad))
                rate_state = protocol.open_rate(method, saved, slope, LEAVES)
                second = rate_state.x, rate_state.past, rate_state.lr
                late = jax.tree.map(partial(jnp.where, known), (now.x, now.past, now.lr), second)
                first = tried.x, tried.past, now.lr
                early = jax.tree.map(partial(jnp.where, known), (x, past, now.lr), first)
                chosen: tuple[Tree, Tree, jax.Array] = jax.tree.map(partial(jnp.where, later), late, early)
                return chosen

            x, past, lr = jax.lax.cond(which <= TRIAL, opened, lambda: (x, past, now.lr))
            return StepState(x, past, lr, loss, slope)

        def part(which: Number, before: ReadingState) -> ReadingState:
            """The first step, all others, or the first minibatch once more: the network's code is here once.

            Three copies of it took twice as long to compile.
            """
            alone, later = which != OTHERS, which != FIRST
            begun = jnp.where(alone, 0, 1)
            if walk is None:
                times = jnp.where(alone, jnp.where(which == TRIAL, jnp.int32(opens), 1), longest)
                step = partial(onwards, which=which, before=before)
                now = jax.lax.fori_loop(begun, times, step, before.now)
            else:
                end = jnp.where(alone, 1, steps)
                moving = ~alone | ~later | method.arithmetic.closing
                now = StepState(*walk(kernel_job(begun, end, moving), *vectors, before.now[:3]))
            looked = before.loss, before.grad
            loss, slope = jax.tree.map(partial(jnp.where, later), looked, (now.loss, task.ravel(now.grad)))
            return ReadingState(now, loss, slope, before.now.x)

        def kernel_job(begun: Tree, end: Number, moving: Number) -> kernel.KernelNumbers:
            own = job.integers
            return kernel.KernelNumbers(own.trial, own.start, own.size, *job.key, begun, end, moving)

        vectors = kernel.KernelVectors(*job.start[:3]), job.rows
        if twice:
            nothing = lr, carry.x  # in place of looks that the first part takes: zeros would be more code
            begin = StepState(carry.x, carry.past, carry.lr, *nothing)
            before = ReadingState(begin, lr, job.start.anchor, carry.x)
            if opening:
                return jax.lax.fori_loop(FIRST, CLOSING + 1, part, before)
            # without a trial the others are the second part
            return jax.lax.fori_loop(FIRST, CLOSING, lambda nth, now: part(nth + (nth > 0), now), before)
        if walk is None:
            return jax.lax.fori_loop(0, longest, further, (carry.x, carry.past))
        now = carry.x, carry.past, carry.lr
        return walk(kernel_job(0, steps, 1), *vectors, now)[:2]

    def held_back(job: ClientJob) -> tuple[jax.Array, jax.Array]:
        """Loss and spread of the rows that the client holds back, at the anchor: a forward pass alone."""
        x, y, here = held_rows(job, task.held_back)
        outputs = task.model.apply(task.unravel(job.start.anchor), x)
        return losses.held_loss_and_spread(task.loss, outputs, y, here)

    def run(job: ClientJob, longest: Number, opens: Number) -> ClientResult:
        flat = received(job)
        now = steps_of(job, flat, longest, opens)
        if twice and task.held_back:
            flat = flat._replace(held=held_back(job))
        if twice:
            at, last = map(task.ravel, (now.end, now.now.grad))
            flat = flat._replace(lr=now.now.lr, loss=now.loss, grad=now.grad, end=at, last=last)
        past = now.now.past if twice else now[1]
        flat = flat._replace(x=task.ravel(now.now.x if twice else now[0]), past=past)
        # jobs of 0 steps only fill a wave; their report is discarded but must not divide by zero
        steps = jnp.maximum(job.integers.steps, 1).astype(job.start.anchor.dtype)
        upload, client, reading = protocol.finish(method, flat, steps, job.start.step)
        upload, memory = protocol.encode_and_decode(method.transmit, job.key, upload, job.start.memory)
        if reading is not None:
            upload = protocol.complete(method, upload, steps, reading.length)
        fields = job.start.anchor[:0] if reading is None or not readings else jnp.stack(reading)
        return ClientResult(upload, client, memory, fields)

    return run
