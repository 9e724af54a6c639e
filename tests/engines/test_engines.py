"""The engines against each other, against plain numpy, and against themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amsfl import methods, sampling
from amsfl.core import UserError
from amsfl.data import load, partition
from amsfl.engines import Orders, devices, losses, make, metrics, models, task
from amsfl.engines.convolution import convolve
from amsfl.engines.dense import Layer, swap_layout
from amsfl.engines.jax_engine import JaxEngine
from amsfl.engines.memory import check_fits, state_bytes
from amsfl.engines.packing import pack, pack_by_trial, width
from amsfl.engines.scores import Scores

CLIENTS, COHORT, TRIALS, BATCH = 6, 4, 2, 8


@pytest.fixture(scope="module")
def digits():
    return load("digits")


def job(data, dtype=np.float64, spec="softmax", trials=TRIALS):
    network = models.make(spec, data.x.shape[1], len(data.classes))
    parts = [partition("dirichlet:0.5", data.y, CLIENTS, seed) for seed in range(trials)]
    return task.make(data, network, parts, tuple(range(trials)), dtype)


def orders(number: int, job_: task.Task, stopped: int | None = None) -> Orders:
    """Random cohorts and steps, the first trial corrects drift; from round 6 on, `stopped` stands still."""
    rng = np.random.default_rng(number)
    cohort = np.stack([np.sort(rng.choice(CLIENTS, COHORT, replace=False)) for _ in job_.seeds])
    steps = rng.integers(1, 7, cohort.shape)
    if stopped is not None and number >= 6:
        steps[stopped] = 0
    weights = np.take_along_axis(job_.shards.weights, cohort, 1)
    correction = np.linspace(1, 0, len(cohort))
    return Orders(cohort, steps, np.linspace(0.2, 0.1, len(cohort)), weights, correction=correction)


def ten_rounds(engine, job_, stopped=None, keep=False):
    state, outcome = engine.start(), None
    for number in range(10):
        state, outcome = engine.round(state, orders(number, job_, stopped), number, keep)
    return state, outcome


def close(a, b, tolerance):
    a, b = np.asarray(a), np.asarray(b)
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))  # a reading that nobody could take
    a, b = np.nan_to_num(a), np.nan_to_num(b)
    scale = max(np.abs(np.asarray(a)).max(initial=0), 1e-30)
    assert np.abs(np.asarray(a) - np.asarray(b)).max(initial=0) <= tolerance * scale


@pytest.mark.parametrize("name", methods.METHODS.table)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float64, 1e-10), pytest.param(np.float32, 1e-4, marks=pytest.mark.slow)]
)
def test_engines_agree(digits, name, dtype, tolerance):
    """Ten rounds, unequal steps, partial cohorts, two trials of which one ends early; readings, too."""
    job_ = job(digits, dtype)
    method = methods.make(name)
    a, seen_a = ten_rounds(make("loop", job_, method, BATCH, readings=True), job_, stopped=1)
    b, seen_b = ten_rounds(make("jax", job_, method, BATCH, readings=True), job_, stopped=1)
    for ours, theirs in zip(a, b, strict=True):
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype == dtype
        close(ours, theirs, tolerance)
    for ours, theirs in zip(seen_a.readings, seen_b.readings, strict=True):
        # readings are differences of nearly equal gradients: they lose digits that models keep
        close(ours, theirs, 1e-9 if dtype == np.float64 else 2e-3)


def test_the_mean_gradient_is_that_of_the_clients(digits):
    """AMSFL's server works it out from uploads; with all clients there it is the mean of what they keep."""
    job_, method = job(digits, trials=1), methods.make("amsfl")
    engine, everybody, dim = (
        make("loop", job_, method, BATCH, readings=True),
        np.arange(CLIENTS)[None],
        job_.dim,
    )
    state = engine.start()
    for number, correction in enumerate((0.0, 0.0, 1.0, 1.0, 0.0, 1.0)):
        steps = np.random.default_rng(number).integers(1, 7, everybody.shape)
        state, _ = engine.round(
            state,
            Orders(everybody, steps, np.array([0.2]), job_.shards.weights, correction=correction),
            number,
        )
        mean = method.arithmetic.own_state(state.server[0], state.anchor[0])
        own = state.client[0, :, :dim]
        np.testing.assert_allclose(job_.shards.weights[0] @ own, mean, rtol=1e-9, atol=1e-12)
        assert np.abs(own - mean).max() > 0.01


@pytest.mark.slow
def test_engines_agree_on_the_cnn_and_without_readings(digits):
    job_ = job(digits, spec="cnn", trials=1)
    method = methods.make("scaffold")
    a, _ = ten_rounds(make("loop", job_, method, BATCH), job_)
    b, _ = ten_rounds(make("jax", job_, method, BATCH), job_)
    close(a.anchor, b.anchor, 1e-10)


@pytest.fixture(scope="module")
def in_a_loop(digits):
    """Ten rounds of FedDyn on the reference engine."""
    job_ = job(digits)
    return ten_rounds(make("loop", job_, methods.make("feddyn"), BATCH, readings=True), job_, keep=True)


@pytest.mark.parametrize("lanes", [1, 20])
@pytest.mark.parametrize("count", [1, 2])
def test_lanes_and_devices_do_not_change_the_result(digits, in_a_loop, lanes, count):
    job_ = job(digits)
    method = methods.make("feddyn")
    reference, seen = in_a_loop
    engine = JaxEngine(job_, method, BATCH, readings=True, lanes=lanes, mesh=devices.mesh(count))
    state, outcome = ten_rounds(engine, job_, keep=True)
    close(reference.anchor, state.anchor, 1e-10)
    close(reference.client, state.client, 1e-10)
    close(seen.readings.grad_sq, outcome.readings.grad_sq, 1e-9)
    close(seen.deltas, outcome.deltas, 1e-9)


def test_same_seed_same_bits(digits):
    job_ = job(digits, np.float32)
    runs = [ten_rounds(make("jax", job_, methods.make("fedavg"), BATCH), job_)[0] for _ in range(2)]
    assert np.array_equal(runs[0].anchor, runs[1].anchor)


@pytest.mark.parametrize(("lanes", "most"), [(2, 1), (None, 3)])
def test_few_compilations_whatever_the_steps(digits, lanes, most):
    """One with a width given; on a CPU's own choice one by one, wide, and narrow where jobs are odd."""
    job_ = job(digits)
    engine = JaxEngine(job_, methods.make("fedavg"), BATCH, lanes=lanes, mesh=devices.mesh(1), workers=3)
    state, rng, widths = engine.start(), np.random.default_rng(0), set()
    for number in range(12):
        plan = orders(number, job_)
        wild = plan._replace(steps=rng.geometric(0.1, plan.steps.shape)) if number % 2 else plan
        state, _ = engine.round(state, wild, number)
        widths |= {
            queue.jobs.shape[2] for each in engine._queues(engine._typed(wild).steps) for queue in each
        }
    assert engine._work[False]._cache_size() <= len(widths) <= most
    assert engine._further[False]._cache_size() <= len(widths)
    assert engine._settle._cache_size() == 1


@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_are_convolutions(stride):
    """Values and gradients against XLA's own, the kernels laid out as it wants them."""
    rng = np.random.default_rng(0)
    layer = Layer(rng.normal(size=(9 * 3, 5)), rng.normal(size=5))
    maps = rng.normal(size=(2, 7, 7, 3))

    def theirs(layer, maps):
        kernels = layer.weight.reshape(3, 3, 3, 5)
        order = ("NHWC", "HWIO", "NHWC")
        strides = (stride, stride)
        found = jax.lax.conv_general_dilated(
            maps, kernels, strides, [(1, 1), (1, 1)], dimension_numbers=order
        )
        return (jnp.sin(found + layer.bias)).sum()

    def ours(layer, maps):
        return jnp.sin(convolve(layer, maps, stride)).sum()

    for mine, other in zip(
        *(jax.tree.leaves(jax.jit(jax.value_and_grad(f, (0, 1)))(layer, maps)) for f in (ours, theirs)),
        strict=True,
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9)


def test_gradient_against_numpy_backpropagation(digits):
    """softmax(x W1 + b1 -> relu -> W2 + b2) by hand: an implementation that shares nothing with jax."""
    job_ = job(digits, spec="mlp:12", trials=1)
    flat = job_.start()[0]
    x, y = job_.x[:32], job_.y[:32]
    tree = job_.unravel(flat)
    (w1, b1), (w2, b2) = [map(np.asarray, layer) for layer in swap_layout(tree)]
    hidden = x @ w1 + b1
    active = np.maximum(hidden, 0)
    logits = active @ w2 + b2
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    error = p.copy()
    error[np.arange(32), y] -= 1
    error /= 32
    back = (error @ w2.T) * (hidden > 0)
    expected = [x.T @ back, back.sum(0), active.T @ error, error.sum(0)]
    mean = jax.jit(jax.value_and_grad(lambda t: losses.cross_entropy(job_.model.apply(t, x), y).mean()))
    loss, got = mean(tree)
    assert float(loss) == pytest.approx(-np.log(p[np.arange(32), y]).mean())
    for ours, theirs in zip(expected, jax.tree.leaves(swap_layout(got)), strict=True):
        np.testing.assert_allclose(theirs, ours, atol=1e-12)


def test_distillation_against_numpy():
    """The FedCSDA row's objective written out row by row, a class missing among the prototypes' rows."""
    rng = np.random.default_rng(0)
    features, classes, temperature, mu = 4, 3, 4.0, 0.5
    apply = lambda w, x: x @ w  # noqa: E731
    student, teacher = rng.normal(size=(2, features, classes))
    rows, labels = rng.normal(size=(20, features)), rng.integers(0, 2, 20)
    x, y = rng.normal(size=(9, features)), rng.integers(0, classes, 9)
    rule = methods.Distillation(mu, temperature, 20)

    @jax.jit
    def objective(teacher, student):
        taught = losses.teach(apply, teacher, rows, labels)
        return losses.distillation_loss(apply, losses.cross_entropy, rule, taught, student, (x, y))

    got = objective(teacher, student)

    def soft(v):
        return np.exp(v - v.max()) / np.exp(v - v.max()).sum()

    prototypes = [(rows @ teacher)[labels == c].mean(0) for c in range(2)]
    total, masked = 0.0, 0
    for row, label in zip(x, y, strict=True):
        z, target = row @ student, row @ teacher
        cosines = [z @ p / np.linalg.norm(z) / np.linalg.norm(p) for p in prototypes]
        share = np.append(soft(np.array(cosines)), 0.0)  # class 2 has no prototype
        confident = target.argmax() == label and soft(target)[label] > 1 / classes
        q, p = soft(share * target / temperature), soft(z / temperature)
        masked += confident
        plain = -np.log(soft(z)[label])
        total += (1 - mu) * plain + mu * confident * temperature**2 * (q * np.log(q / p)).sum()
    assert 0 < masked < 9
    assert float(got) == pytest.approx(total / 9)


def test_sampling_is_uniform_and_its_own_for_everyone():
    """Chi-square over 10 rows and 20,000 draws: 9 degrees of freedom, 99.9% below 27.9."""
    with np.errstate(over="ignore"):
        key = sampling.stream(*map(sampling.words, (0, 1, 2)))
        draws = np.concatenate(
            [
                sampling.draw(key, sampling.words(step), np.arange(100, dtype=np.uint32), np.int32(10))
                for step in range(200)
            ]
        )
        others = [
            sampling.stream(*map(sampling.words, k)) for k in [(1, 1, 2), (0, 2, 2), (0, 1, 3), (0, 2, 1)]
        ]
    counts = np.bincount(draws, minlength=10)
    assert len(counts) == 10 and ((counts - 2000) ** 2 / 2000).sum() < 27.9
    assert len({int(first) for first, _ in [key, *others]}) == 5


def test_sampling_never_leaves_the_rows():
    """The largest 24 bits times any count must not round up to the count."""
    with np.errstate(over="ignore"):
        for rows in (1, 3, 1000, 2**24 - 1):
            key = sampling.stream(*map(sampling.words, (5, 0, 0)))
            picked = sampling.draw(key, sampling.words(0), np.arange(50_000, dtype=np.uint32), np.int32(rows))
            assert picked.min() >= 0 and picked.max() < rows


def test_packing_follows_the_sum_of_steps():
    rng = np.random.default_rng(0)
    steps = rng.integers(1, 101, (1, 200))
    queue = pack(steps, devices=2, lanes=1)
    loads = [steps.ravel()[queue.jobs[d, : queue.waves[d], 0]].sum() for d in range(2)]
    assert sorted(queue.jobs[queue.jobs >= 0].tolist()) == list(range(200))
    assert max(loads) <= steps.sum() / 2 + 100
    wide = pack(steps, devices=1, lanes=20)
    lockstep = sum(steps.ravel()[wave].max() for wave in wide.jobs[0, : wide.waves[0]])
    assert lockstep * 20 <= 1.3 * steps.sum()


def worked(queues, steps, overhead):
    """What a worker goes through, in steps of one lane."""
    waves = [wave[wave >= 0] for queue in queues for wave in queue.jobs[0, : queue.waves[0]]]
    return sum(steps.ravel()[wave].max() * (len(wave) + overhead) for wave in waves)


@given(
    st.lists(st.lists(st.integers(0, 60), min_size=9, max_size=9), min_size=1, max_size=6),
    st.integers(1, 5),
    st.sampled_from([0.1, 0.4, 1.0]),
)
def test_a_trial_is_packed_by_its_own_plan(plans, workers, overhead):
    """Every job once; whatever the workers and the trials beside it, a trial's jobs share the same waves and
    are added up in the same order; and two workers never have more to do than one job after another."""
    steps, slots = np.array(plans), 8
    ours = pack_by_trial(steps, workers, slots, overhead, widest=7)
    done = np.concatenate([q.jobs.ravel() for queues in ours for q in queues] or [np.zeros(0, int)])
    assert sorted(done[done >= 0].tolist()) == np.flatnonzero(steps).tolist()

    def sums(packed, lengths, first, count):
        found = {}
        for queues in packed:
            for queue in queues:
                for wave, slot in zip(queue.jobs[0, : queue.waves[0]], queue.slots[0], strict=False):
                    found.setdefault(int(slot[0]), []).append([int(job) - first for job in wave])
                    assert len(set(slot.tolist())) == 1 and np.diff(lengths.ravel()[wave]).max(initial=0) <= 0
        return {slot - count: waves for slot, waves in found.items() if 0 <= slot - count < slots}

    for trial, plan in enumerate(steps):
        alone = pack_by_trial(plan[None], 1, slots, overhead, widest=7)
        assert sums(ours, steps, trial * 9, trial * slots) == sums(alone, plan, 0, 0)
    if len(steps) == 1 and workers == 2:
        single = pack_by_trial(steps, 2, slots, overhead, widest=1)
        loads = [max(worked(each, steps, overhead) for each in packed) for packed in (ours, single)]
        assert loads[0] <= loads[1] + 1e-9


@pytest.mark.parametrize("jobs", [*range(1, 40), 250])
def test_equal_jobs_have_the_best_of_all_widths(jobs):
    """Against every width, written out: one worker's waves times what a step of them costs."""
    overhead = 0.4
    found = width(jobs, overhead, 7)
    costs = {lanes: -(-jobs // lanes) * (lanes + overhead) for lanes in range(1, 8)}
    assert costs[found] == min(costs.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fedavg", "amsfl"])
def test_bits_do_not_depend_on_cores_or_other_trials(digits, name):
    """One worker and three; by itself and among two more trials; equal steps (lanes) and wild ones."""
    method, found = methods.make(name), {}
    for trials in (1, 3):
        job_ = job(digits, np.float32, trials=trials, spec="mlp:12")
        for workers in (1, 3):
            engine = JaxEngine(
                job_, method, BATCH, method.facts.readings, mesh=devices.mesh(1), workers=workers
            )
            state = engine.start()
            for number, plan in enumerate(([7] * CLIENTS, [40, 3, 9, 1, 2, 5])):
                steps = np.tile(plan, (trials, 1))
                cohort = np.tile(np.arange(CLIENTS), (trials, 1))
                plan = Orders(cohort, steps, np.full(trials, 0.1), job_.shards.weights)
                state, _ = engine.round(state, plan, number)
            loss = engine.evaluate(state.anchor, "holdout").loss
            found[trials, workers] = np.asarray(state.anchor)[0].tobytes(), float(loss[0])
    assert len(set(found.values())) == 1, {key: hash(value) for key, value in found.items()}


@pytest.mark.parametrize("lanes", [None, 1, 20])
def test_a_diverging_trial_does_not_change_others(digits, lanes):
    """On every path by which uploads are added up: the others are as they are without it."""
    job_, method = job(digits, np.float32, trials=3, spec="softmax"), methods.make("fedavg")
    cohort, steps = np.tile(np.arange(CLIENTS), (3, 1)), np.full((3, CLIENTS), 3)
    ends = []
    for rate in (3e38, 0.1):
        engine = JaxEngine(job_, method, BATCH, lanes=lanes, mesh=devices.mesh(1))
        state = engine.start()
        for number in range(3):
            orders_ = Orders(cohort, steps, np.array([0.1, rate, 0.1]), job_.shards.weights)
            state, _ = engine.round(state, orders_, number)
        ends.append(np.asarray(state.anchor))
    assert not np.isfinite(ends[0][1]).any() or not np.isfinite(ends[0][1]).all()
    np.testing.assert_array_equal(ends[0][[0, 2]], ends[1][[0, 2]])


def test_idle_clients_are_not_packed():
    queue = pack(np.array([[0, 3, 0]]), devices=2, lanes=2)
    assert queue.waves.tolist() == [1, 0] and queue.jobs[0, 0].tolist() == [1, -1]


def test_loop_names_client_round_and_step(digits):
    job_ = job(digits, trials=1)
    spoiled = job_._replace(x=job_.x.copy())
    mine = spoiled.shards.order[0, spoiled.shards.start[0, 2] :][: spoiled.shards.size[0, 2]]
    spoiled.x[mine] = np.nan
    engine = make("loop", spoiled, methods.make("fedavg"), BATCH)
    weights = spoiled.shards.weights[:, [1, 2]]
    with pytest.raises(UserError, match="Client 2, round 4, step 1"):
        engine.round(
            engine.start(), Orders(np.array([[1, 2]]), np.array([[1, 2]]), np.array([0.1]), weights), 3
        )


def test_metrics_by_hand():
    """Class 0: 3 of 4 right; class 1: 1 of 2; class 2 absent. F1: 6/(4+4) and 2/(2+2)."""
    table = np.array([[[3, 1, 0], [1, 1, 0], [0, 0, 0]]])
    found = metrics(Scores(np.array([0.5]), table))[0]
    assert found["accuracy"] == pytest.approx(4 / 6)
    assert found["recall"] == [0.75, 0.5, None]
    assert found["macro_f1"] == pytest.approx((0.75 + 0.5) / 2)


@pytest.mark.parametrize("engine", ["loop", "jax"])
def test_evaluation_against_numpy(digits, engine):
    job_ = job(digits)
    scores = make(engine, job_, methods.make("fedavg"), BATCH).evaluate(job_.start(), "holdout")
    x, y = job_.evals["holdout"]
    for index, flat in enumerate(job_.start()):
        weight, bias = swap_layout(job_.unravel(flat))[0]
        logits = x @ np.asarray(weight) + np.asarray(bias)
        likely = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        assert scores.loss[index] == pytest.approx(-likely[np.arange(len(y)), y].mean())
        assert metrics(scores)[index]["accuracy"] == pytest.approx((logits.argmax(1) == y).mean())
        assert scores.confusion[index].sum() == len(y)


def test_client_state_that_does_not_fit_is_an_error(digits, monkeypatch):
    job_ = job(digits)
    need = state_bytes(job_, methods.make("scaffold"))
    assert need == TRIALS * CLIENTS * job_.dim * 8
    assert state_bytes(job_, methods.make("fedavg")) == 0
    monkeypatch.setattr("amsfl.engines.memory.available_bytes", lambda: need)
    check_fits(job_, methods.make("fedavg"))
    with pytest.raises(UserError, match=r"650 numbers for each of 6 clients.*method without state"):
        check_fits(job_, methods.make("scaffold"))


def test_model_names_and_their_errors():
    with pytest.raises(UserError, match="did you mean 'softmax'"):
        models.make("softmx", 4, 2)
    with pytest.raises(UserError, match="square images"):
        models.make("cnn", 122, 5)
    with pytest.raises(UserError, match="joined by '-'"):
        models.make("mlp:64,32", 4, 2)
    network = models.make("mlp", 122, 5)
    leaves = jax.tree.leaves(jax.eval_shape(network.init, jax.random.key(0)))
    assert sum(leaf.size for leaf in leaves) == 10_117


def test_users_own_functions_are_a_model(digits):
    """Any init and apply, no equinox in sight."""
    network = models.Model(
        "mine", lambda key: {"w": jax.random.normal(key, (64, 10)) * 0.01}, lambda p, x: x @ p["w"]
    )
    parts = [partition("iid", digits.y, CLIENTS, 0)]
    job_ = task.make(digits, network, parts, (0,), np.float64)
    a, _ = ten_rounds(make("loop", job_, methods.make("fedavg"), BATCH), job_)
    b, _ = ten_rounds(make("jax", job_, methods.make("fedavg"), BATCH), job_)
    close(a.anchor, b.anchor, 1e-10)


def test_an_equinox_module_is_a_model(digits):
    """The same arithmetic as the softmax model, so the same round from the same start."""
    eqx = pytest.importorskip("equinox")

    class Linear(eqx.Module):
        weight: jax.Array
        bias: jax.Array
        name: str = eqx.field(static=True)

        def __call__(self, x):
            return x @ self.weight.T + self.bias

    plain = models.make("softmax", 64, 10)
    module = models.from_module("mine", lambda key: Linear(*plain.init(key)[0], "static"))
    parts = [partition("iid", digits.y, CLIENTS, 0)]
    tasks = [task.make(digits, network, parts, (0,), np.float64) for network in (plain, module)]
    a, b = (ten_rounds(make("jax", job_, methods.make("fedavg"), BATCH), job_)[0] for job_ in tasks)
    close(a.anchor, b.anchor, 1e-10)


@pytest.mark.parametrize("sizes", [(6, 4), (6, 5, 3, 4)])
def test_dense_gradients_against_plain_products(sizes):
    """Layers as they are stored, against x @ W + b differentiated by jax, several networks at once too."""
    network, rng = models.mlp("mlp", sizes), np.random.default_rng(0)
    x, d = rng.normal(size=(7, 6)), rng.normal(size=(7, 4))
    trees = [network.init(jax.random.key(seed)) for seed in range(3)]

    def plain(layers, x):
        for weight, bias in layers[:-1]:
            x = jax.nn.relu(x @ weight + bias)
        return x @ layers[-1][0] + layers[-1][1]

    def slopes(apply):
        return jax.jit(jax.grad(lambda layers, x: (apply(layers, x) * d).sum(), argnums=(0, 1)))

    ours_of, theirs_of = slopes(network.apply), slopes(plain)
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *trees)
    together = jax.jit(jax.vmap(ours_of, in_axes=(0, None)))(stacked, x)
    for index, tree in enumerate(trees):
        expected, back = theirs_of(swap_layout(tree), x)
        among = jax.tree.map(lambda leaf: np.asarray(leaf)[index], together)  # noqa: B023
        for found in (ours_of(tree, x), among):
            close(found[1], back, 1e-5)
            for ours, theirs in zip(swap_layout(found[0]), expected, strict=True):
                close(ours.weight, theirs.weight, 1e-5)
                close(ours.bias, theirs.bias, 1e-5)


def test_rows_are_held_once(digits):
    """A CPU's jax takes the task's own memory; a copy would double what the data need."""
    engine = JaxEngine(job(digits), methods.make("fedavg"), BATCH, mesh=devices.mesh(1))
    (part,) = engine.rows.x.addressable_shards
    assert part.data.unsafe_buffer_pointer() == engine.task.x.ctypes.data


def test_one_held_back_row_says_nothing_of_a_dead_network():
    """Its outputs differ from no other's: clients of two rows, who hold back one, were begun again for it."""
    outputs, y = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 0.0]]), np.array([0, 1, 0])

    found = jax.jit(lambda here: losses.held_loss_and_spread(losses.cross_entropy, outputs, y, here)[1])

    def spread(*here):
        return float(found(np.array(here, bool)))

    assert spread(1, 1, 0) == 0 < spread(1, 0, 1) and np.isnan([spread(1, 0, 0), spread(0, 0, 0)]).all()
