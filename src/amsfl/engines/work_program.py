"""The compiled program of a round's local work, on every device; settling.py has what ends the round."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from amsfl.core import Reading, Upload
from amsfl.core.records import Array, Number, Tree
from amsfl.engines import client_program, devices
from amsfl.engines.contract import State
from amsfl.engines.devices import Program
from amsfl.engines.job import ClientJob, ClientResult, StartVectors, make_job
from amsfl.engines.job_table import JobIntegers, JobTable, job_row
from amsfl.engines.layout import ModelLayout
from amsfl.engines.numbers import with_numbers
from amsfl.engines.packing import FEW, Queue
from amsfl.engines.sums import add_rows, add_wave
from amsfl.methods import Method

Local = Callable[[Method], client_program.ClientProgram]  # a client's round by a method
FOUND = 6  # which of the arguments of `work` is what was found before


class DeviceRows(NamedTuple):
    """What never changes in a run, on every device once: the rows, and all trials' numbers of them."""

    x: Array
    y: Array
    order: Array


class KeepFlags(NamedTuple):
    """What a round brings back of every client besides its share of the sum."""

    readings: bool
    deltas: bool


class WorkerResult(NamedTuple):
    """What one worker found: sums by trial, and of every job (zeros for those of others) what is kept."""

    total: Upload  # [trials x slots, ...]; empty for a method whose uploads are combined, not summed
    uploads: Upload  # [jobs, ...]; empty for a method that stacks none
    clients: jax.Array
    memories: jax.Array
    readings: jax.Array
    deltas: jax.Array


def work(
    mesh: Mesh,
    method: Method,
    layout: ModelLayout,
    local: Local,
    kept: KeepFlags,
    slots: int,
    light: bool,
    further: bool = False,
) -> Program:
    """jit of one worker's local work: every device goes through its waves -> what it found, [devices, ...],
    and where waves are parted a client that is laid aside.

    Nobody waits for anybody in here; `settle` sums what workers and devices found. `further` takes as its
    last arguments what was found before, which is then gone, and a client laid aside, and goes on from there.
    """

    def build(method: Method) -> Tree:
        return work_body(mesh, method, layout, local(method), kept, slots, further)

    return devices.jit(
        with_numbers("work", method, build), mesh, light, donate_argnums=FOUND if further else ()
    )


def empty_result(
    mesh: Mesh, method: Method, layout: ModelLayout, local: Local, kept: KeepFlags, slots: int
) -> Program:
    """jit of what a worker has found before it begins, and a client laid aside by nobody: zeros."""

    def build(method: Method) -> Tree:
        def body(state: State, fixed: DeviceRows, cards: JobTable, mix: jax.Array) -> Tree:
            one = partial(_job, method, layout, state, fixed, *job_row(cards, 0))
            shapes = jax.eval_shape(lambda: local(method).begin(one()))
            aside = jax.tree.map(lambda leaf: jnp.zeros(leaf.size, leaf.dtype), shapes)
            found = _zeros(state, len(mix), kept, method, layout, slots), aside
            return jax.tree.map(lambda part: part[None], found)

        return body

    placed = NamedSharding(mesh, P(devices.AXIS))
    return devices.jit_small(with_numbers("empty_result", method, build), mesh, out_shardings=placed)


def work_body(
    mesh: Mesh,
    method: Method,
    layout: ModelLayout,
    local: client_program.ClientProgram,
    kept: KeepFlags,
    slots: int,
    further: bool = False,
    longest: int | None = None,
) -> Program:
    """`work` before it is compiled; with `longest`, every job has just that many steps.

    A GPU runs a loop whose end is known ahead without asking after every turn whether that was the last one.
    """

    def waves(
        state: State, fixed: DeviceRows, cards: JobTable, mix: jax.Array, queue: Queue, carry: Tree
    ) -> Tree:
        trials, jobs_ = len(state.anchor), len(mix)
        # taken from a single row, a model would be fused with its local work, which then rounds differently
        times = 2 if trials == 1 else 1
        anchors, servers = (jnp.concatenate([part] * times) for part in (state.anchor, state.server))
        doubled = state._replace(anchor=anchors, server=servers)

        def one(job: jax.Array, longest: Number, *piece: Tree) -> tuple[Tree, Tree, ClientResult, Tree]:
            used, place = job >= 0, jnp.maximum(job, 0)
            told, *rest = job_row(cards, place)
            told = told._replace(steps=jnp.where(used, told.steps, 0))
            mine = _job(method, layout, doubled, fixed, told, *rest)
            if piece:
                used, done, aside = parted(mine, used, *piece)
            else:
                done, aside = local.whole(mine, longest), ()
            done = done._replace(client=layout.folded(done.client), memory=layout.folded(done.memory))
            return used, jnp.where(used, mix[place], 0), done, aside

        def parted(mine: ClientJob, used: Array, first: Number, until: Number, aside: Tree) -> Tree:
            """Some of a client's steps, from where it was laid aside unless they are its first.

            Laid aside its arrays are flat: in other shapes they would tell the loop how its own have to lie
            in memory (job C of benchmarks/ took 1.05 times as long).
            """
            fresh = local.begin(mine)
            begun = jax.tree.map(lambda a, b: jnp.where(first > 0, a.reshape(b.shape), b), aside, fresh)
            now = local.go(mine, begun, first, jnp.minimum(until, mine.steps))
            ended, done = used & (until >= mine.steps), local.end(mine, now)
            upload = jax.tree.map(lambda part: jnp.where(ended, part, 0), done.upload)
            return ended, done._replace(upload=upload), jax.tree.map(jnp.ravel, now)

        jobs, lanes = queue.jobs[0], queue.jobs.shape[-1]
        wave = jax.vmap(one, in_axes=(0, None)) if lanes > 1 else _alone(one)
        bounds = [part[0] for part in (queue.first, queue.until) if part.size]
        accumulate, places = (add_rows, queue.slots[0]) if lanes <= FEW else (add_wave, queue.lanes[0])

        def run_wave(index: Number, now: tuple[WorkerResult, Tree]) -> tuple[WorkerResult, Tree]:
            found, aside = now
            job = jax.lax.dynamic_index_in_dim(jobs, index, keepdims=False)
            most = job_row(cards, job[0])[0].steps if longest is None else longest  # the longest comes first
            piece = (*(part[index] for part in bounds), aside) if bounds else ()
            used, share, done, aside = wave(job, most, *piece)
            # lanes of unused places write to one place past the end, which is dropped
            place = jnp.where(used, job, jobs_)

            def put(whole: jax.Array, part: jax.Array) -> jax.Array:
                return whole.at[place].set(part, mode="drop")

            total, uploads = found.total, found.uploads
            if not method.needs_all_uploads:
                total = accumulate(total, done.upload, share, places[index])
            else:
                uploads = Upload(*map(put, uploads, done.upload))
            found = WorkerResult(
                total,
                uploads,
                put(found.clients, done.client),
                put(found.memories, done.memory),
                put(found.readings, done.reading),
                put(found.deltas, done.upload.delta) if kept.deltas else found.deltas,
            )
            return found, jax.tree.map(lambda part: part[0], aside)

        count = queue.waves[0] if longest is None or len(jobs) > 1 else 1
        return jax.lax.fori_loop(0, count, run_wave, carry)

    def once(
        state: State, fixed: DeviceRows, cards: JobTable, mix: jax.Array, queue: Queue, *before: Tree
    ) -> Tree:
        """All waves inside a loop that goes round once.

        What stands outside of any loop XLA's CPU runtime hands to a pool of threads wherever it can, and they
        compete with the workers for the cores: 1.15 (job A of benchmarks/) to 1.3 times the time (B).
        """
        if before:
            carry = jax.tree.map(lambda part: part[0], before)
        else:
            zeros = _zeros(state, len(mix), kept, method, layout, slots)
            carry = jax.lax.pcast(zeros, devices.AXIS, to="varying"), ()
        # at most one, which the compiler does not know, or it would drop the loop
        times = jnp.minimum(queue.waves[0], 1) if longest is None else 1
        carry = jax.lax.fori_loop(
            0, times, lambda _, carry: waves(state, fixed, cards, mix, queue, carry), carry
        )
        return jax.tree.map(lambda part: part[None], carry)

    spread = P(devices.AXIS)
    given = P(), P(), P(), P(), Queue(*[spread] * len(Queue._fields)), *[spread, spread] * further
    return devices.sharded(once, mesh, given, spread)


def _alone(one: Program) -> Program:
    """A wave of a single job without vmap: its loop ends by itself, with no lane to mask."""

    def wave(jobs: jax.Array, longest: jax.Array, *piece: Tree) -> Tree:
        return jax.tree.map(lambda leaf: leaf[None], one(jobs[0], longest, *piece))

    return wave


def _job(
    method: Method, layout: ModelLayout, state: State, fixed: DeviceRows, told: JobIntegers, *rest: Array
) -> ClientJob:
    """All that a client is handed, by its card."""
    sizes, everyone = layout.lengths, state.client.shape[0] * state.client.shape[1]
    clients, memories = (part.reshape(everyone, part.shape[2]) for part in (state.client, state.memory))
    trial, mine = told.trial, told.who
    begin = StartVectors(
        state.anchor[trial],
        method.sent_state(layout.opened(state.server[trial], sizes.server), state.anchor[trial]),
        layout.opened(clients[mine], sizes.client),
        layout.opened(memories[mine], sizes.memory),
        state.step[trial],
    )
    return make_job(begin, (told, *rest), *fixed)


def _upload(method: Method, anchor: jax.Array, server: jax.Array, client: jax.Array) -> Upload:
    return method.arithmetic.report(anchor, anchor, 1, 1.0, method.sent_state(server, anchor), client)[0]


def _zeros(
    state: State, jobs: int, kept: KeepFlags, method: Method, layout: ModelLayout, slots: int
) -> WorkerResult:
    trials, dim = state.anchor.shape
    dtype, lengths = state.anchor.dtype, layout.lengths
    vectors = (jax.ShapeDtypeStruct((size,), dtype) for size in (dim, lengths.server, lengths.client))
    one = jax.eval_shape(partial(_upload, method), *vectors)

    def uploads(count: int) -> Upload:
        return Upload(*(jnp.zeros((count, *part.shape), dtype) for part in one))

    combines = method.needs_all_uploads
    return WorkerResult(
        uploads(0 if combines else trials * slots),
        uploads(jobs if combines else 0),
        jnp.zeros((jobs, state.client.shape[2]), dtype),
        jnp.zeros((jobs, state.memory.shape[2]), dtype),
        jnp.zeros((jobs, len(Reading._fields) if kept.readings else 0), dtype),
        jnp.zeros((jobs, dim if kept.deltas else 0), dtype),
    )
