"""More than one device and more than one process, memory that follows the lanes, and cheap packing.

Run as a script, this file is one of the processes that the tests start.
"""

import sys

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joined import found_by

import amsfl
from amsfl import methods
from amsfl.core import UserError
from amsfl.data import Dataset
from amsfl.engines import Orders, devices, models, task
from amsfl.engines.jax_engine import JaxEngine
from amsfl.engines.memory import check_fits, copies, needed_bytes, state_bytes
from amsfl.engines.packing import pack

CLIENTS, COHORT, BATCH, ROUNDS, LIMIT = 12, 7, 8, 4, 120
SLOW = pytest.mark.slow


def rows_of(count: int) -> Dataset:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, count).astype(np.int32)
    x = (rng.normal(size=(count, 6)) + y[:, None]).astype(np.float32)
    return Dataset("rows", x, y, {"holdout": (x[:50], y[:50])}, tuple("abc"), tuple("uvwxyz"))


def job_of(clients: int, spec: str = "mlp:5", dtype: type = np.float64, each: int = 10) -> task.Task:
    data = rows_of(clients * each)
    network = models.make(spec, 6, 3)
    return task.make(data, network, [np.arange(clients * each).reshape(clients, each)], (0,), dtype)


def orders_of(job: task.Task, number: int) -> Orders:
    """Unequal steps, 1 to 9."""
    rng = np.random.default_rng(number)
    cohort = np.sort(rng.choice(CLIENTS, COHORT, replace=False))[None]
    steps = rng.integers(1, 10, cohort.shape)
    return Orders(cohort, steps, np.array([0.2]), np.take_along_axis(job.shards.weights, cohort, 1))


def train(name: str, mesh: jax.sharding.Mesh | None = None) -> dict[str, np.ndarray]:
    """A few rounds, then an evaluation of two models and the last readings."""
    job = job_of(CLIENTS)
    engine = JaxEngine(job, methods.make(name), BATCH, readings=True, mesh=mesh)
    state = engine.start()
    for number in range(ROUNDS):
        state, outcome = engine.round(state, orders_of(job, number), number)
    scores = engine.evaluate(np.concatenate([job.start(), state.anchor]), "holdout")
    found = {**state._asdict(), **scores._asdict(), "grad_sq": outcome.readings.grad_sq}
    return {f"{name}/{key}": np.asarray(value) for key, value in found.items() if value is not None}


def run_whole() -> dict[str, np.ndarray]:
    """The round, its planning and its evaluations from above: amsfl.run."""
    result = amsfl.run(
        dataset=rows_of(200), model="softmax", rounds=3, precision="float64", local_accuracy=True
    )
    local = result.summary.local_accuracy["holdout"]
    return {"run/params": result.params, "run/accuracy": np.array([result.accuracy, *local])}


def work(rank: int, port: int, out: str, processes: int) -> None:
    if processes > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", processes, rank, initialization_timeout=60)
    found = train("scaffold") | run_whole()
    shape = np.array([len(jax.devices()), jax.process_count()])
    np.savez(out, shape=shape, **found)


@pytest.fixture(scope="module")
def alone() -> dict[str, np.ndarray]:
    """The same on one device of one process."""
    one = devices.mesh(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(devices, "mesh", lambda parts=1: one)
        return train("scaffold", one) | run_whole()


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "each"), [(1, 4), (2, 2)])
def test_devices_and_processes_do_not_change_the_result(tmp_path, alone, processes, each):
    cache = str(tmp_path / "jax")
    for found in found_by(
        __file__, tmp_path, processes, LIMIT, str(processes), devices=each, JAX_COMPILATION_CACHE_DIR=cache
    ):
        assert found.pop("shape").tolist() == [processes * each, processes]
        assert found.keys() == alone.keys()
        for key, value in alone.items():
            np.testing.assert_allclose(found[key], value, rtol=1e-9, atol=1e-12, err_msg=key)


def memory_of(name: str, cohort: int, lanes: int = 3, workers: int = 1) -> tuple[task.Task, list[object]]:
    """What XLA says that a round's two programs need on each of two devices."""
    job = job_of(128, spec="mlp:200-20", dtype=np.float32, each=2)
    engine = JaxEngine(job, methods.make(name), 4, readings=True, lanes=lanes, mesh=devices.mesh(2))
    steps = np.ones((1, cohort), np.int32)
    orders = Orders(
        np.arange(cohort, dtype=np.int32)[None],
        steps,
        np.ones(1, np.float32),
        np.full((1, cohort), 1 / cohort, np.float32),
        np.ones(1, np.float32),
    )
    state, work = engine.start(), engine._work[False]
    given = engine._table(orders, 0), engine._share(orders.weights, orders.steps), pack(steps, 2, lanes)
    arguments = engine.numbers, state, engine.rows, *given
    shapes = jax.eval_shape(work, *arguments)
    found = jax.tree.map(lambda leaf: np.zeros((1, *leaf.shape[1:]), leaf.dtype), shapes)
    programs = (
        work.lower(*arguments),
        engine._settle.lower(engine.numbers, state, orders, [found] * workers, np.uint32(0), engine._seeds),
    )
    return job, [program.compile().memory_analysis() for program in programs]


@pytest.mark.slow
def test_memory_without_client_state_follows_the_lanes():
    """Sixteen times the cohort adds a few scalars a client (readings, queue), and no vector."""
    name = "fedsps"
    assert state_bytes(job_of(4), methods.make(name)) == 0
    job, small = memory_of(name, 8)
    _, large = memory_of(name, 128)
    model = 4 * job.dim
    for few, many in zip(small, large, strict=True):
        grown = many.temp_size_in_bytes - few.temp_size_in_bytes
        assert grown <= 120 * 200 < 120 * model / 20
        assert many.output_size_in_bytes - few.output_size_in_bytes <= 120 * 200
    _, wide = memory_of(name, 128, lanes=12)
    assert wide[0].temp_size_in_bytes - large[0].temp_size_in_bytes >= 9 * model


@pytest.mark.parametrize(("name", "workers"), [("scaffold", 1), pytest.param("feddyn", 3, marks=SLOW)])
@pytest.mark.slow
def test_memory_with_client_state_is_what_the_check_says(name, workers):
    """The state is updated in place; the cohort's part is there once with every worker and once summed."""
    cohort, lanes = 64, 3
    job, (work, settle) = memory_of(name, cohort, lanes, workers)
    model = 4 * job.dim
    everyone = 128 * model
    assert settle.alias_size_in_bytes >= everyone
    said = needed_bytes(job, methods.make(name), cohort=cohort, workers=workers)
    assert said == everyone + (workers + 1) * cohort * model
    at_the_end = settle.argument_size_in_bytes + settle.temp_size_in_bytes
    unsummed = cohort * model if workers == 1 else 0  # one worker's part is taken as it is
    assert said - unsummed <= at_the_end <= said + 5 * (workers + 1) * model  # and what is not client state
    # while they work, the lanes' own arrays are there as well, which a cohort of nobody would need, too
    beside = memory_of(name, 1, lanes)[1][0].temp_size_in_bytes
    each = work.output_size_in_bytes + work.temp_size_in_bytes
    assert work.argument_size_in_bytes + workers * each <= said + workers * (beside + 5 * model)


def test_the_memory_check_is_exact(monkeypatch):
    job, method = job_of(1000, spec="mlp:300"), methods.make("scaffold")
    need = needed_bytes(job, method, held=2, cohort=50)
    assert need == 2 * (1000 + 2 * 50) * job.dim * 8
    monkeypatch.setattr("amsfl.engines.memory.available_bytes", lambda: need)
    check_fits(job, method, 2, 50)
    monkeypatch.setattr("amsfl.engines.memory.available_bytes", lambda: need - 1)
    said = rf"'scaffold' .* {job.dim:,} numbers for each of 1,000 clients: {need / 2**30:.1f} GiB"
    with pytest.raises(UserError, match=said):
        check_fits(job, method, 2, 50)
    with pytest.raises(UserError, match=said):  # and an engine says so before it does anything
        JaxEngine(job, method, BATCH, mesh=devices.mesh(2), cohort=50)
    assert copies(devices.mesh(2)) == 2


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(1, 5), st.sampled_from([1, 2, 3, 16])
)
def test_packing_is_list_scheduling(steps, count, lanes):
    """Every job with steps once; each wave to the device that has least, written as a plain loop."""
    queue = pack(np.array([steps]), count, lanes)
    longest_first = sorted((i for i, t in enumerate(steps) if t), key=lambda i: -steps[i])
    expected: list[list[list[int]]] = [[] for _ in range(count)]
    load = [0] * count
    for begin in range(0, len(longest_first), lanes):
        wave = longest_first[begin : begin + lanes]
        device = load.index(min(load))
        expected[device].append(wave)
        load[device] += steps[wave[0]]
    for device in range(count):
        used = queue.jobs[device, : queue.waves[device]]
        assert [[job for job in wave if job >= 0] for wave in used.tolist()] == expected[device]
        assert (queue.jobs[device, queue.waves[device] :] == -1).all()


if __name__ == "__main__":
    work(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
