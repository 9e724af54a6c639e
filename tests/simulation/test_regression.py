"""Numbers predicted: what a label is taken for, both engines, scores, units, exports, a comparison."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import invoke, succeed
from federation_small import SMALL
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score
from test_portable import loaded

import amsfl
from amsfl import portable, record, sampling
from amsfl.core import UserError
from amsfl.core.scores import NUMBERS, check_target, score
from amsfl.data import describe, load
from amsfl.data.dataset import Dataset, strata
from amsfl.engines.models import tensors
from amsfl.simulation.provenance import base
from amsfl.study.settings import read_study, without_unable

NUMBER = {**SMALL, "lr": 0.1, "precision": "float32"}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rent by size and place, two sites, a gap among the targets; far from 0, so that units matter."""
    rng = np.random.default_rng(0)
    size, place = rng.uniform(20, 120, 160), rng.choice(["old", "new"], 160)
    rent = 1_000_000 + 9 * size + 200 * (place == "new") + rng.normal(0, 20, 160)
    lines = [
        f"{size[i]:.1f},{place[i]},{'a' if i % 3 else 'b'},{'' if i == 5 else f'{rent[i]:.2f}'}"
        for i in range(160)
    ]
    path = tmp_path_factory.mktemp("rent") / "rent.csv"
    path.write_text("\n".join(["size,place,site,rent", *lines]), encoding="utf-8")
    return path


def rows(path: Path, held: bool = True) -> tuple[Any, Any]:
    """Features and targets in their own units."""
    data = load(str(path), label="rent")
    assert data.amount is not None
    x, y = data.evals["holdout"] if held else (data.x, data.y)
    return x, y.astype(np.float64) * data.amount.scale + data.amount.shift


def told(table: dict[str, list[Any]], **asked: str) -> Dataset:
    # fractions, so that x is no row number, which would be left out
    return load({"x": [i % 7 + 0.5 for i in range(len(table["y"]))], **table}, label="y", **asked)


def test_what_a_label_is_taken_for() -> None:
    """Words and few whole numbers are classes; fractions, or more than twenty numbers, are amounts."""
    many = 3000
    assert told({"y": [i % 3 for i in range(90)]}).classes == ("0", "1", "2")
    assert told({"y": ["1.0", "2.0"] * 20}).classes == ("1.0", "2.0")
    assert told({"y": ["no", "yes"] * 20}).classes == ("no", "yes")
    for amounts in (range(many), [i % 21 for i in range(many)], [0.5 * (i % 3) for i in range(60)]):
        data = told({"y": [str(value) for value in amounts]})
        assert data.classes == () and data.amount is not None and data.y.dtype == np.float32
        assert any("--columns y=words" in line for line in describe(data))
        everything = (
            np.concatenate([data.y, data.evals["holdout"][1]]) * data.amount.scale + data.amount.shift
        )
        np.testing.assert_allclose(sorted(everything), sorted(amounts), atol=many * 1e-6)
    assert told({"y": [i % 3 for i in range(90)]}, columns="y=number").classes == ()
    assert len(told({"y": [i % 30 for i in range(900)]}, columns="y=words").classes) == 30
    # decimal commas and a gap: the row is left out and said
    data = told({"y": [f"{i},5" for i in range(40)] + [""]})
    assert len(data.y) + len(data.evals["holdout"][1]) == 40
    assert "Left out 1 row without y" in " ".join(describe(data))


def test_mistakes_of_a_label_are_sentences() -> None:
    with pytest.raises(UserError, match="nothing to predict"):
        told({"y": [7.5] * 20}, columns="y=number")
    with pytest.raises(UserError, match=r"Row 4, column 'y' is 'o\.5', and numbers.*--missing=o\.5"):
        told({"y": ["1.5", "2.5", "3.5", "o.5"] + [f"{i}.25" for i in range(90)]})
    with pytest.raises(UserError, match="--columns y=number"):
        told({"y": [str(i) for i in range(30)]}, columns="y=words")
    with pytest.raises(UserError, match="--columns is for"):
        load("digits", columns="y=number")
    with pytest.raises(UserError, match="nothing to predict"):
        amsfl.run(dataset=own(y=np.full(30, 2.0)), **NUMBER)
    with pytest.raises(UserError, match="row 3 has none"):
        amsfl.run(dataset=own(y=np.where(np.arange(30) == 3, np.nan, 1.0)), **NUMBER)


def own(**changes: Any) -> Dataset:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 2)).astype(np.float32)
    y = 50 + 10 * x[:, 0]
    return Dataset("mine", x, y, {"holdout": (x[:10], y[:10])}, (), ("a", "b"))._replace(**changes)


def test_tenths_of_numbers_stand_for_classes() -> None:
    """Equal in rows, small to large; the same number is never in two of them."""
    y = np.random.default_rng(0).permutation(1000).astype(np.float32)
    assert np.bincount(strata(y)).tolist() == [100] * 10
    assert (np.diff(strata(y)[np.argsort(y)]) >= 0).all()
    assert len(set(strata(np.repeat([1.5, 2.5], 50)))) == 2
    data = told({"y": [float(value) + 0.5 for value in range(1000)]})
    held = np.asarray(data.evals["holdout"][1])
    assert np.bincount(np.searchsorted(np.quantile(data.y, np.linspace(0, 1, 11)[1:-1]), held)).min() >= 18


@pytest.mark.parametrize("loss", ["squared", pytest.param("absolute", marks=pytest.mark.slow)])
def test_engines_agree_and_scores_are_scikit_learns(table: Path, loss: str) -> None:
    settings = NUMBER | {"data": str(table), "label": "rent", "loss": loss, "details": "models"}
    loop, lanes = (amsfl.run(**settings | {"engine": engine}) for engine in ("loop", "jax"))
    np.testing.assert_allclose(loop.params, lanes.params, atol=2e-6)
    x, y = rows(table)
    guess = loop.model.named(loop.model.outputs(x))
    for result in (loop, lanes):
        found = result.summary.metrics["holdout"]
        assert found["r2"] == pytest.approx(r2_score(y, guess), abs=1e-5)
        assert found["mae"] == pytest.approx(mean_absolute_error(y, guess), rel=1e-5)
        assert found["rmse"] == pytest.approx(mean_squared_error(y, guess) ** 0.5, rel=1e-5)
        assert result.summary.accuracy is None and result.summary.local_accuracy is None
        assert result.summary.score == "r2" and result.score == found["r2"]
        local = result.summary.local_scores
        assert local is not None and len(local["holdout"]) == 2
    scale = loop.parts.data.amount.scale
    error = (guess - y) / scale
    mean = {"squared": (error**2).mean() / 2, "absolute": np.abs(error).mean()}[loss]
    assert loop.summary.metrics["holdout"]["loss"] == pytest.approx(mean, rel=1e-4)
    off = base(loop.parts.data, loop.parts.data.evals["holdout"][1])
    train = rows(table, held=False)[1].mean()
    assert off["mae"] == pytest.approx(mean_absolute_error(y, np.full(len(y), train)), rel=1e-5)
    assert off["r2"] == pytest.approx(r2_score(y, np.full(len(y), train)), abs=1e-5)


def test_one_step_by_hand() -> None:
    """A linear model, one client, one step from (w, b): minus lr times the mean of (w.x + b - y) (x, 1)."""
    settings = NUMBER | {"clients": 1, "rounds": 1, "steps": 1, "batch": 7, "precision": "float64"}
    result = amsfl.run(dataset=own(), **settings)
    task = result.parts.task
    before, after = (tensors(task.model, task.unravel(part)) for part in (task.start()[0], result.params))
    with np.errstate(over="ignore"):
        key = sampling.stream(*map(sampling.words, (0, 0, 0)))
        picked = sampling.draw(key, sampling.words(0), np.arange(7, dtype=np.uint32), np.int32(30))
    row = task.shards.order[0, picked]
    x, y = task.x[row], task.y[row]
    error = x @ before["dense1.weight"][0] + before["dense1.bias"] - y
    expected = before["dense1.weight"][0] - 0.1 * (error[:, None] * x).mean(0)
    np.testing.assert_allclose(after["dense1.weight"][0], expected, atol=1e-6)
    np.testing.assert_allclose(after["dense1.bias"], before["dense1.bias"] - 0.1 * error.mean(), atol=1e-6)


def test_predictions_and_exports_are_in_the_users_units(table: Path, tmp_path: Path) -> None:
    settings = NUMBER | {"data": str(table), "label": "rent", "model": "mlp:6", "rounds": 3}
    result = amsfl.run(out=tmp_path / "run", **settings)
    model, x = portable.load(tmp_path / "run", "last"), rows(table)[0]
    expected = result.predict(str(table))
    assert expected.dtype == np.float64 and 1_000_000 < expected.mean() < 1_002_000
    np.testing.assert_allclose(model.predict(str(table)), expected, atol=1e-2)
    for to in ("sklearn", "torch", "onnx"):
        succeed("export", tmp_path / "run", "--to", to, "--which", "last", "--out", tmp_path / to)
    scale = result.parts.data.amount.scale
    near = {"rtol": 0, "atol": 1e-5 * scale}
    regressor = loaded(tmp_path / "sklearn" / "model.py")
    np.testing.assert_allclose(regressor.predict(str(table)), expected, **near)
    expected = model.named(model.outputs(x))
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(tmp_path / "onnx" / "model.onnx"))
    outputs, numbers = session.run(None, {"features": x})
    np.testing.assert_allclose(outputs, model.outputs(x), atol=1e-5)
    np.testing.assert_allclose(numbers[:, 0], expected, **near)
    torch = pytest.importorskip("torch")
    with torch.no_grad():
        found = loaded(tmp_path / "torch" / "model.py")(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, expected, **near)
    with pytest.raises(UserError, match="no probabilities"):
        result.predict_proba(str(table))
    succeed("predict", tmp_path / "run", table, "--out", tmp_path / "p.csv")
    written = list(csv.DictReader((tmp_path / "p.csv").open()))
    assert len(written) == 160 and set(written[0]) == {"row", "prediction"}
    assert float(written[0]["prediction"]) == pytest.approx(
        portable.load(tmp_path / "run").predict(str(table))[0]
    )
    card = (tmp_path / "run" / "MODEL.md").read_text(encoding="utf-8")
    assert "predicts a number: `rent`" in card and "R²" in card and "accuracy" not in card
    assert 'accuracy": null' in (tmp_path / "run" / "summary.json").read_text()
    record.read_run(tmp_path / "run")


def test_targets_go_by_their_score(table: Path, tmp_path: Path) -> None:
    """A target is met from above or below; what does not fit the data, or the range, is a sentence."""
    settings = NUMBER | {"data": str(table), "label": "rent", "rounds": 30}
    free = amsfl.run(**settings)
    maes = [each.metrics["holdout"]["mae"] for each in free.rounds]
    goal = sorted(maes)[len(maes) // 2]
    first = 1 + next(place for place, value in enumerate(maes) if value <= goal)
    hit = amsfl.run(out=tmp_path / "run", **settings | {"target": f"mae={goal!r}"})
    assert hit.summary.rounds_to_target == hit.summary.rounds == first and hit.summary.score == "mae"
    assert hit.summary.best["score"] == min(maes[:first])
    with pytest.raises(UserError, match=r"'f1' is of classes.*r2, mae or rmse"):
        amsfl.run(**settings | {"target": "f1=0.8"})
    with pytest.raises(UserError, match=r"'mae' is of numbers.*accuracy, f1 or f1:CLASS"):
        amsfl.run(**SMALL | {"data": "digits", "target": "mae=3"})
    with pytest.raises(UserError, match="'cross-entropy' is of classes"):
        amsfl.run(**settings | {"loss": "cross-entropy"})
    with pytest.raises(UserError, match="FedCSDA learns from a teacher's classes"):
        amsfl.run(**settings | {"method": "fedcsda"})
    for wrong in ("95", "f1=95", "r2=95", "recall:yes=95"):
        with pytest.raises(UserError, match=r"for 95% write 0\.95"):
            amsfl.run(**settings | {"target": wrong})
    with pytest.raises(UserError, match="unknown score 'f2'"):
        amsfl.run(**settings | {"target": "f2=0.5"})
    with pytest.raises(UserError, match="and the score 'mae' differ"):
        amsfl.run(**settings | {"target": "r2=0.5", "score": "mae"})
    assert check_target("mae", 95.0) == 95.0
    with pytest.raises(UserError, match="no class 'noo'"):
        score("f1:noo", ("no", "yes"))
    assert score("f1:yes", ("no", "yes")).of({"f1": [0.5, 0.25]}) == 0.25
    assert [one.larger for one in NUMBERS.values()] == [True, False, False]


def test_undefined_scores_are_none() -> None:
    """R² of a hold-out whose numbers are all the same does not exist: null on record, not NaN."""
    x = own().x
    result = amsfl.run(dataset=own(evals={"holdout": (x[:4], np.full(4, 50.0))}), **NUMBER)
    assert result.summary.metrics["holdout"]["r2"] is None and result.best_params is None
    assert "NaN" not in json.dumps(result.summary._asdict())


@pytest.mark.usefixtures("without_figures")
def test_a_comparison_of_numbers(table: Path, tmp_path: Path) -> None:
    """From the search to the page: the base row says the mean, and nothing is called accuracy."""
    options = ["--data", str(table), "--label", "rent", "--target", "mae=30"]
    options += ["--engine", "loop", "--model", "softmax"]
    study = tmp_path / "study.toml"
    study.write_text(
        "trials = 1\n[run]\nrounds = 3\n[methods.fedavg]\nsteps = 2\n"
        "[methods.fedprox]\nsteps = 20\nlr = 0.5\noptions = { mu = 0.01 }\n"
    )
    out = tmp_path / "out"
    succeed("compare", "--config", study, "--out", out, *options)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "MAE global" in page and "Accuracy" not in page and "R² hold-out" in page
    found = json.loads((out / "summary.json").read_text())
    assert found["score"] == "mae" and found["base_rate"]["holdout"] > 100
    assert list(csv.reader((out / "table1.csv").open()))[-1][0] == "Mean"
    tried = record.read_study(out).settings["searched"]["fedavg"]["tried"]
    assert all(each["mae"] > 0 for each in tried)
    # a folder that holds something else does not cost a search
    options[options.index("mae=30")] = "mae=20"
    again = invoke("compare", "--config", study, "--out", out, *options)
    assert again.exit_code == 2 and "holds a study with other settings" in again.output
    assert "searching" not in again.output
    every, said = without_unable(read_study("compare"), load(str(table), label="rent"))
    assert "fedcsda" not in every.methods and "amsfl" in every.methods and "Left out fedcsda" in said[0]
