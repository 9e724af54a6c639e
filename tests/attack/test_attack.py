"""Attacks: seeded, by the clients they name, the same on both engines; what lies win, before and after."""

import numpy as np
import pytest
from federation_small import SMALL, own_data
from hypothesis import given, settings
from hypothesis import strategies as st

import amsfl
from amsfl import attack, combine, data, drift
from amsfl.attack.false_reports import marked
from amsfl.core import Reading, UserError
from amsfl.simulation import make_config
from amsfl.simulation.attackers import draw_attackers

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


@pytest.mark.parametrize("spec", ["minmax:1", "minsum:1"])
def test_attacks_that_hide_go_as_far_as_honest_clients_lie_apart(spec):
    """To the letter of the paper: along the deviations from the mean, to where one more would show."""
    rows, attackers = np.random.default_rng(5).normal(size=(6, 7)), np.array([0, 0, 1, 0, 0, 1])
    sent = attack.make(spec)[0].forge(rows, attackers, np.arange(6, dtype=np.uint32), np.full(6, 1 / 6))[2]
    true = rows[attackers == 0]
    mean, spread = true.mean(0), true.std(0)
    apart = ((true[:, None] - true[None]) ** 2).sum(2)

    def shows(scale):
        far = ((mean - scale * spread - true) ** 2).sum(1)
        return far.max() > apart.max() if spec == "minmax:1" else far.sum() > apart.sum(1).max()

    (scale,) = np.unique(((mean - sent) / spread).round(9))
    assert scale > 0 and not shows(scale * (1 - 1e-6)) and shows(scale * (1 + 1e-6))


def test_who_forges_when():
    """A sleeper from its round on, those who take turns every other round."""
    attackers = draw_attackers([make_config({"attack": "sleeper:1/3,turns:2"})], 6)
    everybody = np.arange(6)[None]
    (sleeper,) = np.flatnonzero(attackers.who[0] == 1)
    found = np.stack([attackers.forging(number, np.array([[0]]), everybody)[0] for number in range(6)])
    np.testing.assert_array_equal(found[:, sleeper] > 0, [False] * 3 + [True] * 3)
    for each in np.flatnonzero(attackers.who[0] == 2):
        np.testing.assert_array_equal(found[:, each] > 0, (np.arange(6) + each) % 2 == 0)


@pytest.mark.slow
def test_a_backdoor_is_learned_beside_the_rest_and_a_rule_keeps_it_out():
    """Marked rows of other classes: with one of eight marking them, and its upload sent tenfold, most are
    called class 0; under a rule no more than where nobody attacks, give or take a tenth."""
    whole = data.load("digits")
    x, y = whole.evals["holdout"]
    whole = whole._replace(evals={"holdout": (x, y), "marked": (marked(x[y != 0]), y[y != 0] * 0)})
    common = {"clients": 8, "partition": "iid", "rounds": 12, "model": "softmax", "dataset": whole}
    common |= {"method": "fedavg", "lr": 0.3, "engine": "loop"}
    rule = "cap:0.13,clip,voices,trust:1"
    hit = {
        (rule_, text): amsfl.run(**common, robust=rule_, attack=text).rounds[-1].metrics
        for rule_, text in (("", "backdoor:1"), (rule, ""), (rule, "backdoor:1"))
    }
    won = {key: each["marked"]["accuracy"] for key, each in hit.items()}
    assert won["", "backdoor:1"] > 0.5 and won[rule, "backdoor:1"] < won[rule, ""] + 0.1
    assert hit[rule, "backdoor:1"]["holdout"]["accuracy"] > 0.85


@pytest.mark.parametrize("name", [each for each in attack.names() if each not in ("gain", "drift", "loss")])
def test_no_attack_stops_or_captures_a_run_of_amsfl_under_a_rule(name):
    """Of eight equal clients one attacks: a finite model, and steps for it that an honest one might have."""
    common = SMALL | {"dataset": own_data(600), "method": "amsfl", "clients": 8, "rounds": 4}
    common |= {"partition": "iid", "engine": "loop", "robust": "cap:0.13,clip,voices,trust:1"}
    result = amsfl.run(**common, attack=f"{name}:1")
    (liar,) = np.flatnonzero(result.parts.attackers.who[0])
    mine = sum(each.steps[each.cohort.index(liar)] for each in result.rounds)
    assert np.isfinite(result.params).all()
    assert mine < 0.35 * sum(sum(each.steps) for each in result.rounds)


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
    attackers = draw_attackers(configs, 10)
    assert [each.name for each in attackers.attacks] == ["signflip:2/1", "alie:1/1.5", "alie:3/1.5"]
    assert (np.sort(attackers.who)[:, -4:] == [[0, 1, 1, 2], [0, 3, 3, 3]] * 2).all()
    assert ((attackers.who[0] > 0) == (attackers.who[1] > 0)).all() and (
        attackers.who[0] != attackers.who[2]
    ).any()
    np.testing.assert_array_equal(draw_attackers(configs, 10).who, attackers.who)


@pytest.mark.parametrize("rule", ["", "cap:0.3,nnm:1,trimmed:1"])
def test_engines_agree(rule):
    """Four kinds at once, with and without a rule, in float64."""
    common = SMALL | {"dataset": own_data(), "rounds": 3, "clients": 6, "robust": rule}
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
@given(
    st.lists(st.tuples(*[positive] * 3), min_size=5, max_size=9),
    st.tuples(*[st.floats(-1e30, 1e30)] * len(Reading._fields)),
)
def test_a_lie_is_worth_a_constant(honest, lie):
    """Whatever one of many says: its loss, norms and worth are within the bounds around the others' middle,
    and products fit the norms that they are of."""
    loss, grad, diff = np.array(honest).T
    fields = [loss, grad, diff, grad, -((grad * diff) ** 0.5) / 2, 0 * loss, -grad, diff, grad]
    fields += [loss, 0 * loss + 1, diff, grad, grad]  # held back, spread, the way, the opening, the length
    said = Reading(*(np.append(field, false) for field, false in zip(fields, lie, strict=True)))
    found = drift.plausibility.plausible_readings(said)
    for name, far in (("loss", drift.plausibility.FAR), ("grad_sq", drift.plausibility.FAR_SQ)):
        value, sizes = getattr(found, name)[-1], getattr(said, name)[:-1]
        assert 0 <= value <= far * sizes.max() * (1 + 1e-9) or (name == "grad_sq" and lie[1] <= 0)
    assert abs(found.grad_dir[-1]) <= drift.plausibility.FAR * grad.max() * (1 + 1e-9)
    assert abs(found.way_begin[-1]) <= drift.plausibility.FAR * diff.max() * (1 + 1e-9)
    for name, most in (("held_loss", loss.max()), ("opening", grad.max())):
        assert getattr(found, name)[-1] <= drift.plausibility.FAR * most * (1 + 1e-9)
    most = np.sqrt(np.abs(found.grad_sq * found.diff_sq)) * (1 + 2e-3)
    assert np.isnan(found.grad_diff[-1]) or abs(found.grad_diff[-1]) <= most[-1]
    ratio = found.loss / found.grad_sq
    assert (
        ratio[-1] <= drift.plausibility.FAR * max(ratio[:-1].max(), (loss / grad).max()) * (1 + 1e-9)
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
    held, spread, way, opening = np.full(8, 2.2), np.ones(8), np.linspace(1, 2, 8), np.linspace(0.1, 0.3, 8)
    said = Reading(np.full(8, 2.3), *(dot(a, b) for a, b in pairs), held, spread, way, opening, 3 * opening)
    for name, ours, theirs in zip(
        Reading._fields, drift.plausibility.plausible_readings(said), said, strict=True
    ):
        if "dir" not in name:  # those along v are near zero by chance, and their middle with them
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    few = Reading(*(field[:2] for field in said))
    np.testing.assert_array_equal(drift.plausibility.plausible_readings(few), few)


def test_as_many_may_lie_as_the_rule_doubts():
    """Four of ten claim a thousandfold: where the rule doubts four, what they are planned by is the honest
    best's and its bound, and rows what the cap lets count; where it names none, a fifth is doubted."""
    sound, false = np.linspace(1, 2, 6), np.full(4, 2000.0)
    given, plausible = np.concatenate([sound, false]), drift.plausibility
    told, silent = (plausible.believing(combine.make(spec)) for spec in ("nnm:4,geomedian", "geomedian"))
    assert told.rows(given).max() == pytest.approx(plausible.LARGER * 2) and silent.rows(given).max() == 2000
    assert told.seconds(1 / given).min() == pytest.approx(1 / (plausible.BETTER * 2))
    gain, fading = told.worth(given, given * 0 + 1)
    assert gain.max() == pytest.approx(plausible.BETTER * 2) and (fading > 0).all()
    capped = plausible.believing(combine.make("cap:0.1,nnm:4,geomedian")).rows(given / given.sum())
    np.testing.assert_allclose(capped, capped[0])


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
            "clock": "sum",  # where one client's steps are another's seconds
            "batch": 2,  # few rows, and yet no limit by passes over them
            "robust": rule,
        }
        result = amsfl.run(**common, attack=spec)
        (liar,) = np.flatnonzero(result.parts.attackers.who[0]) if spec else (0,)
        steps = np.array(result.rounds[-1].steps)
        found[spec] = steps[liar] / steps.sum(), np.delete(steps, liar).min(), result.rounds[-1].lr
    return found


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.slow
def test_what_lies_win_before_and_after():
    """One of eight equal clients lies. Unbounded it has all the steps that a client may take, the others few,
    and the learning rate a liar likes; bounded it is planned as the best of the others (docs/robust.md)."""
    after, before = damage("cap:0.13"), damage("")  # of equal clients it changes nothing: among strangers
    assert before[""][0] == pytest.approx(after[""][0], abs=0.02)  # nobody lies: the plan stays as it was
    for lie, share, least in (("readings:1", 0.8, 1), ("seconds:1", 0.6, 3)):
        assert before[lie][0] > share and before[lie][1] <= least
        assert after[lie][0] < 0.25 and after[lie][1] >= 5
    assert before["readings:1"][2] > 1e4 * before[""][2] and after["readings:1"][2] < 3 * after[""][2]
    assert after["rows:1"][0] < 0.7 * before["rows:1"][0]
