"""The compiled program of a round's local work; settle_program.py has what ends the round."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from amsfl import protocol
from amsfl.core import Reading, Upload
from amsfl.core.records import Array, Number, Tree
from amsfl.engines import devices
from amsfl.engines.contract import JobStarts, State
from amsfl.engines.devices import Program
from amsfl.engines.job_table import ClientJob, ClientResult, DeviceRows, JobTable, job_row
from amsfl.engines.layout import ModelLayout
from amsfl.engines.numbers import with_numbers
from amsfl.engines.packing import FEW, Queue
from amsfl.methods import Method

EARLIER = 6  # which of the arguments of `work` is an earlier result


class ProgramParts(NamedTuple):
    """What the programs of a run are compiled from."""

    mesh: Mesh
    method: Method
    layout: ModelLayout
    client: Callable[[Method], Program]  # a client's round by a method: (job, longest) -> ClientResult
    slots: int  # sums of a trial
    light: bool  # whether a step is calls more than arithmetic
    readings: bool  # whether they are taken


class WorkerResult(NamedTuple):
    """What one worker computed: sums by trial, and of every job (zeros for those of others) what is kept."""

    total: Upload  # [trials x slots, ...]; empty for a method whose uploads are combined, not summed
    uploads: Upload  # [jobs, ...]; empty for a method that stacks none
    clients: jax.Array
    memories: jax.Array
    readings: jax.Array
    deltas: jax.Array


def with_parts(name: str, parts: ProgramParts, build: Callable[[ProgramParts], Program]) -> Program:
    """program(numbers, *arguments), as `with_numbers` makes it, of parts whose method has these numbers."""
    return with_numbers(name, parts.method, lambda method: build(parts._replace(method=method)))


def work(parts: ProgramParts, keep: bool, further: bool = False) -> Program:
    """jit of one worker's local work: every device runs its waves -> a WorkerResult, [devices, ...].

    `settle` sums what workers and devices computed. With `keep` every client's delta comes back, too. With
    `further` the last argument is an earlier result, which is then gone.
    """
    whole = with_parts("work", parts, partial(work_body, keep=keep, further=further))
    return devices.jit(whole, parts.mesh, parts.light, donate_argnums=EARLIER if further else ())


def empty_result(parts: ProgramParts, keep: bool) -> Program:
    """jit of the result of a worker that has nothing to do: zeros."""

    def build(own: ProgramParts) -> Program:
        def body(state: State, rows: DeviceRows, table: JobTable, mix: jax.Array) -> Tree:
            return jax.tree.map(lambda part: part[None], _zeros(own, state, len(mix), keep))

        return body

    placed = NamedSharding(parts.mesh, P(devices.AXIS))
    return devices.jit_small(with_parts("empty_result", parts, build), parts.mesh, out_shardings=placed)


def work_body(parts: ProgramParts, keep: bool, further: bool = False) -> Program:
    """`work` before it is compiled."""
    method, layout = parts.method, parts.layout
    client = parts.client(method)

    def waves(
        state: State, rows: DeviceRows, table: JobTable, mix: jax.Array, queue: Queue, before: WorkerResult
    ) -> Tree:
        trials, jobs_ = len(state.anchor), len(mix)
        # taken from a single row, a model would be fused with its local work, which then rounds differently
        times = 2 if trials == 1 else 1
        anchors, servers = (jnp.concatenate([part] * times) for part in (state.anchor, state.server))
        doubled = state._replace(anchor=anchors, server=servers)

        def one(job: jax.Array, longest: Number) -> tuple[Array, Array, ClientResult]:
            used, place = job >= 0, jnp.maximum(job, 0)
            own = job_row(table, job)
            start = _start(parts, doubled, own[0].trial, own[0].who)
            done = client(ClientJob(start, *own, rows), longest)
            done = done._replace(client=layout.folded(done.client), memory=layout.folded(done.memory))
            return used, jnp.where(used, mix[place], 0), done

        jobs, lanes = queue.jobs[0], queue.jobs.shape[-1]
        wave = jax.vmap(one, in_axes=(0, None)) if lanes > 1 else _alone(one)
        accumulate, places = (_add_rows, queue.slots[0]) if lanes <= FEW else (_add_wave, queue.lanes[0])

        def run_wave(index: Number, result: WorkerResult) -> WorkerResult:
            job = jax.lax.dynamic_index_in_dim(jobs, index, keepdims=False)
            most = job_row(table, job[0])[0].steps  # the longest comes first
            used, share, done = wave(job, most)
            # lanes of unused places write to one place past the end, which is dropped
            place = jnp.where(used, job, jobs_)

            def put(whole: jax.Array, part: jax.Array) -> jax.Array:
                return whole.at[place].set(part, mode="drop")

            total, uploads = result.total, result.uploads
            if not protocol.compares_uploads(method):
                total = accumulate(total, done.upload, share, places[index])
            else:
                uploads = Upload(*map(put, uploads, done.upload))
            return WorkerResult(
                total,
                uploads,
                put(result.clients, done.client),
                put(result.memories, done.memory),
                put(result.readings, done.reading),
                put(result.deltas, done.upload.delta) if keep else result.deltas,
            )

        return jax.lax.fori_loop(0, queue.waves[0], run_wave, before)

    def once(
        state: State, rows: DeviceRows, table: JobTable, mix: jax.Array, queue: Queue, *before: WorkerResult
    ) -> Tree:
        """All waves inside a loop that runs once.

        What stands outside of any loop XLA's CPU runtime hands to a pool of threads wherever it can, and they
        compete with the workers for the cores: 1.15 (job A of benchmarks/) to 1.3 times the time (B).
        """
        if before:
            result = jax.tree.map(lambda part: part[0], before[0])
        else:
            result = jax.lax.pcast(_zeros(parts, state, len(mix), keep), devices.AXIS, to="varying")
        # at most one, which the compiler does not know, or it would drop the loop
        times = jnp.minimum(queue.waves[0], 1)
        run = partial(waves, state, rows, table, mix, queue)
        result = jax.lax.fori_loop(0, times, lambda _, result: run(result), result)
        return jax.tree.map(lambda part: part[None], result)

    spread = P(devices.AXIS)
    specs = P(), P(), P(), P(), Queue(*[spread] * len(Queue._fields)), *[spread] * further
    return devices.sharded(once, parts.mesh, specs, spread)


def _alone(one: Program) -> Program:
    """A wave of a single job without vmap: its loop ends by itself, with no lane to mask."""

    def wave(jobs: jax.Array, longest: jax.Array) -> Tree:
        return jax.tree.map(lambda leaf: leaf[None], one(jobs[0], longest))

    return wave


def _start(parts: ProgramParts, state: State, trial: Array, who: Array) -> JobStarts:
    """What a client's round begins from; `who` it is among all trials' clients."""
    layout, sizes = parts.layout, parts.layout.lengths
    everyone = state.client.shape[0] * state.client.shape[1]
    clients, memories = (part.reshape(everyone, part.shape[2]) for part in (state.client, state.memory))
    anchor, server = state.anchor[trial], layout.opened(state.server[trial], sizes.server)
    return JobStarts(
        anchor,
        protocol.sent_state(parts.method, server, anchor),
        layout.opened(clients[who], sizes.client),
        layout.opened(memories[who], sizes.memory),
        state.step[trial],
    )


def _zeros(parts: ProgramParts, state: State, jobs: int, keep: bool) -> WorkerResult:
    method = parts.method
    trials, dim = state.anchor.shape
    dtype = state.anchor.dtype
    one = jax.eval_shape(partial(protocol.empty_upload, method), jax.ShapeDtypeStruct((dim,), dtype))[0]

    def uploads(count: int) -> Upload:
        return Upload(*(jnp.zeros((count, *part.shape), dtype) for part in one))

    combines = protocol.compares_uploads(method)
    return WorkerResult(
        uploads(0 if combines else trials * parts.slots),
        uploads(jobs if combines else 0),
        jnp.zeros((jobs, state.client.shape[2]), dtype),
        jnp.zeros((jobs, state.memory.shape[2]), dtype),
        jnp.zeros((jobs, len(Reading._fields) if parts.readings else 0), dtype),
        jnp.zeros((jobs, dim if keep else 0), dtype),
    )


def _add_rows(total: Upload, sent: Upload, share: jax.Array, slot: jax.Array) -> Upload:
    """Row by row in place: with few jobs at a time, touching all trials would cost more than the jobs.

    A CPU's is a loop: written out for every lane it was a tenth of the compiling.
    """

    def one(lane: Number, total: Upload) -> Upload:
        def added(old: jax.Array, new: jax.Array) -> jax.Array:
            row = jax.lax.dynamic_index_in_dim(old, slot[lane], keepdims=False)
            fresh: jax.Array = jax.lax.dynamic_update_index_in_dim(
                old, row + share[lane] * new[lane], slot[lane], 0
            )
            return fresh

        return Upload(*map(added, total, sent))

    written_out = jax.default_backend() != "cpu"
    sums: Upload = jax.lax.fori_loop(0, len(share), one, total, unroll=written_out)
    return sums


def _add_wave(total: Upload, sent: Upload, share: jax.Array, lanes: jax.Array) -> Upload:
    """Every sum takes its own lanes, in order; a scatter with equal indices has no order on a GPU."""
    used, lane = lanes >= 0, jnp.maximum(lanes, 0)

    def summed(old: jax.Array, new: jax.Array) -> jax.Array:
        wide = (..., *[None] * (new.ndim - 1))
        return old + jnp.where(used[wide], share[lane][wide] * new[lane], 0).sum(1)

    return Upload(*map(summed, total, sent))
