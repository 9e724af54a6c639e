"""Rules that remember, and whom rules weigh down: over rounds, resumed, on record, in plans."""

import numpy as np
import pytest
from federation_small import SMALL, own_data
from hypothesis import given
from hypothesis import strategies as st

import amsfl
from amsfl import combine
from amsfl.combine.chain import weighed
from amsfl.combine.rules import SKETCH, centre, sketched
from amsfl.core import Upload, UserError
from amsfl.planning.readings import plausible_steps
from amsfl.report.comparison import compare
from amsfl.report.read import read
from amsfl.report.tables import clients

CLIENTS, SIZE = 10, 700
CHAIN = "cap:0.2,voices,trust:1,median"


def judged(spec, rounds):
    """How much each client counts after the last of these rounds of deltas [n, d]."""
    rule, history = combine.make(spec), None
    weights, steps = np.full(CLIENTS, 1 / CLIENTS), np.ones(CLIENTS)
    for vectors in rounds:
        sent = Upload(vectors, vectors[:, :0], (vectors**2).sum(1))
        _, _, counts, history = weighed(rule, sent, weights, steps, history)
    return [*counts.values()][-1]


def honest(seed, rounds=6, common=0.6):
    """Clients with a way in common, one of their own, which stays, and chance: all about as long."""
    rng = np.random.default_rng(seed)
    whole, own = rng.normal(size=SIZE), rng.normal(size=(CLIENTS, SIZE))
    return [(common * whole + own + rng.normal(size=own.shape)) / SIZE**0.5 for _ in range(rounds)]


@pytest.mark.parametrize("spec", ["voices", "trust:3"])
@pytest.mark.parametrize("seed", range(3))
def test_honest_clients_of_unlike_data_count_as_before(spec, seed):
    assert (np.abs(judged(spec, honest(seed)) - 0.1) < 0.03).all()


def test_those_who_push_together_have_one_voice():
    """Three push the same way, each with chance of its own as long as the push: in one round they differ, and
    over twelve they have about one client's weight together."""
    rounds, rng = honest(1, 12), np.random.default_rng(5)
    for vectors in rounds:
        vectors[:3] = 1.4 * (rng.permutation(SIZE) * 0 + np.resize([1, -1, -1], SIZE)) / SIZE**0.5
        vectors[:3] += rng.normal(size=(3, SIZE)) / SIZE**0.5
    once, often = judged("voices", rounds[:1]), judged("voices", rounds)
    assert once[:3].sum() > 0.2 and often[:3].sum() < 0.2 and often[3:].min() > 0.1


def test_those_who_turn_round_lose_their_weight():
    """Three of ten: in one round chance hides some of it; and close to the end, where nobody has anything
    in common with the others, what was seen before stays."""
    rounds = [np.where(np.arange(CLIENTS)[:, None] < 3, -1, 1) * each for each in honest(2)]
    after = judged("trust:3", rounds)
    assert (after[:3] < 1e-6).all() and after[3:].min() > 0.05
    late = judged("trust:3", rounds + honest(2, 20, common=0.0))
    assert late[:3].max() < 0.02 and late[3:].min() > 0.05


def test_who_has_which_classes_does_not_hide_who_turns_round():
    """Two camps differ by two coordinates that are five times as long as all the rest together."""
    camps = 5 * np.resize([1, -1], CLIENTS)[:, None] * (np.arange(SIZE) < 2)
    rounds = [each + camps for each in honest(4)]
    turned = [np.where(np.arange(CLIENTS)[:, None] < 3, -1, 1) * each for each in rounds]
    after = judged("trust:3", turned)
    assert (after[:3] < 1e-6).all() and after[3:].min() > 0.05
    assert judged("trust:3", rounds).min() > 0.05


def test_a_sketch_keeps_products():
    """Of 200 pairs of vectors, to 1/sqrt(SKETCH) of their lengths; and a geometric median among three is near
    the two that lie together."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(20, 5000)) + rng.normal(size=5000)
    small = sketched(rows)
    assert small.shape == (20, SKETCH)
    lengths = np.linalg.norm(rows, axis=1)
    errors = (small @ small.T - rows @ rows.T) / np.outer(lengths, lengths)
    assert np.sqrt((errors**2).mean()) < 1.5 / SKETCH**0.5
    middle, shares = centre(np.array([[0.0, 0.0], [0.1, 0.0], [9.0, 9.0]]), np.full(3, 1 / 3))
    assert np.abs(middle).max() < 0.1 and shares[2] < 0.05


def test_a_rule_that_remembers_comes_before_one_that_leaves_few():
    with pytest.raises(UserError, match="further to the front"):
        amsfl.run(**(SMALL | {"dataset": own_data(), "robust": "median,trust:1"}))


def test_a_record_says_whom_a_rule_weighed_down_and_the_report_too(tmp_path):
    """Two of six turn their uploads round, tenfold, and are never in the middle; a table says so."""
    out = tmp_path / "run"
    common = SMALL | {"rounds": 3, "clients": 6, "robust": "cap:0.3,median"}
    result = amsfl.run(**common, dataset=own_data(), attack="signflip:2/10", out=out)
    attackers = set(np.flatnonzero(result.parts.attackers.who[0]))
    for record in result.rounds:
        assert [*record.weighed] == ["claimed", "cap:0.3", "median"]
        assert {who for who in range(6) if record.weighed["median"][who] < 1e-6} >= attackers
    counted = clients(compare(read([out]))).frame["counted"]
    assert set(counted.index[counted < 1e-6]) >= attackers


@pytest.mark.parametrize("engine", ["loop", "jax"])
def test_links_are_on_record_in_the_order_of_the_chain(engine):
    """What a client counted is what the last link left it; jax sorts names."""
    settings = SMALL | {"rounds": 1, "engine": engine, "robust": "median,cap:0.5"}
    (record,) = amsfl.run(**settings, dataset=own_data()).rounds
    assert [*record.weighed] == ["claimed", "median", "cap:0.5"]


@given(st.lists(st.integers(1, 1000), min_size=5, max_size=40), st.integers(1, 5))
def test_no_fifth_has_more_than_half_as_many_steps_again(steps, count):
    """Whatever a plan came to, by whatever lies: any k of n clients have at most 1.5 k/n of all steps, and
    nobody is left without a step."""
    believed = plausible_steps(np.array(steps))
    assert np.sort(believed)[-count:].sum() <= 1.5 * count / len(steps) * believed.sum() + 1e-9
    assert (believed >= 1).all() and (believed <= steps).all()


def test_colluders_win_no_more_than_their_share():
    """Rows times 50, seconds over 50, false readings, uploads turned round: two of ten, with the chain."""
    run = amsfl.run(
        data="digits",
        model="softmax",
        clients=10,
        rounds=4,
        attack="colluders:2",
        engine="loop",
        batch=16,
        robust="cap:0.1,clip,voices,trust:2",
        partition="iid",
        progress=False,
    )
    steps = np.sort(list(run.summary.steps.values()))
    assert steps[-2:].sum() <= 0.32 * steps.sum()
