"""What published recipes ask for: passes, momentum, decay, epochs, early stopping, the best round."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from federation_small import SMALL, own_data

import amsfl
from amsfl import methods, sampling
from amsfl.core import UserError
from amsfl.core.scores import score, worth
from amsfl.engines.optimizers import client_steps
from amsfl.methods.changes import plain_steps
from amsfl.planning.planner import steps_of
from amsfl.protocol import LocalState, begin, local_step
from amsfl.settings.definitions import RunConfig
from amsfl.settings.parse import make_config
from amsfl.simulation.api import with_patience

SETTINGS: dict[str, Any] = {"data": "digits", "model": "softmax", "clients": 2, "engine": "loop", "steps": 1}
SETTINGS |= {"method": "fedavg", "lr": 3.0, "batch": 8, "rounds": 12, "details": ""}  # it jumps about


def first_best(values: list[float], patience: int) -> tuple[int, int]:
    """By hand: when a run with so much patience ends, and which round is its best so far."""
    for end in range(1, len(values) + 1):
        best = int(np.argmax(values[:end])) + 1
        if end - best >= patience:
            return end, best
    return len(values), int(np.argmax(values)) + 1


def test_a_simulation_stops_for_want_of_a_better_round(tmp_path: Path) -> None:
    whole = amsfl.run(**SETTINGS)
    values = [each.metrics["holdout"]["accuracy"] for each in whole.rounds]
    assert whole.summary.best["round"] == int(np.argmax(values)) + 1
    assert whole.summary.best["score"] == pytest.approx(max(values))
    end, best = first_best(values, 2)
    assert end < 12  # else this shows nothing
    short = amsfl.run(**SETTINGS, stop_after=2, out=tmp_path / "run")
    assert (short.summary.rounds, short.summary.status) == (end, "finished")
    assert short.summary.best["round"] == best
    on = amsfl.resume(tmp_path / "run", stop_after=0, rounds=12)
    assert on.summary.rounds == 12 and on.summary.best == whole.summary.best
    np.testing.assert_array_equal(on.best_params, whole.best_params)


@pytest.mark.parametrize(
    "given, patience",
    [
        ({}, 25),  # of 50 rounds
        ({"rounds": 20}, 0),
        ({"rounds": 150}, 75),
        ({"rounds": 900}, 100),
        ({"seconds": 60.0}, 100),
        ({"stop_after": 3}, 3),
        ({"noise": 1.0, "epsilon": 5.0}, 0),  # where its end tells of rows, a private run could claim less
    ],
)
def test_a_run_on_a_table_waits_for_half_of_its_rounds(given: dict[str, Any], patience: int) -> None:
    assert with_patience(RunConfig(data="rows.csv", **given), given).stop_after == patience
    assert with_patience(RunConfig(data="digits", **given), given).stop_after == given.get("stop_after", 0)


def test_what_rounds_are_compared_by() -> None:
    recall = score("recall:b", ("a", "b"))
    assert worth({"recall": [0.1, 0.7]}, recall) == 0.7
    assert worth({"recall": [0.1, None]}, recall) is None
    assert worth({"recall": [0.1, 0.7], "loss": 2.0}, recall, by_loss=True) == -2.0


def drawn(seed: int, steps: int, batch: int, rows: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        key = sampling.stream(*map(sampling.words, (seed, 3, 5)))
        places = np.arange(batch, dtype=np.uint32)
        each = [sampling.draw(key, sampling.words(k), places, np.int32(rows), batch) for k in range(steps)]
    return np.concatenate(each)


@pytest.mark.parametrize(("rows", "batch"), [(1, 4), (2, 3), (7, 3), (100, 64), (1001, 10)])
def test_a_pass_visits_every_row_once(rows: int, batch: int) -> None:
    stream = drawn(0, 4 * rows // batch + 1, batch, rows)
    for begin_ in range(0, len(stream) - rows, rows):
        assert (np.sort(stream[begin_ : begin_ + rows]) == np.arange(rows)).all()


def test_passes_are_shuffled_anew_and_evenly() -> None:
    """Of 400 passes over 10 rows each row is at each place about 40 times (deviation 6)."""
    passes = drawn(1, 400, 10, 10).reshape(400, 10)
    counts = np.array([np.bincount(column, minlength=10) for column in passes.T])
    assert np.abs(counts - 40).max() < 25
    following = (np.diff(passes, axis=1) == 1).mean()
    assert following == pytest.approx(0.1, abs=0.03)  # as of random orders: 9 pairs of 90
    assert len({tuple(row) for row in passes}) == 400


def test_momentum_is_the_plain_loop() -> None:
    """v <- m v + g(y) + d y, y <- y - lr v on a quadratic, against the same lines in plain numpy."""
    a, start, lr, m, d = np.array([1.0, 3.0, 0.5]), np.array([1.0, -2.0, 4.0]), 0.1, 0.9, 0.01
    method, by = methods.make("fedprox", {"mu": 0.3}), client_steps(f"momentum:{m},decay:{d}")
    state = begin(LocalState(start, start[:0], start[:0], lr), by)
    y, v = start.copy(), np.zeros(3)
    for _ in range(7):
        state = local_step(method, state, a * state.x, optimizer=by)
        v = m * v + a * y + 0.3 * (y - start) + d * y
        y = y - lr * v
        np.testing.assert_allclose(state.x, y, rtol=1e-6)


@pytest.mark.parametrize("engine", ["loop", "jax"])
def test_a_kept_state_goes_on_where_it_stopped(engine: str) -> None:
    """Six rounds of two AdamW steps are twelve of one where its moments are kept; all rows are alike."""
    x, y = np.ones((8, 3), np.float32), np.ones(8, np.int32)
    rows = amsfl.Dataset("alike", x, y, {"holdout": (x, y)}, ("no", "yes"))
    settings = {"dataset": rows, "method": "fedavg", "model": "softmax", "partition": "iid", "clients": 1}
    settings |= {"engine": engine, "details": "", "progress": False}
    found = {}
    for kept in ("", ",kept"):
        one, two = (
            amsfl.run(**settings, client_optimizer=f"adamw:0.1/0.1{kept}", rounds=rounds, steps=steps).params
            for rounds, steps in ((6, 2), (12, 1))
        )
        found[kept] = np.abs(one - two).max()
    assert found[",kept"] < 1e-6 < 1e-3 < found[""]


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_plain_steps_go_as_far_along_a_constant_gradient(momentum: float) -> None:
    velocity = way = 0.0
    for step in range(1, 20):
        velocity = momentum * velocity + 1
        way += velocity
        assert plain_steps(step, momentum) == pytest.approx(way)


def test_scaffold_counts_plain_steps_of_momentum() -> None:
    """Along a constant gradient g the control variate of a client is g itself, whatever the momentum."""
    by, x = client_steps("momentum:0.9"), np.zeros(2)
    method = methods.ClientOptimizer(methods.make("scaffold"), by)
    state, g = begin(LocalState(x, x, x, 0.1), by), np.array([1.0, -2.0])
    for _ in range(5):
        state = local_step(method, state, g, optimizer=by)
    fresh = method.report(state.x, x, 5, 0.1, x, x)[1]
    np.testing.assert_allclose(fresh, g, rtol=1e-6)


def test_epochs_are_steps_by_rows_and_batch() -> None:
    """Ten passes over 6,000 rows by 64 are 937.5 minibatches: 938 steps; half a pass over 60 by 10 is 3."""
    assert steps_of(make_config({"epochs": 10, "batch": 64}), [6000, 60]).tolist() == [938, 10]
    assert steps_of(make_config({"epochs": 0.5, "batch": 10}), [60, 1, 61]).tolist() == [3, 1, 4]
    assert steps_of(make_config({"steps": 7}), [60, 1]).tolist() == [7, 7]
    with pytest.raises(UserError, match="epochs"):
        make_config({"steps": 7, "epochs": 2})
    written = make_config({"epochs": 2}).model_dump(exclude_none=True)
    assert make_config(written).epochs == 2


PLAIN = {key: value for key, value in SMALL.items() if key != "steps"}


def test_clients_take_the_steps_of_their_epochs() -> None:
    """30 and 15 rows of two clients; 2 epochs by 4 rows are 15 and 7.5 minibatches."""
    data = own_data(45, sites=np.repeat([0, 1], [30, 15]), site_names=("a", "b"))
    run = amsfl.run(dataset=data, **PLAIN | {"epochs": 2, "batch": 4})
    assert run.rounds[0].steps == [15, 8]
    assert run.summary.steps == {"a": 60, "b": 32}


def test_learning_rates_decay_round_by_round() -> None:
    run = amsfl.run(dataset=own_data(), **SMALL | {"lr": 0.5, "lr_decay": 0.5})
    assert [each.lr for each in run.rounds] == [0.5, 0.25, 0.125, 0.0625]


def test_privacy_goes_with_steps_and_random_minibatches() -> None:
    with pytest.raises(UserError, match="privacy"):
        amsfl.run(dataset=own_data(), **PLAIN | {"epsilon": 5.0, "epochs": 1})
