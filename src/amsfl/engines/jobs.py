"""What a job needs besides vectors, as numbers in tables, and the rows that its minibatches hold."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from amsfl import sampling
from amsfl.core import Upload
from amsfl.core.records import Array, Number
from amsfl.engines.contract import Work
from amsfl.engines.task import Task


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
        def joined(parts: list[Array]) -> Array:
            return parts[0] if len(parts) == 1 else np.concatenate(parts)

        trial = np.repeat([work.trial for work in asked], [len(work.client) for work in asked])
        who, steps, lr, number, begin = (
            joined([getattr(work, name) for work in asked])
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
