"""AMSFL's own arithmetic: balance, momentum, the way back; without them it is FedAvg with planned steps."""

import numpy as np
import pytest
from federation_small import SMALL, own_data
from quadratics import PLAIN, drive, line, random_clients

import amsfl
from amsfl.core import Total, Verdict
from amsfl.methods import Method, make
from amsfl.methods.amsfl import split

ONE = np.ones(1)


def moved(method, anchor, server, delta, age=0.0):
    """The anchor, the model and the state after a round whose mean delta, from work of this age, is given."""
    total = Total(np.array(delta, float), anchor[:0], 1.0, age)
    anchor, server = method.aggregate(anchor, total, ONE, ONE, server)
    return anchor, method.model(anchor, server), server


def after(method, deltas, x):
    anchor = model = np.array(x, float)
    server = method.init(anchor)[0]
    for delta in deltas:
        anchor, model, server = moved(method, anchor, server, delta)
    return anchor, model, server


def test_balance_by_hand():
    """d = (-1, 3/2), t = (1, 2), p = (1/4, 3/4): u = (E/4, 3E/(4 sqrt 2)), E = (1 + 3 sqrt 2)/4, from 2.

    The next anchor is m = 1/(1 + 3) further."""
    clients, even = line([1, 1], [0, 4], [0.25, 0.75]), (1 + 3 * 2**0.5) / 4
    step = even * (-1 / 4 + 3 / (4 * 2**0.5) * 1.5)
    method, rounds = make("amsfl"), [([0, 1], [1, 2])]
    anchor, server, _ = drive(method, clients, np.array([2.0]), rounds, lr=0.5)
    assert method.model(anchor, server) == pytest.approx([2 + step])
    assert anchor == pytest.approx([2 + 1.25 * step])


def test_balance_of_one_is_fednova():
    clients, rounds = random_clients(3, 3, 7), [([0, 1, 2], [1, 4, 2]), ([0, 2], [3, 1])]
    ours, theirs = (
        drive(method, clients, np.ones(3), rounds, lr=0.1)[0]
        for method in (make("amsfl", PLAIN | {"balance": 1.0}), make("fednova"))
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_momentum_grows_to_its_limit():
    """D = 1 from 0: m = 1/4, then 2/5: x = 1, a = 5/4; x = 9/4, a = 9/4 + 2/5 * 5/4."""
    anchor, model, _ = after(make("amsfl"), [[1.0]] * 2, [0.0])
    assert (anchor, model) == (pytest.approx([2.75]), pytest.approx([2.25]))
    anchor, model, _ = after(make("amsfl", {"momentum": 0.25}), [[1.0]] * 2, [0.0])
    assert (anchor, model) == (pytest.approx([2.5625]), pytest.approx([2.25]))
    anchor, model, _ = after(make("amsfl"), [*[[0.0]] * 29, [1.0]], [0.0])
    assert anchor == pytest.approx([1.8]) and model == [1.0]  # 30/33 is above 0.8


@pytest.mark.parametrize(("age", "most"), [(0.0, 0.8), (1.0, 0.6), (2.5, 0.3), (4.0, 0.0), (9.0, 0.0)])
def test_momentum_leaves_out_what_late_work_brings(age, most):
    """Work k moves old is itself a momentum of 1 - 1/(1 + k); 1 - (1 - m)(1 + k) of it is left."""
    method = make("amsfl")
    anchor, _, server = after(method, [[0.0]] * 29, [0.0])
    anchor, model, _ = moved(method, anchor, server, [1.0], age)
    assert model == [1.0] and anchor == pytest.approx([1 + most])


def test_a_round_that_is_not_finite_leaves_the_model():
    method = make("amsfl")
    for broken in (np.nan, np.inf):
        anchor, model, server = after(method, [[1.0], [broken]], [0.0])
        assert model == [1.25] and anchor == pytest.approx([1.25 + 0.4 * 0.25]) and np.isfinite(server).all()


def test_every_verdict_by_hand():
    """Anchors 0, 5/4, 11/4; the last work began from 5/4. At first the best is the first."""
    method = make("amsfl")
    anchor, model, server = after(method, [[1.0]] * 2, [0.0])
    revise = method.revise
    kept, same = revise(anchor, server, Verdict.NONE)
    assert kept == anchor and np.array_equal(same, server)
    kept, better = revise(anchor, server, Verdict.BETTER)
    assert kept == anchor and method.model(kept, better) == model
    for state, verdict, where in (
        (server, Verdict.BACK, 0.0),
        (better, Verdict.BACK, 1.25),
        (better, Verdict.RESTART, 0.0),
    ):
        back, left = revise(anchor, state, verdict)
        assert back == where == method.model(back, left)
        assert split(left, 1)._asdict() | {"sent": 0} == {
            "x": where, "best": where, "sent": 0, "first": 0.0, "run": 0.0
        }  # fmt: skip
        assert moved(method, back, left, [1.0])[0] == pytest.approx([where + 1.25])  # momentum begins anew
    assert revise(anchor, revise(anchor, better, Verdict.RESTART)[1], Verdict.BACK)[0] == 0


@pytest.mark.parametrize("engine", ["loop", pytest.param("jax", marks=pytest.mark.slow)])
def test_without_its_parts_it_is_fedavg_with_planned_steps(engine):
    """The same plans, seconds and models, cooling rate and all, where rows and speeds differ."""

    class Bare(Method):
        facts = make("amsfl").facts

    common = SMALL | {"dataset": own_data(), "profile": "wild", "partition": "dirichlet:0.5", "batch": 4}
    common |= {"engine": engine, "clients": 4, "rounds": 3}
    ours = amsfl.run(**common | {"method": "amsfl"}, options=PLAIN)
    theirs = amsfl.run(**common | {"method": Bare()})
    assert [each.steps for each in ours.rounds] == [each.steps for each in theirs.rounds]
    assert all(len(set(each.steps)) > 1 for each in ours.rounds)
    assert ours.summary.virtual_seconds == theirs.summary.virtual_seconds
    np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-9)
