"""The job table: what every job needs besides vectors, one row of integers and one of floats; a job of it.

The host makes the table in plain numpy, and a compiled wave takes its jobs' rows in one piece: looked up on
the device, number by number, it made a third of a program's code.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from amsfl import sampling
from amsfl.core import Upload
from amsfl.core.records import Array, Number
from amsfl.engines.contract import JobStarts
from amsfl.engines.packing import of_last
from amsfl.engines.task import Task

ROUNDS = 32  # rounds whose streams are drawn at once,
DRAWN_AT_MOST = 2**20  # if they are not more words than that
SURELY = "promise_in_bounds"  # of places that cannot lie outside: nothing is compiled to check them


class JobIntegers(NamedTuple):
    """The columns of `JobTable.integers`."""

    trial: Array
    who: Array  # among all trials' clients
    start: Array  # of its rows
    size: Array
    held: Array  # rows that it holds back
    steps: Array
    number: Array  # the server's moves so far
    key: Array  # two words, of its minibatches
    other: Array


class JobFloats(NamedTuple):
    """The columns of `JobTable.floats`."""

    lr: Array
    noise: Array  # of a private step


class JobTable(NamedTuple):
    """[jobs, columns] each; a job's number is trial x cohort + place."""

    integers: Array  # int32; words are bits as they are
    floats: Array
    chance: Array  # uint32: by which rows are in a private minibatch (sampling.digits); else no columns


class DeviceRows(NamedTuple):
    """What never changes in a run, on every device once: the rows, and all trials' numbers of them."""

    x: Array
    y: Array
    order: Array  # a slice of one trial would be copied for every job


class ClientJob(NamedTuple):
    """All that one client's round depends on, inside a compiled program."""

    start: JobStarts
    integers: JobIntegers
    floats: JobFloats
    chance: Array
    rows: DeviceRows

    @property
    def key(self) -> tuple[Array, Array]:
        return self.integers.key, self.integers.other


class ClientResult(NamedTuple):
    upload: Upload
    client: jax.Array
    memory: jax.Array
    reading: jax.Array  # the fields of a Reading as one vector (one write, not nine); empty when not taken


def job_row(table: JobTable, job: Array) -> tuple[JobIntegers, JobFloats, Array]:
    """A job's row, inside a compiled program; of no job (-1) one of 0 steps."""
    row, floats, chance = (part.at[jnp.maximum(job, 0)].get(mode=SURELY) for part in table)
    integers = JobIntegers(*row)
    steps = jnp.where(job >= 0, integers.steps, 0)
    key, other = integers.key.astype(jnp.uint32), integers.other.astype(jnp.uint32)
    return integers._replace(steps=steps, key=key, other=other), JobFloats(*floats), chance


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


class Streams:
    """Every client's two key words by round; where the same clients come again, of many rounds at once.

    Numpy takes as long for five words as for a hundred, and every round of short ones waits for its own.
    """

    def __init__(self, seeds: Array):
        self._seeds = seeds
        self._of: tuple[bytes, bytes] | None = None
        self._first, self._keys = 0, np.zeros((2, 0), np.uint32)

    def __call__(self, who: Array, trial: Array, number: Array) -> Array:
        """[2, *who's shape]"""
        if np.ndim(number):  # each of its own round
            return self._drawn(who, trial, sampling.words(number))
        of = who.tobytes(), trial.tobytes()
        nth = int(number) - self._first
        if of != self._of or not 0 <= nth < self._keys.shape[1]:
            many = min(ROUNDS, max(1, DRAWN_AT_MOST // max(1, who.size))) if of == self._of else 1
            rounds = sampling.words(int(number) + np.arange(many)).reshape(-1, *[1] * who.ndim)
            self._of, self._first, self._keys, nth = of, int(number), self._drawn(who, trial, rounds), 0
        return self._keys[:, nth]

    def _drawn(self, who: Array, trial: Array, rounds: Array) -> Array:
        with np.errstate(over="ignore"):  # hashes do
            return np.stack(sampling.stream(self._seeds[trial], rounds, sampling.words(who)))


def job_tables(task: Task, batch: int, private: bool = False) -> Callable[..., JobTable]:
    """make(who [trials, cohort], steps, lr [trials, 1 or cohort], number) -> JobTable.

    With `trial`, of jobs [jobs] of any trials.
    """
    shards, streams = task.shards, Streams(sampling.words(task.seeds))
    trials, clients = shards.size.shape
    chances = sampling.digits(batch, shards.size)
    chances = chances.reshape(trials * clients, -1)[:, : None if private else 0]
    noise = np.zeros(shards.size.shape) if task.noise is None else task.noise
    noise = noise.astype(task.dtype).ravel()
    everybody = np.arange(trials * clients)
    # what never changes, in one table: every round of short ones waits for its table
    mine = shards.start.ravel(), shards.size.ravel(), shards.held.ravel()
    fixed = np.stack([everybody // clients, everybody, *mine], 1)
    fixed = fixed.astype(np.int32)

    def make(who: Array, steps: Array, lr: Array, number: Array, trial: Array | None = None) -> JobTable:
        if trial is None:
            trial = np.arange(len(who), dtype=np.int32)[:, None]
        table = blank(who, steps, trial, lr)
        integers = table.integers.copy()  # a program may still use the last one
        integers[:, 6] = np.broadcast_to(number, who.shape).ravel()
        integers[:, 7:] = streams(who, trial, number).reshape(2, -1).T.view(np.int32)
        return table._replace(integers=integers)

    @of_last
    def blank(who: Array, steps: Array, trial: Array, lr: Array) -> JobTable:
        """The table of a plan, but for its streams."""
        mine = (trial * clients + who).ravel()
        integers = np.empty((len(mine), len(JobIntegers._fields)), np.int32)
        integers[:, :5], integers[:, 5] = fixed[mine], steps.ravel()
        floats = np.empty((len(mine), len(JobFloats._fields)), task.dtype)
        floats[:, 0] = np.broadcast_to(lr, who.shape).ravel()
        floats[:, -1] = noise[mine]
        return JobTable(integers, floats, chances[mine])

    return make
