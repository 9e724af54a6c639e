"""Attacks: seeded, by the clients they name, the same on both engines; what lies win, before and after."""

import numpy as np
import pytest
from federation_small import SMALL, own_data
from hypothesis import given, settings
from hypothesis import strategies as st

import amsfl
from amsfl import attack, drift
from amsfl.core import Reading, UserError
from amsfl.federation import make_config
from amsfl.federation.foes import cast

ROWS = np.array([[1.0, 2.0], [3.0, 0.0], [5.0, 5.0], [9.0, 9.0]])
FOES, WORDS, EQUAL = np.array([0, 0, 0, 1]), np.arange(4, dtype=np.uint32), np.full(4, 0.25)


@pytest.mark.parametrize(
    ("spec", "sent"),
    [
        ("signflip:1/2", [-18, -18]),
        ("mimic:1", [1, 2]),
        ("ipm:1/2", [-6, -14 / 3]),  # the honest mean is (3, 7/3)
        # deviations of (1, 3, 5) and (2, 0, 5): sqrt(8/3) and sqrt(38/9)
        ("alie:1/1", [3 - (8 / 3) ** 0.5, 7 / 3 - (38 / 9) ** 0.5]),
    ],
)
def test_forged_uploads_by_hand(spec, sent):
    (found,) = attack.make(spec)
    np.testing.assert_allclose(found.forge(ROWS, FOES, WORDS, EQUAL)[3], sent)


def test_noise_is_as_long_as_it_says_and_another_every_time():
    (found,) = attack.make("gaussian:1/10")
    rows = np.ones((4, 20_000))
    with np.errstate(over="ignore"):
        noise = found.forge(rows, FOES, WORDS, EQUAL)
    assert abs(noise.mean()) < 5 * 10 / 80_000**0.5 and noise.std() == pytest.approx(10, rel=0.02)
    assert abs(np.corrcoef(noise)[np.triu_indices(4, 1)]).max() < 5 / 20_000**0.5


def test_attackers_are_drawn_by_seed():
    configs = [
        make_config({"attack": text, "seed": seed})
        for seed in (0, 1)
        for text in ("signflip:2,alie:1", "alie:3")
    ]
    foes = cast(configs, 10)
    assert [each.name for each in foes.attacks] == ["signflip:2/1", "alie:1/1.5", "alie:3/1.5"]
    assert (np.sort(foes.who)[:, -4:] == [[0, 1, 1, 2], [0, 3, 3, 3]] * 2).all()
    assert ((foes.who[0] > 0) == (foes.who[1] > 0)).all() and (foes.who[0] != foes.who[2]).any()
    np.testing.assert_array_equal(cast(configs, 10).who, foes.who)


@pytest.mark.parametrize("combine", ["", "cap:0.3,nnm:1,trimmed:1"])
def test_engines_agree(combine):
    """Four kinds at once, with and without a rule, in float64."""
    common = SMALL | {"dataset": own_data(), "rounds": 3, "clients": 6, "combine": combine}
    common |= {"attack": "gaussian:1,labelflip:1,rows:1,alie:1"}
    loop, jax = (amsfl.run(**(common | {"engine": engine})) for engine in ("loop", "jax"))
    np.testing.assert_allclose(loop.params, jax.params, rtol=1e-6, atol=1e-9)


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
@settings(deadline=None)
@given(st.lists(st.tuples(*[positive] * 3), min_size=5, max_size=9), st.tuples(*[st.floats(-1e30, 1e30)] * 9))
def test_a_lie_is_worth_a_constant(honest, lie):
    """Whatever one of many says: its loss, norms and worth are within the bounds around the others' middle,
    and products fit the norms that they are of."""
    loss, grad, diff = np.array(honest).T
    fields = [loss, grad, diff, grad, -((grad * diff) ** 0.5) / 2, 0 * loss, -grad, diff, grad]
    said = Reading(*(np.append(field, false) for field, false in zip(fields, lie, strict=True)))
    found = drift.plausible.believed(said)
    for name, far in (("loss", drift.plausible.FAR), ("grad_sq", drift.plausible.FAR_SQ)):
        value, sizes = getattr(found, name)[-1], getattr(said, name)[:-1]
        assert 0 <= value <= far * sizes.max() * (1 + 1e-9) or (name == "grad_sq" and lie[1] <= 0)
    assert abs(found.grad_dir[-1]) <= drift.plausible.FAR * grad.max() * (1 + 1e-9)
    most = np.sqrt(np.abs(found.grad_sq * found.diff_sq)) * (1 + 2e-3)
    assert np.isnan(found.grad_diff[-1]) or abs(found.grad_diff[-1]) <= most[-1]
    ratio = found.loss / found.grad_sq
    assert (
        ratio[-1] <= drift.plausible.FAR * max(ratio[:-1].max(), (loss / grad).max()) * (1 + 1e-9)
        or lie[1] <= 0
    )


def test_honest_readings_are_believed_as_they_are():
    rng = np.random.default_rng(0)
    grad, diff, delta = rng.normal(size=(3, 8, 30))
    v = rng.normal(size=30)
    dot = lambda a, b: (a * b).sum(-1)  # noqa: E731
    pairs = [
        (grad, grad),
        (diff, diff),
        (delta, delta),
        (grad, diff),
        (grad, delta),
        (grad, v),
        (diff, v),
        (delta, v),
    ]
    said = Reading(np.full(8, 2.3), *(dot(a, b) for a, b in pairs))
    for name, ours, theirs in zip(Reading._fields, drift.plausible.believed(said), said, strict=True):
        if "dir" not in name:  # those along v are near zero by chance, and their middle with them
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    few = Reading(*(field[:2] for field in said))
    np.testing.assert_array_equal(drift.plausible.believed(few), few)


LIES = ["", "readings:1", "seconds:1", "rows:1"]


def damage(rule):
    """By lie: the liar's share of all steps, the least steps of an honest client, the learning rate."""
    found = {}
    for spec in LIES:
        common = SMALL | {
            "dataset": own_data(600),
            "clients": 8,
            "method": "amsfl",
            "rounds": 6,
            "partition": "iid",
            "batch": 2,  # few rows, and yet no limit by passes over them
            "combine": rule,
        }
        result = amsfl.run(**common, attack=spec)
        (liar,) = np.flatnonzero(result.parts.foes.who[0]) if spec else (0,)
        steps = np.array(result.rounds[-1].steps)
        found[spec] = steps[liar] / steps.sum(), np.delete(steps, liar).min(), result.rounds[-1].lr
    return found


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_lies_win_before_and_after():
    """One of eight equal clients lies. Unbounded it has nine tenths of all steps, the others one each, and
    the learning rate a liar likes; bounded it is planned as the best of the others (docs/robust.md)."""
    after, before = damage("cap:0.13"), damage("")  # of equal clients it changes nothing: among strangers
    assert before[""][0] == pytest.approx(after[""][0], abs=0.02)  # nobody lies: the plan stays as it was
    for lie in ("readings:1", "seconds:1"):
        assert before[lie][0] > 0.8 and before[lie][1] == 1
        assert after[lie][0] < 0.4 and after[lie][1] >= 5
    assert before["readings:1"][2] > 1e6 and after["readings:1"][2] < 3 * after[""][2]
    assert after["rows:1"][0] < 0.7 * before["rows:1"][0]
