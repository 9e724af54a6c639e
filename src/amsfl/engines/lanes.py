"""The jax engine: all clients of all trials in one compiled program, sharded over the devices."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from amsfl.core import Reading, Upload
from amsfl.engines import client, devices, sampling
from amsfl.engines.base import Orders, Outcome, Scores, State
from amsfl.engines.evaluate import evaluator
from amsfl.engines.memory import check_fits, copies
from amsfl.engines.task import Task
from amsfl.engines.waves import Queue, pack
from amsfl.methods import Method


class Fixed(NamedTuple):
    """What never changes in a run, on every device once."""

    x: Any
    y: Any
    order: Any
    start: Any
    size: Any
    seeds: Any


class Lanes:
    """Engine (see base.Engine). `lanes` jobs run side by side on each of `mesh`'s devices.

    `mesh` may span processes (jax.distributed): all of them make the same calls with the same values, and
    all hold the same results. `cohort`, the clients a round, sharpens the check that client state fits.
    """

    def __init__(
        self,
        task: Task,
        method: Method,
        batch: int,
        readings: bool = False,
        lanes: int | None = None,
        mesh: Mesh | None = None,
        cohort: int | None = None,
    ):
        self.task, self.method = task, method
        self.mesh = mesh or devices.mesh()
        self.lanes = lanes or devices.default_lanes()
        check_fits(task, method, copies(self.mesh), cohort)
        shards = task.shards
        # replicated from the start: what arrives on one device would be copied, and compiled for, anew
        fixed = Fixed(task.x, task.y, *shards, sampling.words(task.seeds))
        self.fixed = devices.put(fixed, self.mesh, P())
        work = client.program(task, method, batch, readings)
        self._round = {keep: compile_round(self.mesh, method, work, keep) for keep in (False, True)}
        self._evaluate = evaluator(task, self.mesh)

    def start(self) -> State:
        anchor = jnp.asarray(self.task.start())
        server, state = jax.vmap(self.method.init)(anchor)
        clients = self.task.shards.size.shape[1]
        state = jnp.repeat(state[:, None], clients, axis=1)
        return self.place(State(anchor, server, state, jnp.zeros_like(anchor)))

    def place(self, state: State) -> State:
        placed: State = devices.put(state, self.mesh, P())
        return placed

    def round(self, state: State, orders: Orders, number: int, keep: bool = False) -> tuple[State, Outcome]:
        queue = pack(orders.steps, self.mesh.size, self.lanes)
        placed = Orders(
            np.asarray(orders.cohort, np.int32),
            np.asarray(orders.steps, np.int32),
            np.asarray(orders.lr, self.task.dtype),
            np.asarray(orders.weights, self.task.dtype),
        )
        counter = sampling.words(number)
        if jax.process_count() > 1:  # one process may hand numpy arrays over as they are, which is quicker
            placed, counter = devices.put((placed, counter), self.mesh, P())
            queue = devices.put(queue, self.mesh, P(devices.AXIS))
        state, readings, deltas = self._round[keep](state, self.fixed, placed, counter, queue)
        return state, Outcome(readings, deltas if keep else None)

    def evaluate(self, models: Any, split: str) -> Scores:
        return self._evaluate(models, split)


def compile_round(mesh: Mesh, method: Method, work: Callable[[client.Job], client.Done], keep: bool) -> Any:
    """jit of a whole round: every device works through its waves, then all sum what they have."""

    def body(
        state: State, fixed: Fixed, orders: Orders, number: jax.Array, queue: Queue
    ) -> tuple[State, Reading, jax.Array]:
        trials, cohort = orders.steps.shape
        dtype = state.anchor.dtype
        steps = orders.steps.astype(dtype)
        mix = jax.vmap(method.mix)(orders.weights, jnp.maximum(steps, 1))

        def one(job: jax.Array) -> tuple[jax.Array, client.Done]:
            used = job >= 0
            trial, place = jnp.divmod(jnp.maximum(job, 0), cohort)
            who = orders.cohort[trial, place]
            rows = client.Rows(
                fixed.x, fixed.y, fixed.order, trial, fixed.start[trial, who], fixed.size[trial, who]
            )
            key = sampling.stream(fixed.seeds[trial], number, who.astype(jnp.uint32))
            done = work(
                client.Job(
                    state.anchor[trial],
                    state.server[trial],
                    state.client[trial, who],
                    state.step[trial],
                    jnp.where(used, orders.steps[trial, place], 0),
                    orders.lr[trial],
                    key,
                    rows,
                )
            )
            return jnp.where(used, mix[trial, place], 0), done

        jobs, lanes = queue.jobs[0], queue.jobs.shape[-1]
        wave, accumulate = (jax.vmap(one), _add_wave) if lanes > 1 else (_alone(one), _add_one)

        def run_wave(index: Any, carry: Any) -> Any:
            total, clients, readings, deltas = carry
            job = jobs[index]
            share, done = wave(job)
            # lanes of unused places write to one place past the end, which is dropped
            place = jnp.where(job >= 0, job, trials * cohort)
            total = accumulate(total, done.upload, share, jnp.maximum(job, 0) // cohort)
            clients = clients.at[place].set(done.client, mode="drop")
            readings = jax.tree.map(lambda a, b: a.at[place].set(b, mode="drop"), readings, done.reading)
            if keep:
                deltas = deltas.at[place].set(done.upload.delta, mode="drop")
            return total, clients, readings, deltas

        carry = _zeros(state, trials, cohort, keep, method)
        carry = jax.lax.pcast(carry, devices.AXIS, to="varying")
        carry = jax.lax.fori_loop(0, queue.waves[0], run_wave, carry)
        # one sum of one vector: fourteen small ones took half a millisecond a round on two CPU devices
        flat, rebuild = ravel_pytree(carry)
        total, clients, readings, deltas = rebuild(jax.lax.psum(flat, devices.AXIS))

        moved, server = jax.vmap(method.aggregate)(
            state.anchor, total, orders.weights, jnp.maximum(steps, 1), state.server
        )
        ran = orders.steps > 0
        active = ran.any(1)[:, None]
        back = jnp.arange(trials)[:, None], jnp.where(ran, orders.cohort, state.client.shape[1])
        fresh = clients.reshape(trials, cohort, -1)
        following = State(
            jnp.where(active, moved, state.anchor),
            jnp.where(active, server, state.server),
            state.client.at[back].set(fresh, mode="drop"),
            jnp.where(active, moved - state.anchor, state.step),
        )
        shaped = jax.tree.map(lambda field: field.reshape(trials, cohort), readings)
        return following, shaped, deltas.reshape(trials, cohort, -1)

    spread = P(devices.AXIS)
    mapped = jax.shard_map(
        body, mesh=mesh, in_specs=(P(), P(), P(), P(), Queue(spread, spread)), out_specs=P()
    )
    return jax.jit(mapped, donate_argnums=0)


def _alone(one: Callable[..., Any]) -> Callable[..., Any]:
    """A wave of a single job without vmap: its loop ends by itself, with no lane to mask."""

    def wave(jobs: jax.Array) -> Any:
        return jax.tree.map(lambda leaf: leaf[None], one(jobs[0]))

    return wave


def _add_one(total: Upload, sent: Upload, share: jax.Array, trial: jax.Array) -> Upload:
    """One row in place: with a job at a time, touching all trials would cost more than the job."""
    pairs = zip(total, sent, strict=True)
    return Upload(*(old.at[trial[0]].add(share[0] * new[0]) for old, new in pairs))


def _add_wave(total: Upload, sent: Upload, share: jax.Array, trial: jax.Array) -> Upload:
    """A sum by matrix product has one order; a scatter with equal indices has none on a GPU."""
    belongs = jax.nn.one_hot(trial, len(total.delta_sq), dtype=share.dtype) * share[:, None]
    add = partial(jnp.einsum, "lt,l...->t...", belongs, precision="highest")
    return Upload(*(old + add(new) for old, new in zip(total, sent, strict=True)))


def _zeros(state: State, trials: int, cohort: int, keep: bool, method: Method) -> Any:
    dtype, dim = state.anchor.dtype, state.anchor.shape[1]
    extra = jax.eval_shape(
        lambda a, s, c: method.report(a, a, 1, 1.0, s, c)[0].extra,
        state.anchor[0],
        state.server[0],
        state.client[0, 0],
    ).shape[0]
    jobs = trials * cohort
    total = Upload(
        jnp.zeros((trials, dim), dtype), jnp.zeros((trials, extra), dtype), jnp.zeros(trials, dtype)
    )
    readings = Reading(*[jnp.zeros(jobs, dtype)] * len(Reading._fields))
    clients = jnp.zeros((jobs, state.client.shape[2]), dtype)
    return total, clients, readings, jnp.zeros((jobs, dim if keep else 0), dtype)
