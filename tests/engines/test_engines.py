"""The engines against each other, against plain numpy, and against themselves: same seed, same bits."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import amsfl
from amsfl import methods, sampling
from amsfl.core import Remark, UserError
from amsfl.data import partition
from amsfl.engines import client_program, losses, make, models, table_scores, task
from amsfl.engines.jax_engine import JaxEngine, cut, width
from amsfl.engines.layers import Layer, flips
from amsfl.engines.loop_engine import NumpyNetwork
from amsfl.record import read_manifest
from amsfl.simulation import make_config, run_batch
from amsfl.simulation.components import precision
from amsfl.simulation.rounds import begin, together
from amsfl.simulation.setup import assemble

CLIENTS, COHORT, TRIALS, BATCH = 6, 4, 2, 8


def job(data, dtype=np.float64, spec="softmax", trials=TRIALS):
    network = models.make(spec, data.x.shape[1], len(data.classes))
    parts = [partition("dirichlet:0.5", data.y, CLIENTS, seed) for seed in range(trials)]
    return task.make(data, network, parts, tuple(range(trials)), dtype)


def close(a, b, tolerance):
    a, b = np.asarray(a), np.asarray(b)
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))  # a reading that nobody could take
    a, b = np.nan_to_num(a), np.nan_to_num(b)
    scale = max(np.abs(np.asarray(a)).max(initial=0), 1e-30)
    assert np.abs(np.asarray(a) - np.asarray(b)).max(initial=0) <= tolerance * scale


COMMON = {"data": "digits", "model": "softmax", "batch": BATCH, "clients": CLIENTS, "cohort": COHORT}
COMMON |= {"lr": 0.2, "rounds": 5, "details": "", "profile": "wild", "clock": "makespan"}
COMMON["precision"] = "float64"


def trials(**changes):
    """Two seeds side by side, of which one ends early; unequal steps, partial cohorts, readings."""
    configs = [
        make_config(COMMON | {"policy": "speed"} | changes | {"seed": seed, "rounds": rounds})
        for seed, rounds in ((0, 5), (1, 3))
    ]
    return run_batch(configs)


def swap_layout(layers):
    """Layers with W [inputs, outputs] as a network stores them, or such a network's layers back again."""
    each = zip(layers, flips(len(layers)), strict=True)
    return tuple(Layer(weight.T if flip else weight, bias) for (weight, bias), flip in each)


FAST = ("scaffold", "amsfl")
SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=SLOW) for name in methods.METHODS.table]
)
def test_engines_agree(name):
    """Every method, on rounds that end as it wants them to."""
    changes = {"method": name} | ({"cohort": CLIENTS} if name == "fedcompass" else {})
    both = [trials(engine=engine, **changes) for engine in ("loop", "jax")]
    for one, other in zip(*both, strict=True):
        close(one.params, other.params, 1e-9)
        for ours, theirs in zip(one.rounds, other.rounds, strict=True):
            assert (ours.cohort, ours.steps) == (theirs.cohort, theirs.steps)
            for key, values in ours.readings.items():
                # readings are differences of nearly equal gradients: they lose digits that models keep
                close(np.array(values, float), np.array(theirs.readings[key], float), 1e-7)


@pytest.mark.parametrize(
    "changes",
    [
        {"client_optimizer": "momentum:0.9,decay:0.01", "epochs": 0.5, "method": "scaffold"},
        {"client_optimizer": "adamw:0.01/0.1,kept", "method": "amsfl", "cohort": 4, "rounds": 3},
        pytest.param({"model": "cnn:4", "method": "fedavg", "rounds": 2}, marks=SLOW),
        {"model": "mlp:8", "method": "scaffold", "class_weights": "balanced", "server_optimizer": "yogi:0.1"},
        {
            **{"method": "fedavg", "attack": "mimic:1,labelflip:1,colluders:1,alie:1"},
            **{"transmit": "topk:0.2", "robust": "cap:0.3,trust:1,median", "round_end": "buffer:3"},
        },
        pytest.param({"method": "amsfl", "robust": "cap:0.4,voices,trust:1,trimmed:1"}, marks=SLOW),
        pytest.param({"method": "fedavg", "epsilon": 8.0, "policy": "fixed"}, marks=SLOW),
        pytest.param({"method": "scaffold", "noise": 3.0, "partition": "quantity:0.1"}, marks=SLOW),
        pytest.param({"method": "amsfl", "noise": 3.0, "partition": "quantity:0.1"}, marks=SLOW),
    ],
)
def test_engines_agree_on_what_is_put_around_a_method(changes):
    one, other = (amsfl.run(**COMMON | changes, engine=engine) for engine in ("loop", "jax"))
    close(one.params, other.params, 1e-9)


def ends(configs, lanes=None, engine=None, **options):
    """Every trial's model at its end, and the jax engine: this one, or made with these options."""
    setup = assemble(configs)
    make_one = partial(JaxEngine, setup.task, setup.federation, BATCH, setup.policy.readings, COHORT)
    engine = engine or make_one(**options)
    if lanes:
        engine.cpu, engine.lanes = False, lanes  # as on a GPU: trials share waves
    with precision(configs[0]):
        running = begin(setup._replace(engine=engine))
        for _ in together(setup._replace(engine=engine), running):
            pass
    return [trial.anchor for trial in running], engine


@pytest.mark.usefixtures("optimized")
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"method": "amsfl"}, marks=SLOW),
        {"method": "amsfl", "cohort": 5},
        pytest.param({"method": "fedbuff", "policy": "speed"}, marks=SLOW),
    ],
)
def test_bits_do_not_depend_on_cores_or_other_trials(changes):
    """By itself on one worker, and among two more trials on three; a wave that is not full. Two programs at
    most (for the usual cohort, and one by one where steps are too unequal), four where models have ages."""
    configs = [make_config(COMMON | changes | {"precision": "float32", "seed": seed}) for seed in range(3)]
    (alone, engine), (among, _) = (ends(configs[:count], workers=count) for count in (1, 3))
    assert alone[0].tobytes() == among[0].tobytes()
    assert len(engine._compiled) <= (4 if changes["method"] == "fedbuff" else 2)


def test_waves_over_several_trials_come_to_the_same():
    configs = [make_config(COMMON | {"method": "scaffold", "seed": seed}) for seed in range(3)]
    for one, other in zip(*(ends(configs, lanes=lanes)[0] for lanes in (None, 5)), strict=True):
        close(one, other, 1e-9)


def test_a_diverging_trial_does_not_change_others():
    """Nor does what is added up beside it, in one wave with it."""
    settings = COMMON | {"method": "fedavg", "precision": "float32"}
    configs = [make_config(settings | {"seed": seed}) for seed in range(3)]
    wild = [*configs]
    wild[1] = wild[1].model_copy(update={"lr": 3e38})
    calm, engine = ends(configs, lanes=16)
    beside, _ = ends(wild, engine=engine)
    np.testing.assert_array_equal([calm[0], calm[2]], [beside[0], beside[2]])
    assert not np.isfinite(beside[1]).all()


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(1, 7), st.sampled_from([0.1, 0.4, 1])
)
def test_waves_of_a_trial(plan, lanes, overhead):
    """Every job once, neighbours in length, the longest first; never much dearer than one by one."""
    steps = np.array(plan)
    waves = cut(steps, lanes, overhead)
    whole = np.concatenate(waves)
    jobs = whole[whole >= 0]
    assert sorted(jobs.tolist()) == [*range(len(steps))] and (np.diff(steps[jobs]) <= 0).all()
    (wide,) = {len(wave) for wave in waves}
    assert wide in (1, lanes) and (whole[: len(jobs)] >= 0).all()
    cost = sum(steps[wave[0]] * (wide + overhead) for wave in waves)
    assert cost <= 1.2 * steps.sum() * (1 + overhead) + 1e-9


def test_loop_names_client_round_and_step():
    with pytest.warns(Remark, match=r"Client \d, round \d, step \d"):
        result = amsfl.run(**COMMON | {"model": "mlp:8", "lr": 1e200, "method": "fedavg", "engine": "loop"})
    assert result.summary.status == "diverged"


def test_a_small_run_that_names_no_engine_takes_numpy(tmp_path):
    """On record, so that it goes on with the same one."""
    settings = COMMON | {"model": "mlp:8", "method": "fedavg"}
    auto = amsfl.run(out=tmp_path, **settings)
    assert read_manifest(tmp_path, "run").settings["engine"] == auto.parts.config.engine == "loop"
    large = make_config(settings | {"rounds": 100_000, "engine": "auto"})
    assert assemble([large]).config.engine == "jax"
    assert assemble([make_config(settings | {"model": "cnn:2", "engine": "auto"})]).config.engine == "jax"


def test_first_models_are_those_of_jax(digits):
    job_ = job(digits, np.float32, "mlp:12-7")
    init = jax.jit(lambda seed: client_program.flat(job_.model.init(jax.random.key(seed))))
    with jax.enable_x64(False):
        expected = [init(np.uint32(seed)) for seed in job_.seeds]
    np.testing.assert_allclose(job_.start(), expected, atol=1e-7)


def test_users_own_functions_are_a_model(digits):
    """Any init and apply."""
    plain = models.make("softmax", 64, 10)
    own = models.Model("mine", lambda key: [*plain.init(key)[0]], lambda p, x: x @ p[0].T + p[1])
    settings = COMMON | {"method": "fedavg", "engine": "jax"}
    expected = amsfl.run(**settings).params
    del settings["model"]
    close(amsfl.run(network=own, **settings).params, expected, 1e-9)


def test_gradients_of_numpy_and_of_jax(digits):
    """Backpropagation by hand, which shares nothing with jax, and as the compiler derives it."""
    job_ = job(digits, spec="mlp:12", trials=1)
    flat, x, y = job_.start()[0], job_.x[:32], job_.y[:32]
    loss, expected = NumpyNetwork(job_).gradient(flat, x, y)
    mean = jax.jit(jax.value_and_grad(lambda t: losses.cross_entropy(job_.model.apply(t, x), y).mean()))
    value, got = mean(job_.unravel(flat))
    assert float(value) == pytest.approx(loss)
    np.testing.assert_allclose(client_program.flat(got), expected, atol=1e-12)


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


@pytest.mark.parametrize("jobs", [*range(1, 40), 250])
def test_equal_jobs_have_the_best_of_all_widths(jobs):
    """Against every width, written out: one worker's waves times what a step of them costs."""
    overhead = 0.4
    found = width(jobs, overhead, 7)
    costs = {lanes: -(-jobs // lanes) * (lanes + overhead) for lanes in range(1, 8)}
    assert costs[found] == min(costs.values())


def test_metrics_by_hand():
    """Class 0: 3 of 4 right; class 1: 1 of 2; class 2 absent. F1: 6/(4+4) and 2/(2+2)."""
    table = np.array([[[3, 1, 0], [1, 1, 0], [0, 0, 0]]])
    found = table_scores(np.array([0.5]), table)[0]
    assert found["accuracy"] == pytest.approx(4 / 6)
    assert found["recall"] == [0.75, 0.5, None]
    assert found["macro_f1"] == pytest.approx((0.75 + 0.5) / 2)


@pytest.mark.parametrize("engine", ["loop", "jax"])
def test_evaluation_against_numpy(digits, engine):
    job_ = job(digits)
    scores = make(engine, job_, methods.Federation(methods.make("fedavg")), BATCH).evaluate(
        job_.start(), "holdout"
    )
    x, y = job_.evals["holdout"]
    for index, flat in enumerate(job_.start()):
        weight, bias = swap_layout(job_.unravel(flat))[0]
        logits = x @ np.asarray(weight) + np.asarray(bias)
        likely = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        assert scores[index]["loss"] == pytest.approx(-likely[np.arange(len(y)), y].mean())
        assert scores[index]["accuracy"] == pytest.approx((logits.argmax(1) == y).mean())


def test_client_state_that_does_not_fit_is_an_error(digits, monkeypatch):
    job_ = job(digits)
    need = task.state_bytes(job_, methods.make("scaffold"))
    assert need == TRIALS * CLIENTS * job_.dim * 8
    assert task.state_bytes(job_, methods.make("fedavg")) == 0
    monkeypatch.setattr(task.os, "sysconf", {"SC_PHYS_PAGES": need, "SC_PAGE_SIZE": 1}.get)
    task.check_fits(job_, methods.make("fedavg"))
    with pytest.raises(UserError, match=r"650 numbers for each of 6 clients.*method without state"):
        task.check_fits(job_, methods.make("scaffold"))


def test_model_names_and_their_errors():
    with pytest.raises(UserError, match="square images"):
        models.make("cnn", 122, 5)
    with pytest.raises(UserError, match="joined by '-'"):
        models.make("mlp:64,32", 4, 2)
    network = models.make("mlp", 122, 5)
    leaves = jax.tree.leaves(jax.eval_shape(network.init, jax.random.key(0)))
    assert sum(leaf.size for leaf in leaves) == 10_117


@pytest.mark.parametrize("sizes", [pytest.param((6, 4), marks=SLOW), (6, 5, 3, 4)])
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
    engine = JaxEngine(job(digits), methods.Federation(methods.make("fedavg")), BATCH)
    (part,) = engine.rows[0][0].addressable_shards
    assert part.data.unsafe_buffer_pointer() == engine.task.x.ctypes.data


def test_one_held_back_row_says_nothing_of_a_dead_network():
    """Its outputs differ from no other's: clients of two rows, who hold back one, were begun again for it."""
    outputs, y = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 0.0]]), np.array([0, 1, 0])

    found = jax.jit(lambda here: losses.held_loss_and_spread(losses.cross_entropy, outputs, y, here)[1])

    def spread(*here):
        return float(found(np.array(here, bool)))

    assert spread(1, 1, 0) == 0 < spread(1, 0, 1) and np.isnan([spread(1, 0, 0), spread(0, 0, 0)]).all()


LATE = {"method": "amsfl", "round_end": "buffer:2", "profile": "wild", "clock": "makespan"}
OWN = {"waits": {"method": "amsfl"}, "does not wait": LATE, "fedavg": {"method": "fedavg"}}
SCRIPT = """
import hashlib, sys, amsfl
from amsfl.settings.parse import make_config
from amsfl.simulation import run_batch

run = {"data": "digits", "model": "mlp:16", "clients": 4, "rounds": 6, "details": "", "engine": "jax"}
run |= eval(sys.argv[1])
others = [
    {"model": "mlp:9", "method": "scaffold", "batch": 16},
    {"precision": "float64", "method": "feddyn"},
    {"engine": "loop", "method": "fedavg"},
]

def bits(result):
    rounds = [each._replace(wall={}) for each in result.rounds]
    return hashlib.sha256(result.params.tobytes() + repr(rounds).encode()).hexdigest()

alone = [bits(amsfl.run(**run, seed=seed)) for seed in range(3)]
if len(sys.argv) > 2:
    together = run_batch([make_config(run | {"seed": seed}) for seed in range(3)])
    assert [bits(each) for each in together] == alone, "in a batch"
    for other in others:
        amsfl.run(**{key: run[key] for key in ("data", "clients", "rounds")}, **other)
        assert bits(amsfl.run(**run, seed=0)) == alone[0], other
assert not sys.modules["jax"].config.read("jax_cpu_enable_async_dispatch"), "calls wait in line"
print(*alone)
"""


def run(own: dict[str, Any], cache: Path | None, cores: int, *more: str) -> str:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("JAX_COMP", "XLA_FLAGS"))}
    env |= {"JAX_COMPILATION_CACHE_DIR": str(cache)} if cache else {}
    env |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    chosen = ",".join(map(str, sorted(os.sched_getaffinity(0))[:cores]))
    command = ["taskset", "-c", chosen, sys.executable, "-W", "ignore", "-c", SCRIPT, repr(own), *more]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN)
def test_same_bits(name: str, tmp_path: Path) -> None:
    """Compiled anew, into a cache, from it; on one core and on two; in a batch and after other runs."""
    own, cache = OWN[name], tmp_path / "cache"
    expected = run(own, None, 2, "all")
    for place, (folder, cores) in enumerate([(cache, 2), (cache, 2), (None, 1), (cache, 1)]):
        assert run(own, folder, cores) == expected, f"run {place}"
