"""Scores that unbalanced data need, and class weights: against scikit-learn's, by hand, on both engines."""

import csv
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from federation_small import SMALL, own_data
from sklearn.calibration import calibration_curve
from sklearn.metrics import confusion_matrix, log_loss, roc_auc_score
from sklearn.utils.class_weight import compute_class_weight

import amsfl
from amsfl.core import UserError
from amsfl.data.dataset import Dataset, class_weights
from amsfl.engines import losses, models, task
from amsfl.engines.contract import BLOCK, outputs
from amsfl.engines.evaluate import evaluator
from amsfl.portable.evaluation import of_classes
from amsfl.report import write


def unbalanced(rows: int = 120, **changes: Any) -> Dataset:
    """A tenth is 'yes', all of it at the second of two sites; 'never' has no row at all."""
    rng = np.random.default_rng(0)
    y = (np.arange(rows) % 10 == 0).astype(np.int32)
    x = np.stack([y + rng.normal(0, 0.7, rows), rng.normal(size=rows)], 1).astype(np.float32)
    held = {"holdout": (x[:40].copy(), y[:40])}
    sites = np.where(y == 1, 1, np.arange(rows) % 2).astype(np.int32)
    data = Dataset("mine", x, y, held, ("no", "yes", "never"), ("a", "b"), sites, ("north", "south"))
    return data._replace(**changes)


def test_balanced_weights_are_scikit_learns_and_a_row_counts_one_on_average() -> None:
    y = np.array([0] * 9 + [1], np.int32)
    assert class_weights("balanced", y, ("a", "b")) == pytest.approx((10 / 18, 10 / 2))
    expected = compute_class_weight("balanced", classes=np.array([0, 1]), y=y)
    assert class_weights("balanced", y, ("a", "b")) == pytest.approx(tuple(expected))
    assert class_weights("balanced", y, ("a", "b", "never")) == pytest.approx((*expected, 0))
    assert class_weights("", y, ("a", "b")) is None
    with pytest.raises(UserError, match="numbers are predicted"):
        class_weights("balanced", np.zeros(3, np.float32), ())


def test_the_weighted_loss_is_the_mean_over_rows() -> None:
    rng = np.random.default_rng(0)
    logits, y, weights = rng.normal(size=(50, 3)), rng.integers(0, 3, 50), (0.5, 2.0, 1.0)
    got = losses.weighted(weights)(jnp.asarray(logits), jnp.asarray(y)).mean()
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    each = np.array(weights)[y]
    expected = log_loss(y, chances, sample_weight=each) * each.mean()
    assert float(got) == pytest.approx(expected, rel=1e-5)


def test_auc_confusion_and_calibration_are_scikit_learns() -> None:
    rng = np.random.default_rng(1)
    logits, y = rng.normal(size=(200, 3)).round(1), rng.integers(0, 3, 200)  # rounded: ties
    found = of_classes(logits, y)
    chances = np.exp(logits - logits.max(1, keepdims=True))  # the same bits: rounding unties
    chances /= chances.sum(1, keepdims=True)
    assert found["confusion"] == confusion_matrix(y, logits.argmax(1)).tolist()
    each = [roc_auc_score(y == place, chances[:, place]) for place in range(3)]
    assert found["auc"] == pytest.approx(each) and found["macro_auc"] == pytest.approx(np.mean(each))
    right, told = calibration_curve(logits.argmax(1) == y, chances.max(1), n_bins=10)
    assert [bin[0] for bin in found["reliability"]] == pytest.approx(told)
    assert [bin[1] for bin in found["reliability"]] == pytest.approx(right)
    rows = np.array([bin[2] for bin in found["reliability"]])
    assert rows.sum() == 200 and found["ece"] == pytest.approx((rows * np.abs(told - right)).sum() / 200)
    one = of_classes(logits, np.zeros(200, int))
    assert one["auc"] == [None, None, None] and one["macro_auc"] is None  # there is nothing to rank


def test_rows_outputs_in_numpy_are_those_of_a_compiled_network() -> None:
    data = own_data()
    network = models.make("mlp:8", data.x.shape[1], len(data.classes))
    job = task.make(data, network, [[np.arange(len(data.y))]], [0])
    params = job.start()[0]
    plain, compiled = outputs(job), outputs(job._replace(model=network._replace(layers=())))
    for x in (job.x, job.evals["holdout"][0], np.resize(job.x, (BLOCK + 5, 2))):
        assert plain(params, x).shape == (len(x), len(data.classes))
        np.testing.assert_allclose(plain(params, x), compiled(params, x), rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("optimized")
def test_splits_of_about_the_same_size_are_scored_by_one_program_to_the_same_bits() -> None:
    data = unbalanced()
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(45, 2)).astype(np.float32), rng.integers(0, 2, 45).astype(np.int32)
    data = data._replace(evals={**data.evals, "test": (x, y)})  # 45 rows beside 40: blocks of 6 and of 5
    job = task.make(data, models.make("softmax", 2, 3), [[np.arange(120)]], [0])
    pool = ThreadPoolExecutor(1)
    both, model = evaluator(job, pool), job.start()
    for split, rows in job.evals.items():
        alone = evaluator(job._replace(evals={split: rows}), pool)(model, split)
        found = both(model, split)
        assert found == alone


@pytest.mark.usefixtures("without_figures")
def test_a_run_tells_every_class_and_client(tmp_path: Path) -> None:
    """On disk without a NaN, in the report as tables and a figure; none of it where nobody asks."""
    data = unbalanced()
    result = amsfl.run(dataset=data, out=tmp_path / "run", **SMALL)
    told = json.loads((tmp_path / "run" / "summary.json").read_text(), parse_constant=pytest.fail)
    assert told["details"]["splits"]["holdout"]["auc"][2] is None
    assert told["metrics"]["holdout"]["f1"][2] is None
    clients = told["details"]["clients"]
    assert list(clients) == ["north", "south"] and sum(each["rows"] for each in clients.values()) == 120
    guess = result.predict(data.x)
    for site, name in enumerate(("north", "south")):
        mine = data.sites == site
        hits = (guess == np.array(data.classes)[data.y])[mine].mean()
        assert clients[name]["accuracy"] == pytest.approx(hits)
    page = write([tmp_path / "run"], tmp_path / "report")
    rows = list(csv.DictReader((tmp_path / "report" / "classes.csv").open()))
    assert len(rows) == 3
    said = list(csv.DictReader((tmp_path / "report" / "confusion.csv").open()))
    table = [[int(row[f"as_{place}"]) for place in range(3)] for row in said]
    assert table == told["details"]["splits"]["holdout"]["confusion"]
    own = list(csv.DictReader((page.parent / "clients.csv").open()))
    assert [float(row["own"]) for row in own] == [each["accuracy"] for each in clients.values()]
    assert amsfl.run(dataset=data, **SMALL | {"details": ""}).summary.details == {}
    target = amsfl.run(dataset=data, **SMALL | {"target": "recall:no=0.5", "rounds": 30})
    assert target.summary.rounds_to_target is not None and target.summary.score == "recall:no"


@pytest.mark.usefixtures("without_figures")
def test_auc_and_other_scores_are_targets_too(tmp_path: Path) -> None:
    """By scikit-learn's numbers at every evaluation, only where a run goes by them."""
    data, settings = unbalanced(classes=("no", "yes")), SMALL | {"rounds": 30, "engine": "loop"}
    found = amsfl.run(dataset=data, out=tmp_path / "run", **settings | {"target": "auc=0.7"})
    assert found.summary.score == "auc" and found.summary.rounds_to_target == len(found.rounds) < 30
    assert all(r.metrics["holdout"]["macro_auc"] < 0.7 for r in found.rounds[:-1])
    x, y = data.evals["holdout"]
    expected = roc_auc_score(y, found.predict_proba(x)[:, 1])
    assert found.rounds[-1].metrics["holdout"]["macro_auc"] == pytest.approx(expected) == found.score
    page = write([tmp_path / "run"], tmp_path / "report").read_text(encoding="utf-8")
    assert "AUC 0.7" in page and "0.500" in page  # the target, and what a constant scores
    other = amsfl.run(dataset=data, **settings | {"score": "recall", "rounds": 2})
    assert other.score == pytest.approx(np.mean(other.summary.metrics["holdout"]["recall"]))
    assert "macro_auc" not in other.summary.metrics["holdout"] and "holdout_recall" in other.to_frame()
    least = amsfl.run(dataset=data, **settings | {"target": "loss=0.4"})
    assert least.summary.rounds_to_target and least.score <= 0.4 < least.rounds[0].metrics["holdout"]["loss"]
    for wrong, why in (("ece=0.1", "unknown score 'ece'"), ("auc:jes=0.9", "no class 'jes'")):
        with pytest.raises(UserError, match=why):
            amsfl.run(dataset=data, **settings | {"target": wrong})
    with pytest.raises(UserError, match="lies between 0 and 1; for 90% write"):
        amsfl.run(dataset=data, **settings | {"target": "auc=90"})
