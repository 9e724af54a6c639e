"""All that one client's round depends on, inside a compiled program, and what comes of it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from amsfl import sampling
from amsfl.core import Upload
from amsfl.core.records import Array, Number
from amsfl.engines.contract import JobStarts
from amsfl.engines.job_table import JobFloats, JobIntegers


class ClientRows(NamedTuple):
    """The training rows on the device, and where this client's are."""

    x: jax.Array
    y: jax.Array
    order: jax.Array  # all trials' row numbers; a slice of one trial would be copied for every job
    trial: jax.Array
    start: jax.Array
    size: jax.Array
    held: jax.Array  # rows that are held back, behind those


class ClientJob(NamedTuple):
    """All that one client's round depends on."""

    anchor: jax.Array
    server: jax.Array
    client: jax.Array
    memory: jax.Array
    direction: jax.Array
    steps: jax.Array
    lr: jax.Array
    lr_known: jax.Array
    cut: jax.Array
    correction: jax.Array
    number: jax.Array  # the server's moves so far
    key: tuple[jax.Array, jax.Array]
    rows: ClientRows
    word: jax.Array  # under privacy: a row's chance (sampling.digits), and the noise of a step
    noise: jax.Array


def make_job(
    begin: JobStarts, row: tuple[JobIntegers, JobFloats, Array], x: Array, y: Array, order: Array
) -> ClientJob:
    """A job from its vectors, its row of the job table, and everybody's rows."""
    integers, floats, chance = row
    key = integers.key.astype(jnp.uint32), integers.other.astype(jnp.uint32)
    rows = ClientRows(x, y, order, integers.trial, integers.start, integers.size, integers.held)
    rates, number = floats[:-1], integers.number.astype(floats.lr.dtype)
    return ClientJob(*begin, integers.steps, *rates, number, key, rows, chance, floats.noise)


class ClientResult(NamedTuple):
    upload: Upload
    client: jax.Array
    memory: jax.Array
    reading: jax.Array  # the fields of a Reading as one vector (one write, not nine); empty when not taken


def batch_of(
    rows: ClientRows, key: tuple[Array, Array], step: Number, size: int, shuffled: int = 0
) -> tuple[jax.Array, jax.Array]:
    places = jnp.arange(size, dtype=jnp.uint32)
    picked = sampling.draw(key, jnp.uint32(step), places, rows.size, shuffled)
    # without the barrier XLA draws a row's number again for each of its columns: 1.13 and 1.2 times the time
    row = jax.lax.optimization_barrier(rows.order[rows.trial, rows.start + picked])
    return rows.x[row], rows.y[row]


def held_rows(rows: ClientRows, most: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The rows that a client holds back, in `most` places, and which of these are its own."""
    places = jnp.arange(most)
    here = places < rows.held
    row = rows.order[rows.trial, jnp.where(here, rows.start + rows.size + places, 0)]
    return rows.x[row], rows.y[row], here
