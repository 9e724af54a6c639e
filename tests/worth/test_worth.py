"""The ledger of contributions: Shapley values by definition, models by brute force, whole runs with one."""

from itertools import permutations

import numpy as np
import pytest
from federation_small import SMALL, own_data
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import amsfl
from amsfl.core import UserError, Verdict
from amsfl.record import Checkpoint, RoundRecord
from amsfl.worth import (
    EXACT,
    all_coalitions,
    as_arrays,
    coalition_models,
    enter,
    from_checkpoint,
    interval,
    judged,
    open_ledger,
    seconds_alone,
    shapley,
    twins,
)

SITES = {"sites": np.arange(60, dtype=np.int32) % 3, "site_names": ("Graz", "Lyon", "Oslo")}
ALL = SMALL | {"details": "worth", "clock": "makespan", "progress": False}


def by_definition(values):
    """The mean over all orders of what each client adds to those before it; `values` by `all_coalitions`."""
    clients = int(np.log2(len(values)))
    added = np.zeros((clients, values.shape[1]))
    orders = list(permutations(range(clients)))
    for order in orders:
        mask = 0
        for who in order:
            added[who] += values[mask | 1 << who] - values[mask]
            mask |= 1 << who
    return added / len(orders)


scores = st.floats(-1, 1, allow_subnormal=False)


@given(st.integers(1, 4).flatmap(lambda n: arrays(float, (2**n, 2), elements=scores)))
def test_values_are_shapleys_and_add_up(values):
    clients = int(np.log2(len(values)))
    added, error = shapley(clients, lambda members: values[members @ (1 << np.arange(clients))])
    np.testing.assert_allclose(added, by_definition(values), atol=1e-12)
    np.testing.assert_allclose(added.sum(0), values[-1] - values[0], atol=1e-12)
    assert not error.any()


def test_sampled_orders():
    """Where clients only add up, any order gives the values."""
    clients = EXACT + 3
    own = np.linspace(0.01, 0.1, clients)[:, None] * np.ones((1, 5))
    added, error = shapley(clients, lambda members: members @ own)
    np.testing.assert_allclose(added, own, atol=1e-12)
    assert error.max() < 1e-12


def test_interval_holds_the_mean_of_the_rows():
    rows = np.random.default_rng(0).normal(0.3, 1.0, (400, 100))
    assert 0.85 < np.mean([low < 0.3 < high for _, low, high in map(interval, rows)]) < 0.95


def test_one_round_of_fedavg_against_brute_force():
    """After one round every coalition's model is the average of its members' own."""
    rng = np.random.default_rng(1)
    weights, deltas, first = np.array([0.5, 0.2, 0.3]), rng.normal(size=(3, 4)), rng.normal(size=4)
    move = weights @ deltas
    work = np.arange(3), weights, deltas, np.ones(3)
    ledger = enter(open_ledger(weights, 4, float), *work, move)
    members = all_coalitions(3)
    for some, model in zip(members, coalition_models(ledger, first + move, first, members), strict=True):
        share = weights * some
        wanted = first if not some.any() else first + share @ deltas / share.sum()
        np.testing.assert_allclose(model, wanted, atol=1e-12)


def test_what_is_left_of_a_difference():
    """D_S <- r D_S + the round's difference, for client 0 alone.

    Deltas are as long as each other and 1 - exp(-path) is 0.7: r is 0.3, three quarters of the way from 0 to
    0.4, so three quarters of the one sum and a quarter of the other.
    """
    rng, weights, path = np.random.default_rng(2), np.array([0.5, 0.5]), np.full(2, -np.log(0.3))
    ledger, model, sums = open_ledger(weights, 3, float), np.zeros(3), {0.0: np.zeros(3), 0.4: np.zeros(3)}
    for _ in range(5):
        own = rng.normal(size=3)
        deltas = np.stack([own, np.roll(own, 1)])
        move = weights @ deltas
        ledger, model = enter(ledger, np.arange(2), weights, deltas, path, move), model + move
        sums = {keep: keep * part + deltas[0] - move for keep, part in sums.items()}
    alone = coalition_models(ledger, model, 0 * model, np.array([[True, False]]))[0]
    np.testing.assert_allclose(alone, model + 0.75 * sums[0.4] + 0.25 * sums[0.0], atol=1e-9)


def test_what_is_not_the_uploads_is_everybodys():
    """A server that moves twice as far and aside: parts are twice as large, and aside goes to every model."""
    parts = np.arange(2), np.full(2, 0.5), np.array([[1.0, 0.0], [3.0, 0.0]]), np.ones(2)
    ledger = enter(open_ledger(np.ones(2), 2, float), *parts, np.array([4.0, 5.0]))
    models = coalition_models(ledger, np.array([4.0, 5.0]), np.zeros(2), all_coalitions(2))
    np.testing.assert_allclose(models, [[0, 0], [2, 5], [6, 5], [4, 5]], atol=1e-12)


def test_twins_are_alike_and_a_silent_client_pulls_nothing_back():
    rng = np.random.default_rng(0)
    ledger = open_ledger(np.ones(4), 50, float)
    mine, other = rng.normal(size=(2, 50))
    sent, noise = np.stack([mine, mine, other, 0 * other]), np.array([[0.1], [0.1], [0.1], [0.0]])
    for _ in range(20):
        deltas = sent + noise * rng.normal(size=(4, 50))
        ledger = enter(ledger, np.arange(4), np.full(4, 0.25), deltas, np.ones(4), deltas.mean(0))
    assert twins(ledger) == [1, 0, None, None]
    way = 20 * sent.mean(0)
    silent = coalition_models(ledger, way, 0 * way, np.eye(4, dtype=bool))[3]
    assert np.linalg.norm(silent) < 0.1 * np.linalg.norm(way)  # it never left the first model


def test_a_ledger_goes_where_the_judge_sends_the_server():
    """What a round found better is the anchor that it began with: its own uploads are not that anchor's."""
    rng, weights = np.random.default_rng(0), np.full(3, 1 / 3)

    def after(ledger, rounds):
        for _ in range(rounds):
            deltas = rng.normal(size=(3, 4))
            ledger = enter(ledger, np.arange(3), weights, deltas, np.ones(3), deltas.mean(0))
        return ledger

    own, best = judged(after(open_ledger(weights, 4, float), 10), None, Verdict.BETTER)
    kept = [part.copy() for part in best]
    own, best = judged(after(own, 3), best, Verdict.NONE)
    assert own.rounds.tolist() == [13] * 3
    back, best = judged(own, best, Verdict.BACK)
    after(back, 1)  # does not touch the best one
    held = type("State", (), {"ledger": None, "best_ledger": best})
    again = from_checkpoint(Checkpoint(1, as_arrays(held) | {"other": np.zeros(1)}, {}))
    assert again["ledger"] is None
    assert all(np.array_equal(a, b) for a, b in zip(again["best_ledger"], kept, strict=True))
    anew, nothing = judged(own, best, Verdict.RESTART)
    assert not anew.parts.any() and nothing is None


def test_seconds_that_a_client_alone_causes():
    """Client 2 came a second and a half after client 0; one after another each keeps the others waiting. A
    server that waits for a moment is kept by nobody."""
    seconds = {"sum": 9.0, "makespan": 4.0}
    each = RoundRecord(1, seconds, seconds, cohort=[0, 2], steps=[3, 5], plan={"client_seconds": [2.5, 4.0]})
    assert seconds_alone([each, each], 3, "makespan").tolist() == [0.0, 0.0, 3.0]
    assert seconds_alone([each], 3, "sum").tolist() == [2.5, 0.0, 4.0]
    waits = each._replace(plan={"client_seconds": [2.5, 3.0]}, arrived=[2.5, 3.0], started=[0.0, 0.0])
    assert not seconds_alone([waits], 3, "makespan").any()


@pytest.mark.parametrize("method", ["fedavg", "amsfl", "scaffold"])
def test_values_add_up_for_any_method(method):
    result = amsfl.run(dataset=own_data(**SITES), **ALL | {"method": method, "policy": "fixed"})
    said = result.summary.worth
    assert result.worth()["adds"].sum() == pytest.approx(said["last"] - said["first"])
    assert said["last"] == pytest.approx(result.accuracy)  # 20 rows: the ledger takes them all
    assert list(result.worth().index) == ["Graz", "Lyon", "Oslo"]


def test_engines_agree():
    one, two = (
        amsfl.run(dataset=own_data(**SITES), **ALL | {"engine": engine}).worth() for engine in ("loop", "jax")
    )
    np.testing.assert_allclose(one["adds"], two["adds"], atol=1e-9)


def test_rounds_that_do_not_wait():
    changes = {"method": "fedbuff", "round_end": "buffer:2", "rounds": 6, "profile": "mild", "clients": 3}
    result = amsfl.run(dataset=own_data(**SITES), **ALL | changes)
    assert [each["name"] for each in result.summary.worth["clients"]] == ["Graz", "Lyon", "Oslo"]


def test_resumed_to_the_same_statement(tmp_path):
    data = own_data(**SITES)
    whole = amsfl.run(dataset=data, **ALL)
    amsfl.run(dataset=data, out=tmp_path / "run", **ALL | {"rounds": 2})
    assert amsfl.resume(tmp_path / "run", dataset=data, rounds=4).summary.worth == whole.summary.worth


def test_mistakes_are_sentences():
    result = amsfl.run(dataset=own_data(**SITES), **SMALL, progress=False)
    with pytest.raises(UserError, match="details="):
        result.worth()
    with pytest.raises(UserError, match="under privacy"):
        amsfl.run(dataset=own_data(**SITES), **ALL | {"epsilon": 3.0})
    with pytest.raises(UserError, match="clients at most"):
        amsfl.run(dataset=own_data(rows=600), **ALL | {"clients": 100, "partition": "iid"})
