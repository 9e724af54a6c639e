"""A client's steps as one kernel: what it computes, by jax's interpreter, and that a GPU can have it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from amsfl import methods, protocol
from amsfl.data import load, partition
from amsfl.engines import client_program, devices, kernel, losses, models, task
from amsfl.engines.contract import JobStarts
from amsfl.engines.job_table import ClientJob, DeviceRows, JobFloats, JobIntegers
from amsfl.engines.numbers import numbers_of, with_numbers
from amsfl.methods import Arithmetic, Method
from amsfl.privacy import record_level

BATCH = 20  # neither this nor the network's sides are powers of two


def all_methods(*few: str) -> list:
    return [
        name if name in few else pytest.param(name, marks=pytest.mark.slow) for name in methods.METHODS.table
    ]


@pytest.fixture(scope="module")
def digits():
    return load("digits")


@pytest.fixture(autouse=True)
def single():
    """As runs in float32 have it."""
    with jax.enable_x64(False):
        yield


def job_of(data, spec="mlp:24-12", **options):
    parts = partition("dirichlet:0.5", data.y, 3, 0)
    network = models.make(spec, data.x.shape[1], max(len(data.classes), 1))
    return task.make(data, network, [parts], (0,), **options)


def clients(job: task.Task, method: Method, steps: list[int]) -> ClientJob:
    """Jobs side by side, from states that are not zero."""
    draw = np.random.default_rng(0).standard_normal

    def near(vector: jax.Array) -> jax.Array:
        return vector + jnp.asarray(0.02 * draw(vector.shape), jnp.float32)

    count = len(steps)
    anchor = near(jnp.asarray(job.start()[0]))
    server, own = map(near, method.arithmetic.init(anchor))
    vectors = anchor, protocol.sent_state(method, server, anchor), own, anchor[:0], near(0 * anchor)
    each = [jnp.broadcast_to(part, (count, *part.shape)) for part in vectors]
    numbers = np.arange(count, dtype=np.uint32)
    shards = job.shards
    places = (jnp.zeros(count, jnp.int32), jnp.asarray(shards.start[0]), jnp.asarray(shards.size[0]))
    rows = DeviceRows(jnp.asarray(job.x), jnp.asarray(job.y), jnp.asarray(shards.order))
    known = jnp.full(count, 0.0 if method.facts.own_rate else 1.0)
    keys = jnp.asarray(7 + numbers), jnp.asarray(numbers)
    empty = jnp.zeros((count, 0), jnp.uint32)
    floats = JobFloats(jnp.full(count, 0.1), known, 0 * known + 1, 0 * known, 0 * known)
    none = 0 * places[0]
    integers = JobIntegers(places[0], none, *places[1:], none, jnp.asarray(steps), none, *keys)
    return ClientJob(JobStarts(*each), integers, floats, empty, rows)


def lanes(job: ClientJob) -> ClientJob:
    """What vmap is told: everybody's rows are not one for each lane."""
    return jax.tree.map(lambda _: 0, job)._replace(rows=DeviceRows(None, None, None))


@pytest.mark.parametrize("name", all_methods("scaffold", "amsfl-steps", "amsfl"))  # states; readings; none
@pytest.mark.slow
def test_a_kernel_does_what_the_loop_does(digits, name):
    job, method = job_of(digits), methods.make(name)
    if not kernel.fits(job, method, BATCH):
        assert name in ("fedcsda", "amsfl")
        return
    told = clients(job, method, [1, 3, 6])
    found = []
    for kernels in (False, True):
        run = client_program.program(job, method, BATCH, method.facts.readings, kernels)
        each = jax.jit(jax.vmap(run, in_axes=(lanes(told), None, None)))
        found.append(each(told, jnp.int32(6), method.facts.own_rate))
    for ours, theirs in zip(*map(jax.tree.leaves, found), strict=True):
        scale = np.abs(theirs).max(initial=1e-3)
        np.testing.assert_allclose(ours, theirs, atol=2e-5 * scale, rtol=0)


@pytest.mark.parametrize("name", all_methods("scaffold", "delta-sgd", "amsfl-steps", "amsfl"))
def test_kernels_lower_for_a_gpu(digits, name, monkeypatch):
    """As a program for one, made here: nothing in it that its compiler has no word for."""
    job, method = job_of(digits), methods.make(name)
    if not kernel.fits(job, method, BATCH):
        assert name in ("fedcsda", "amsfl")
        return
    told = clients(job, method, [1, 3, 6])
    axes = lanes(told), None, None
    run = with_numbers(
        "run",
        method,
        lambda one: jax.vmap(client_program.program(job, one, BATCH, one.facts.readings, True), axes),
    )
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    shapes = jax.tree.map(lambda part: jax.ShapeDtypeStruct(part.shape, part.dtype), told)
    text = (
        jax.jit(run)
        .trace(numbers_of(method, job.dtype), shapes, 6, method.facts.own_rate)
        .lower(lowering_platforms=("cuda",))
        .as_text()
    )
    assert text.count("__gpu$xla.gpu.triton") == 1  # a reading's three parts share one


def test_when_kernels_are_used(digits, monkeypatch):
    fedavg, plain = methods.make("fedavg"), job_of(digits)
    assert kernel.fits(plain, fedavg, BATCH)
    assert not kernel.serves(devices.mesh(), plain, fedavg, BATCH)  # no GPU here
    assert not kernel.fits(plain, fedavg._replace(private_rows=record_level().client), BATCH)
    assert not kernel.fits(job_of(digits, "cnn:4"), fedavg, BATCH)
    assert not kernel.fits(job_of(digits, "mlp:256-128"), fedavg, BATCH)
    assert not kernel.fits(plain, fedavg, 2048)
    with jax.enable_x64(True):
        assert not kernel.fits(job_of(digits, dtype=np.float64), fedavg, BATCH)
    assert not kernel.fits(job_of(digits, loss=losses.weighted([1.0] * 10)), fedavg, BATCH)

    class Gpu:
        platform, compute_capability = "gpu", "9.0"

    class Mesh:
        shape, local_devices = {"lanes": 1, "model": 1}, (Gpu(),)

    def asked() -> tuple[bool, bool]:
        own = Method("own", Arithmetic(correct=lambda g, x, a, s, c: g))  # of somebody else's module
        return tuple(kernel.serves(Mesh(), plain, each, BATCH) for each in (fedavg, own))

    assert asked() == (True, False)
    with jax.default_matmul_precision("highest"):
        assert asked() == (False, False)
    monkeypatch.setenv("AMSFL_KERNELS", "0")
    assert asked() == (False, False)
    monkeypatch.setattr(Gpu, "compute_capability", "8.0")
    monkeypatch.delenv("AMSFL_KERNELS")
    assert asked() == (False, False)
    monkeypatch.setenv("AMSFL_KERNELS", "1")
    assert asked() == (True, True)
