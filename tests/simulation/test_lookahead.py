"""Several rounds planned and handed over at once are the same rounds."""

import jax
import numpy as np
import pytest
from federation_small import SMALL, own_data

import amsfl
from amsfl import methods
from amsfl.data import partition
from amsfl.engines import Orders, devices, models, task
from amsfl.engines.jax_engine import JaxEngine
from amsfl.engines.loop_engine import LoopEngine
from amsfl.simulation import CustomParts, run_batch
from amsfl.simulation import rounds as round_loop


def told(result):
    """All of a run but how long it took."""
    best = result.best and (*result.best[:2], result.best.params.tolist())
    return [each._replace(wall={}) for each in result.rounds], result.params.tolist(), best


@pytest.fixture
def far_sighted(monkeypatch):
    """The loop engine with a foresight of five rounds, from the first call on."""
    spans = []
    whole = LoopEngine.span

    def counted(self, state, orders, *rest, **more):
        spans.append(len(orders))
        return whole(self, state, orders, *rest, **more)

    def see():
        monkeypatch.setattr(LoopEngine, "max_span", 5)
        monkeypatch.setattr(LoopEngine, "span", counted)
        monkeypatch.setattr(round_loop, "rounds_at_once", lambda setup, running, seconds: 5)
        return spans

    return see


@pytest.mark.parametrize(
    "changes",
    [
        {"cohort": 2, "eval_every": 3},
        {"method": "scaffold", "local_accuracy": True},
        {"worth": True, "cohort": 2},
        {"target": 0.9, "stop_at_target": True, "eval_every": 3, "policy": "speed"},
    ],
)
def test_a_run_is_the_same(far_sighted, changes):
    settings = SMALL | {"rounds": 12, "clients": 3, "dataset": own_data()} | changes
    before = amsfl.run(**settings)
    spans = far_sighted()
    after = amsfl.run(**settings)
    assert told(before) == told(after)
    assert spans[0] == 1 and max(spans) == 5


def test_trials_that_end_one_by_one_are_the_same(far_sighted):
    trials = [
        SMALL | {"data": "mine", "seed": seed, "clients": 3, "lr": 0.05, "rounds": 9, "target": 0.9}
        for seed in range(3)
    ]
    trials = [each | {"stop_at_target": True} for each in trials]
    before = run_batch(trials, CustomParts(own_data()))
    far_sighted()
    assert [*map(told, before)] == [*map(told, run_batch(trials, CustomParts(own_data())))]


def test_a_stopped_run_goes_on_with_the_same_bits(far_sighted, tmp_path):
    """A checkpoint in the middle of what was computed at once has the trial as it was then."""
    settings = SMALL | {"clients": 3, "dataset": own_data(), "rounds": 12, "checkpoint_every": 4}
    whole = amsfl.run(**settings)
    far_sighted()
    seen = []

    def stop(record):
        seen.append(record)
        if record.round == 6:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        amsfl.run(**settings, out=tmp_path / "run", watch=stop)
    assert told(amsfl.resume(tmp_path / "run", dataset=own_data())) == told(whole)


@pytest.mark.parametrize(
    ("name", "readings"), [("fedavg", False), pytest.param("scaffold", True, marks=pytest.mark.slow)]
)
def test_a_span_has_the_bits_of_its_rounds(name, readings):
    data, clients, trials = own_data(), 3, 2
    network = models.make("mlp:4", 2, 2)
    parts = [partition("dirichlet:1", data.y, clients, seed) for seed in range(trials)]
    job = task.make(data, network, parts, range(trials), np.float32)
    options = {"lanes": 2 if readings else 6, "mesh": devices.mesh(1), "workers": 1}
    engine = JaxEngine(job, methods.make(name), 4, readings, max_span=4, **options)
    rng = np.random.default_rng(0)
    who = np.broadcast_to(np.arange(clients), (trials, clients))
    plans = [rng.integers(1, 5, who.shape) if readings else np.full(who.shape, 3) for _ in range(3)]
    orders = [Orders(who, plan, np.full(trials, 0.1), job.shards.weights) for plan in plans]
    states, outcomes = engine.span(engine.start(), orders, 7, keep=True)
    state = engine.start()
    for nth, each in enumerate(orders):
        state, outcome = engine.round(state, each, 7 + nth, keep=True)
        for ours, theirs in zip(state, engine.at(states, nth), strict=True):
            assert np.array_equal(ours, theirs)
        assert np.array_equal(outcome.readings, outcomes[nth].readings)
        assert np.array_equal(outcome.deltas, outcomes[nth].deltas)


def test_how_many_models_are_asked_about_compiles_nothing_anew():
    data = own_data()
    parts = [partition("iid", data.y, 3, seed) for seed in range(5)]
    job = task.make(data, models.make("softmax", 2, 2), parts, range(5), np.float32)
    engine = JaxEngine(job, methods.make("fedavg"), 4)
    many = np.random.default_rng(0).normal(size=(5, job.dim)).astype(np.float32)
    whole = engine.evaluate(many, "holdout")
    made = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: made.append(event) if event.endswith("backend_compile_duration") else None
    )
    for places in ([3], [4, 0], [1, 2, 3]):
        some = engine.evaluate(many, "holdout", places)
        assert np.array_equal(some.loss, whole.loss[places])
        assert np.array_equal(some.confusion, whole.confusion[places])
    assert not made
