"""Attacks: seeded, by the clients they name, the same on both engines; what lies win."""

import numpy as np
import pytest
from federation_small import SMALL, own_data
from hypothesis import given
from hypothesis import strategies as st

import amsfl
from amsfl import attack, combine
from amsfl.core import Reading, UserError
from amsfl.planning import doubt
from amsfl.simulation import make_config
from amsfl.simulation.attackers import draw_attackers

ROWS = np.array([[1.0, 2.0], [3.0, 0.0], [5.0, 5.0], [9.0, 9.0]])
FOES, EQUAL = np.array([0, 0, 0, 1]), np.full(4, 0.25)


@pytest.mark.parametrize(
    ("spec", "sent"),
    [
        ("signflip:1/2", [-18, -18]),
        ("mimic:1", [1, 2]),
        # the honest mean is (3, 7/3), deviations of (1, 3, 5) and (2, 0, 5): sqrt(8/3) and sqrt(38/9)
        ("alie:1/1", [3 - (8 / 3) ** 0.5, 7 / 3 - (38 / 9) ** 0.5]),
    ],
)
def test_forged_uploads_by_hand(spec, sent):
    (found,) = attack.make(spec)
    np.testing.assert_allclose(found.forge(ROWS, FOES, EQUAL)[3], sent)


def test_a_sleeper_forges_from_its_round_on():
    attackers = draw_attackers([make_config({"attack": "sleeper:1/3,labelflip:2"})], 6)
    (sleeper,) = np.flatnonzero(attackers.who[0] == 1)
    found = np.stack([attackers.forging(n, np.array([[0]]), np.arange(6)[None])[0] for n in range(6)])
    np.testing.assert_array_equal(found[:, sleeper] > 0, [False] * 3 + [True] * 3)


@pytest.mark.parametrize("name", attack.ATTACKS.table)
def test_no_attack_stops_or_captures_a_run_of_amsfl_under_a_rule(name):
    """Of eight equal clients one attacks: a finite model, and steps for it that an honest one might have."""
    common = SMALL | {"dataset": own_data(600), "method": "amsfl", "clients": 8, "rounds": 4}
    common |= {"partition": "iid", "engine": "loop", "robust": "cap:0.13,clip,voices,trust:1"}
    result = amsfl.run(**common, attack=f"{name}:1")
    (liar,) = np.flatnonzero(result.parts.attackers.who[0])
    mine = sum(each.steps[each.cohort.index(liar)] for each in result.rounds)
    assert np.isfinite(result.params).all()
    assert mine < 0.35 * sum(sum(each.steps) for each in result.rounds)


def test_attackers_are_drawn_by_seed():
    configs = [
        make_config({"attack": text, "seed": seed})
        for seed in (0, 1)
        for text in ("signflip:2,alie:1", "alie:3")
    ]
    attackers = draw_attackers(configs, 10)
    assert [each.name for each in attackers.attacks] == ["signflip:2/1", "alie:1/1.5", "alie:3/1.5"]
    assert (np.sort(attackers.who)[:, -4:] == [[0, 1, 1, 2], [0, 3, 3, 3]] * 2).all()
    assert ((attackers.who[0] > 0) == (attackers.who[1] > 0)).all() and (
        attackers.who[0] != attackers.who[2]
    ).any()
    np.testing.assert_array_equal(draw_attackers(configs, 10).who, attackers.who)


def test_no_attack_is_a_run_as_before():
    """Nobody attacks: the same bits, whether the setting is empty or names an attack of no client."""
    common = SMALL | {"dataset": own_data(), "rounds": 2}
    plain, none = (amsfl.run(**(common | {"attack": text})) for text in ("", "labelflip:0"))
    assert plain.params.tobytes() == none.params.tobytes()


@pytest.mark.parametrize(
    ("spec", "says"),
    [("signflip", "needs clients"), ("alie:1.5", "whole number"), ("alei:1", "did you mean 'alie'")],
)
def test_mistakes_are_sentences(spec, says):
    with pytest.raises(UserError, match=says):
        attack.make(spec)
    with pytest.raises(UserError, match="more than 5 clients"):
        amsfl.run(**(SMALL | {"dataset": own_data(), "attack": "mimic:6"}))


positive = st.floats(1e-3, 1e3)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(
    st.lists(st.tuples(*[positive] * 3), min_size=5, max_size=9),
    st.tuples(*[st.floats(-1e30, 1e30)] * len(Reading._fields)),
)
def test_a_lie_is_worth_a_constant(honest, lie):
    """Whatever one of many says: its held-back loss and gain are within bounds around the others' middle."""
    loss, grad, diff = np.array(honest).T
    fields = [loss, grad, -((grad * diff) ** 0.5) / 2, diff, loss, 0 * loss + 1, grad, diff]
    said = Reading(*(np.append(field, false) for field, false in zip(fields, lie, strict=True)))
    found = doubt.plausible_readings(said)
    assert abs(found.delta_dir[-1]) <= doubt.FAR * diff.max() * (1 + 1e-9)
    assert abs(found.held_loss[-1]) <= doubt.FAR * loss.max() * (1 + 1e-9)


def test_honest_readings_are_believed_as_they_are():
    rng = np.random.default_rng(0)
    grad, diff, delta = rng.normal(size=(3, 8, 30))
    dot = lambda a, b: (a * b).sum(-1)  # noqa: E731
    products = dot(grad, grad), dot(grad, diff), dot(diff, diff)
    held, spread, along = np.full(8, 2.2), np.ones(8), delta @ rng.normal(size=30)
    said = Reading(np.full(8, 2.3), *products, held, spread, dot(delta, delta), along)
    for name, ours, theirs in zip(Reading._fields, doubt.plausible_readings(said), said, strict=True):
        if "dir" not in name:  # those along v are near zero by chance, and their middle with them
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    few = Reading(*(field[:2] for field in said))
    np.testing.assert_array_equal(doubt.plausible_readings(few), few)


def test_as_many_may_lie_as_the_rule_doubts():
    """Four of ten claim a thousandfold: where the rule doubts four, what they are planned by is the honest
    best's and its bound, and rows what the cap lets count; where it names none, a fifth is doubted."""
    sound, false = np.linspace(1, 2, 6), np.full(4, 2000.0)
    given, plausible = np.concatenate([sound, false]), doubt
    told, silent, capping = map(combine.make, ("trust:4,median", "median", "cap:0.1,trust:4,median"))
    assert plausible.plausible_rows(given, told).max() == pytest.approx(plausible.LARGER * 2)
    assert plausible.plausible_rows(given, silent).max() == 2000
    assert plausible.plausible_seconds(1 / given, 4).min() == pytest.approx(1 / (plausible.BETTER * 2))
    gain, fading = plausible.plausible_worth(given, given * 0 + 1, 4)
    assert gain.max() == pytest.approx(plausible.BETTER * 2) and (fading > 0).all()
    capped = plausible.plausible_rows(given / given.sum(), capping)
    np.testing.assert_allclose(capped, capped[0])
