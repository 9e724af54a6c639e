"""Record-level differential privacy: the sampling, the clipping, the book, and what a run says of it."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import amsfl
from amsfl import sampling
from amsfl.core import Remark, RowPrivacy, UserError
from amsfl.engines import losses, models, private_gradients
from amsfl.privacy import Exposure, accounting, epsilon, steps_within
from amsfl.simulation.provenance import leaves_of

dp_accounting = pytest.importorskip("dp_accounting", reason="pip install 'amsfl[privacy]'")
pld = pytest.importorskip("dp_accounting.pld")

SMALL = {"data": "digits", "model": "softmax", "batch": 32, "lr": 0.5, "steps": 3, "rounds": 2, "noise": 3.0}
SMALL["engine"] = "loop"


def test_epsilon_is_dp_accountings_own():
    """Its PLD accountant with its own event tree and fineness; ours is coarser, above, by 1% at most."""
    for chance, noise, steps in ((0.2, 3.0, 40), (0.01, 0.8, 200), (1.0, 15.0, 10)):
        event = dp_accounting.GaussianDpEvent(noise)
        event = dp_accounting.PoissonSampledDpEvent(chance, event) if chance < 1 else event
        theirs = pld.PLDAccountant()
        theirs.compose(event, steps)
        whole = theirs.get_epsilon(1e-5)
        assert whole * (1 - 1e-6) <= epsilon(Exposure(chance, noise, 1e-5), steps) <= 1.01 * whole


def test_steps_left_are_the_last_that_fit():
    site = Exposure(0.1, 2.0, 1e-5)
    found = steps_within(site, 2.0)
    assert epsilon(site, found) <= 2 < epsilon(site, found + max(1, found // 50))
    assert steps_within(site, 1e-3) == 0
    assert all(n <= accounting.mark(n) <= n * 9 / 8 for n in range(1, 3000))


def test_every_row_is_in_by_its_own_chance():
    """Counts over 2,000 batches: each row's near q, no pair of rows together more than by chance."""
    rows, steps = 50, 2000
    word = sampling.chance(10, rows)
    inside = np.zeros((steps, rows), bool)
    with np.errstate(over="ignore"):
        key = sampling.stream(*map(sampling.words, (7, 3, 1)))
        for step in range(steps):
            inside[step, chosen(key, step, 10, rows)] = True
        noise = sampling.normal(key, sampling.words(0), np.arange(100_000, dtype=np.uint32))
    share = sampling.share(word)
    assert share == pytest.approx(0.2, abs=1e-9)
    deviation = (share * (1 - share) / steps) ** 0.5
    assert np.abs(inside.mean(0) - share).max() < 5 * deviation
    sizes = inside.sum(1)
    assert sizes.var() == pytest.approx(rows * share * (1 - share), rel=0.15)  # a fixed size would have none
    together = np.corrcoef(inside.T) - np.eye(rows)
    assert np.abs(together).max() < 5 / steps**0.5
    moments = [np.mean(noise.astype(float) ** power) for power in (1, 2, 3, 4)]
    assert moments == pytest.approx([0, 1, 0, 3], abs=0.06)
    assert (np.abs(noise) > 3).mean() == pytest.approx(0.0027, abs=0.0006)
    assert sampling.share(sampling.chance(64, 3)) == 1.0  # fewer rows than the batch: all of them, always
    assert chosen(key, 0, 64, 3).tolist() == [0, 1, 2]


def chosen(key, step, batch, rows):
    """The whole batch in one go."""
    with np.errstate(over="ignore"):
        places = np.arange(rows, dtype=np.uint32)
        passed = sampling.gaps(key, sampling.words(step), places, sampling.digits(batch, rows))
    inside = np.cumsum(passed.astype(np.int64) + 1) - 1
    return inside[inside < rows]


@pytest.mark.parametrize("batch, rows", [(1, 3), (64, 100), (64, 25_000), (1, 1_000_000)])
def test_digits_make_the_gaps_of_coins(batch, rows):
    """P(k rows are passed over) = q (1-q)^k, worked out from the digits' thresholds; never more than q."""
    q = sampling.share(sampling.chance(batch, rows))
    ones = sampling.digits(batch, rows) / 2**32
    for k in (0, 1, 2, 5, 37):
        bits = (k >> np.arange(len(ones))) & 1
        found = np.prod(np.where(bits, ones, 1 - ones)) if k < 2 ** len(ones) else 0.0
        assert found == pytest.approx(q * (1 - q) ** k, rel=1e-7, abs=1e-9)
    assert np.prod(1 - ones) <= q


def test_rows_are_found_in_turns_and_none_is_lost():
    """A batch larger than the room is taken in several turns."""
    key = jnp.uint32(3), jnp.uint32(5)
    thresholds = jnp.asarray(sampling.digits(40, 300))
    found, begin, turn = [], jnp.int32(0), 0
    while begin < 300:
        place, begin = private_gradients.next_rows(key, 2, thresholds, turn, begin, 16, 500)
        found += np.asarray(place)[np.asarray(place) < 300].tolist()
        turn += 1
    assert turn > 2 and found == chosen(tuple(map(np.uint32, (3, 5))), 2, 40, 300).tolist()


@pytest.mark.parametrize("spec", ["mlp:7", pytest.param("cnn", marks=pytest.mark.slow)])
def test_clipped_sums_are_those_of_rows_one_by_one(spec):
    model = models.make(spec, 16, 3)
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(6, 16)) * 3, rng.integers(0, 3, 6)
    params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), jax.jit(model.init)(jax.random.key(1)))
    there = np.array([True, True, False, True, True, True])
    loss = losses.cross_entropy
    private = RowPrivacy(0.5)
    summed = private_gradients.sum_of_any(model.apply, loss, private)
    if spec != "cnn":
        summed = private_gradients.sum_of_layers(loss, private)
    found = jax.jit(summed)(params, x, y, there)
    expected = jax.tree.map(np.zeros_like, params)
    gradient = jax.jit(jax.grad(lambda p, x, y: loss(model.apply(p, x), y).sum()))
    for row in np.flatnonzero(there):
        grad = jax.tree.map(np.asarray, gradient(params, x[row : row + 1], y[row : row + 1]))
        norm = sum(float((leaf * leaf).sum()) for leaf in jax.tree.leaves(grad)) ** 0.5
        expected = jax.tree.map(lambda a, g, n=norm: a + g * min(1, 0.5 / n), expected, grad)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


def test_a_client_stops_and_the_run_goes_on(tmp_path):
    """The book: dp-accounting's answer for the steps on record, none above the budget, resumed alike."""
    given = SMALL | {"method": "fedavg", "epsilon": 1.5, "steps": 20, "partition": "quantity:1"}
    run = amsfl.run(out=tmp_path / "a", **given | {"rounds": 4})
    cohorts = [record.cohort for record in run.rounds]
    assert len(cohorts[0]) == 5 > len(cohorts[-1])
    assert all(value <= 1.5 for value in run.summary.epsilon.values())
    rows = run.parts.task.shards.size[0]
    for who, (name, steps) in enumerate(run.summary.steps.items()):
        site = Exposure(sampling.share(sampling.chance(32, rows[who])), 3.0, 1e-5)
        assert run.summary.epsilon[name] == epsilon(site, steps)
        assert run.rounds[-1].epsilon[who] >= run.summary.epsilon[name]
    assert any("epsilon" in record.plan["why"] for record in run.rounds)
    amsfl.run(out=tmp_path / "b", **given | {"rounds": 2})
    longer = amsfl.resume(tmp_path / "b", rounds=4)
    assert longer.summary.epsilon == run.summary.epsilon
    assert [r.epsilon for r in longer.rounds] == [r.epsilon for r in run.rounds]
    said = json.loads((tmp_path / "a" / "summary.json").read_text())
    assert said["epsilon"] == run.summary.epsilon
    left = {leaf.name: leaf.protected for leaf in leaves_of(tmp_path / "a")}
    assert "epsilon" in left["delta"] and "reading" not in left


def test_plans_pace_what_is_left(tmp_path):
    """Ten rounds of a planned run: every client works in the last ones, too; a budget of its own for each."""
    table = tmp_path / "sites.csv"
    table.write_text("step_seconds,latency,epsilon\n0.01,0.1,1\n0.01,0.1,2\n0.03,0.1,1\n")
    given = SMALL | {"method": "amsfl", "clients": 3, "profile": str(table), "rounds": 10, "partition": "iid"}
    with pytest.warns(Remark, match="Under privacy amsfl does without"):
        run = amsfl.run(**given)
    spent = list(run.summary.epsilon.values())
    assert spent[0] <= 1 and 1 < spent[1] <= 2 and spent[2] <= 1
    steps = np.array([record.steps for record in run.rounds])
    assert steps.shape == (10, 3)
    limit = run.parts.ledgers[0].limits[0]
    assert (steps[:, 0].cumsum() <= np.ceil(limit * np.arange(1, 11) / 10)).all()
    assert run.rounds[0].plan["why"][0] == "epsilon"


def test_all_spent_ends_the_run():
    run = amsfl.run(**SMALL | {"method": "fedavg", "epsilon": 0.6, "rounds": 50})
    assert run.summary.rounds < 50 and "spent" in run.summary.note


def test_a_run_that_scores_ended_claims_its_budget():
    """It reached its target early and spent less; the claim is what was allowed, or none."""
    given = SMALL | {"method": "fedavg", "target": 0.15, "rounds": 20, "engine": "loop", "noise": 1.0}
    run = amsfl.run(**given, epsilon=4.0)
    assert run.summary.rounds < 20 and max(run.rounds[-1].epsilon) < 4
    assert set(run.summary.epsilon.values()) == {4.0}
    details = run.summary.details  # on by default; no client's own rows are scored in them
    assert details["splits"]["holdout"] and not details["clients"]
    unbound = amsfl.run(**given, privacy="record")
    assert not unbound.summary.epsilon and "no epsilon can be claimed" in unbound.summary.note


def test_a_tables_words_and_ranges_must_be_public(tmp_path):
    table = tmp_path / "t.csv"
    lines = [f"{i % 7},{'miller' if i == 3 else 'word'},{'ab'[i % 2]}" for i in range(60)]
    table.write_text("\n".join(["number,name,label", *lines]))
    given = {"data": str(table), "epsilon": 8.0, "rounds": 1, "clients": 2, "engine": "loop", "steps": 2}
    given |= {"method": "fedavg", "model": "softmax", "noise": 3.0}
    with pytest.raises(UserError, match="public-columns"):
        amsfl.run(**given)
    amsfl.run(**given, public_columns=True, out=tmp_path / "run")
    left = {leaf.name: leaf.protected for leaf in leaves_of(tmp_path / "run")}
    assert "declared public" in left["columns"] and "training rows alone" in left["holdout"]


def batchwise(x: jax.Array) -> jax.Array:
    return x - x.mean(0)


REFUSED = {
    "not one step": ({"epsilon": 0.01}, "single step"),
    "asked for": ({"epsilon": 2.0, "options": {"judge": 1.0}}, "leave its"),
    "teacher": ({"epsilon": 2.0, "method": "fedcsda"}, "as they are"),
    "counts": ({"epsilon": 2.0, "class_weights": "balanced"}, "counts of classes"),
    "both": ({"epsilon": 2.0, "privacy": "none"}, "leave one"),
    "own models": ({"epsilon": 2.0, "details": "models"}, "models out of --details"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_makes_no_sense_is_refused_beforehand(case):
    given, words = REFUSED[case]
    with pytest.raises(UserError, match=words):
        amsfl.run(**SMALL | given)


def test_a_model_that_looks_across_rows_is_refused():
    plain = models.make("softmax", 64, 10)
    across = models.Model("across", plain.init, lambda params, x: plain.apply(params, batchwise(x)))
    settings = {key: value for key, value in SMALL.items() if key != "model"}
    with pytest.raises(UserError, match="beside others"):
        amsfl.run(network=across, epsilon=2.0, **settings)
