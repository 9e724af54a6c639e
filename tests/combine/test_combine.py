"""Robust rules: byzfl's answers, weights as copies, what several rounds tell, whom rules weigh down."""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from federation_small import SMALL, own_data
from hypothesis import assume, given
from hypothesis import strategies as st
from make_byzfl import COUNT, inputs

import amsfl
from amsfl import combine, methods, protocol
from amsfl.combine.chain import chain, weighed
from amsfl.combine.rules import SKETCH, capped, centre, sketched
from amsfl.core import Combine, Combined, Upload, UserError
from amsfl.methods import Federation
from amsfl.methods.base import upload
from amsfl.planning.doubt import plausible_steps
from amsfl.report.comparison import compare
from amsfl.report.read import read
from amsfl.report.tables import clients

FROZEN = Path(__file__).parents[1] / "frozen"

OURS = {  # byzfl's name for it, and how ours is spelled
    "median": "median",
    "trimmed": "trimmed:{f}",
    "krum": "krum:{f}",
    "clip": "clip:1.5",
}
SHARED = ["median", "trimmed:0.2", "clip,median", "clip,trimmed:0.3"]


def rows(vectors):
    return Upload(vectors, vectors[:, :0], (vectors**2).sum(1))


def ruled(spec, vectors, weights=None, steps=None):
    """What a rule makes of them all: the rows that it leaves, summed by their weights."""
    clients = len(vectors)
    weights = np.ones(clients) if weights is None else np.asarray(weights, float)
    steps = np.ones(clients) if steps is None else np.asarray(steps, float)
    left, counts, *_ = weighed(combine.make(spec), rows(vectors), weights / weights.sum(), steps)
    assert not abs(counts.sum() - 1) > 1e-6 and len(left.delta_sq) == len(counts)
    return counts @ left.delta


@pytest.mark.parametrize("theirs", OURS)
def test_equal_clients_are_byzfls(theirs):
    """Every fifth of 1,000 random inputs; the answers are frozen, with the script that made them."""
    expected = np.load(FROZEN / "byzfl.npz")[theirs] / 1e8
    for number in range(0, COUNT, 5):
        vectors, attackers = inputs(number)
        np.testing.assert_allclose(
            ruled(OURS[theirs].format(f=attackers), vectors), expected[number], atol=1e-6
        )


counts = st.lists(st.integers(0, 4), min_size=1, max_size=7).filter(any)


@pytest.mark.parametrize("spec", SHARED)
@given(counts, st.integers(0, 10_000))
def test_weight_two_is_two_clients(spec, counts, seed):
    vectors = np.random.default_rng(seed).normal(size=(len(counts), 4))
    copies = np.repeat(vectors, counts, axis=0)
    np.testing.assert_allclose(ruled(spec, vectors, counts), ruled(spec, copies), atol=1e-6)


@given(st.lists(st.integers(1, 3), min_size=3, max_size=7), st.integers(0, 10_000))
def test_weight_two_is_two_clients_where_one_chooses(counts, seed):
    """Two clients that are each other's nearest may tie, and then either is right: such cases stay out."""
    vectors = np.random.default_rng(seed).normal(size=(len(counts), 4))
    copies = np.repeat(vectors, counts, axis=0)
    apart = ((copies[:, None] - copies[None]) ** 2).sum(2)
    share, upto = 0.75 * len(copies), np.arange(1, len(copies) + 1)
    taken = np.clip(share - (upto - 1), 0, 1)
    scores = np.unique((np.sort(apart, 1) * taken).sum(1).round(9))
    assume(len(scores) == len(counts) and np.diff(scores).min(initial=1.0) > 1e-6)
    found, same = ruled("krum:0.25", vectors, counts), ruled("krum:0.25", copies)
    np.testing.assert_allclose(found, same, atol=1e-6)


@given(st.lists(st.floats(1e-3, 1e12), min_size=1, max_size=12), st.floats(0.01, 1.0))
def test_a_cap_holds_and_keeps_the_order(weights, share):
    """No share above the cap, or all equal where that cannot be; who weighed less than another still does."""
    weights = np.array(weights)
    found = capped(weights / weights.sum(), share)
    assert found.sum() == pytest.approx(1) and found.max() <= max(share, 1 / len(weights)) * (1 + 1e-9)
    assert (np.diff(found[np.argsort(weights)]) >= -1e-12).all()
    if (weights / weights.sum()).max() <= share:
        np.testing.assert_allclose(found, weights / weights.sum())


def test_a_lie_about_rows_is_worth_its_cap():
    """10^12 rows against five honest thousands: with a cap of a fifth the other four have the rest."""
    claimed = np.array([1e12, 1000, 1000, 1000, 1000])
    np.testing.assert_allclose(capped(claimed / claimed.sum(), 0.2), [0.2] * 5)
    np.testing.assert_allclose(capped(np.array([0.6, 0.2, 0.1, 0.1]), 0.4), [0.4, 0.3, 0.15, 0.15])


@pytest.mark.parametrize("spec", ["median", "trimmed:1", "krum:1", "clip"])
def test_many_steps_are_no_attack(spec):
    """All clients go the same way, one step or fifty: each rule leaves tau_eff times that step, as a sum
    does. Judged by length alone, Krum and the median would leave 1, 2 or 3 steps of the mean of 14."""
    step, steps = np.array([0.3, -0.1, 0.2]), np.array([1.0, 2.0, 3.0, 14.0, 50.0])
    found = ruled(spec, steps[:, None] * step, steps=steps)
    np.testing.assert_allclose(found, steps.mean() * step, rtol=1e-6)


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "fednova", "amsfl", "amsfl-paper"])
def test_every_sum_of_deltas_takes_a_rule(name):
    """Clients that agree on the mean step, whatever each counts: a rule then changes nothing."""
    method, anchor = methods.make(name), np.zeros(3)
    steps, weights = np.array([1.0, 5.0, 20.0]), np.array([0.5, 0.3, 0.2])
    sent = [upload(t * np.array([0.3, -0.1, 0.2])) for t in steps]
    server = method.init(anchor)[0]
    work = anchor, server, weights, steps, sent
    plain, *_ = protocol.settle(Federation(method), *work)
    for spec in ("median", "trimmed:1", "clip,krum:1", "cap:0.9"):
        ruled = Federation(method, rule=combine.make(spec))
        found, *_ = protocol.settle(ruled, *work)
        np.testing.assert_allclose(found / np.abs(found).max(), plain / np.abs(plain).max(), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # which numpy gives for what is tested here
@pytest.mark.parametrize("spec", [*OURS.values(), "cap:0.3"])
def test_what_is_not_finite_does_not_count(spec):
    """NaN, infinity and what overflows: the others' answer, as if the fourth and fifth had not come."""
    vectors = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    vectors[3, 1], vectors[4] = np.nan, 1e30
    spec = spec.format(f="0.2")
    np.testing.assert_allclose(ruled(spec, vectors), ruled(spec, vectors[:3]), rtol=1e-4, atol=1e-5)
    assert np.isnan(ruled(spec, vectors[3:4])).all()


def test_numpy_and_jax_are_one():
    vectors = np.random.default_rng(2).normal(size=(6, 5)).astype(np.float32)
    weights, steps = np.array([1, 2, 3, 1, 2, 1], np.float32) / 10, np.array([1, 2, 3, 4, 5, 6], np.float32)
    rule = combine.make("cap:0.3,clip,voices,trust:2,trimmed:1")
    both = [
        jax.jit(partial(weighed, rule))(*jax.tree.map(jnp.asarray, (rows(vectors), weights, steps))),
        weighed(rule, rows(vectors), weights, steps),
    ]
    for ours, theirs in zip(*map(jax.tree.leaves, both), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["scaffold", "feddyn"])
def test_states_that_a_sum_balances_refuse_rules(name):
    with pytest.raises(UserError, match=r"state at every client.*--robust"):
        amsfl.run(**(SMALL | {"dataset": own_data(), "method": name, "robust": "median"}))


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("trimmed", "needs attackers"),
        ("krum:1.5", "whole number of clients"),
        ("trust:0.7", "up to a half"),
        ("clip:-1", "above 0"),
        ("cap:0", "above 0 and at most 1"),
        ("trimed:2", "did you mean 'trimmed'"),
    ],
)
def test_mistakes_are_sentences(spec, says):
    with pytest.raises(UserError, match=says):
        combine.make(spec)


def test_half_is_the_most_that_is_doubted():
    """Two of four that came, or one that holds more than half: the trimmed mean is then the median."""
    vectors = np.random.default_rng(3).normal(size=(4, 3))
    np.testing.assert_allclose(ruled("trimmed:3", vectors), np.median(vectors, axis=0), atol=1e-6)
    np.testing.assert_allclose(ruled("trimmed:1", vectors, [9, 1, 1, 1]), vectors[0], atol=1e-6)


@pytest.mark.parametrize(
    "spec",
    ["median", "trimmed:2", "krum:2", "clip,median", "cap:0.2,trimmed:2", "cap:0.2,voices,trust:2,median"],
)
def test_what_counts_says_what_comes_out(spec):
    """One coordinate, so that nothing is an average over several: the outcome is the sum of what came in by
    what each client is said to count after the last link; all but clipping leaves counts that sum to 1."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        vectors, weights = rng.standard_normal((7, 1)), rng.random(7)
        weights, steps = weights / weights.sum(), np.ones(7)
        rule = combine.make(spec)
        left, shares, counts, _ = weighed(rule, rows(vectors), weights, steps)
        assert [*counts] == [link.name for link in (rule.links or (rule,))]
        last = [*counts.values()][-1]
        np.testing.assert_allclose(last @ vectors, shares @ left.delta, rtol=1e-9, atol=1e-12)
        if "clip" not in spec:
            np.testing.assert_allclose([each.sum() for each in counts.values()], 1, rtol=1e-9)


def test_a_rule_of_ones_own_may_keep_silent():
    """Without a trace what counts is not known, from there on."""
    silent = Combine("silent", lambda uploads, weights, steps, history: Combined(uploads, weights))
    rule = chain([combine.make("cap:1"), silent, combine.make("median")])
    *_, counts, _ = weighed(rule, rows(np.eye(3)), np.full(3, 1 / 3), np.ones(3))
    assert [*counts] == ["cap:1", "silent", "median"]
    assert not np.isnan(counts["cap:1"]).any() and np.isnan([counts["silent"], counts["median"]]).all()


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


@given(st.lists(st.integers(1, 1000), min_size=5, max_size=40), st.integers(1, 5))
def test_no_fifth_has_more_than_half_as_many_steps_again(steps, count):
    """Whatever a plan came to, by whatever lies: any k of n clients have at most 1.5 k/n of all steps, and
    nobody is left without a step."""
    believed = plausible_steps(np.array(steps))
    assert np.sort(believed)[-count:].sum() <= 1.5 * count / len(steps) * believed.sum() + 1e-9
    assert (believed >= 1).all() and (believed <= steps).all()
