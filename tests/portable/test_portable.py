"""A model that leaves: the same logits in every library; predictions as others take them."""

import csv
import importlib.util
import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import invoke, succeed

import amsfl
from amsfl import portable
from amsfl.core import Remark, UserError
from amsfl.data import load
from amsfl.data.dataset import LabelScale
from amsfl.engines.models import make
from amsfl.portable import PortableModel
from amsfl.portable.evaluation import as_csv
from amsfl.portable.network import shapes
from amsfl.portable.sklearn_model import as_values

MODELS = ("softmax", "mlp:12-7", "cnn")
SLOW = [pytest.param(each, marks=pytest.mark.slow) for each in ("softmax", "cnn")]


@pytest.fixture(scope="module", params=["mlp:12-7", *SLOW])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    where = tmp_path_factory.mktemp("runs") / "run"
    settings = {"data": "digits", "clients": 3, "rounds": 3, "steps": 3, "engine": "loop"}
    return where, amsfl.run(method="fedavg", model=request.param, out=where, **settings)


def rows_of(result: Any) -> Any:
    """Raw pixels, as digits has them."""
    return result.parts.data.evals["holdout"][0] * 16


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("exported", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load()


def test_every_library_has_the_same_logits(trained: Any, tmp_path: Path) -> None:
    where, result = trained
    x = rows_of(result)
    expected = result.logits(x)
    model = portable.load(where, "last")
    np.testing.assert_allclose(model.logits(x), expected, atol=1e-5)
    frame = dict(zip(model.features, x.T, strict=True))  # arrays and frames mean the same
    np.testing.assert_array_equal(model.logits(frame), model.logits(x))
    features = model.encode(x)
    np.testing.assert_array_equal(features, result.parts.data.evals["holdout"][0])
    with pytest.raises(UserError, match="times as large"):
        model.predict(features)
    with pytest.warns(Remark, match="times as large"):  # a frame is believed
        model.predict(dict(zip(model.features, features.T, strict=True)))
    for to in ("sklearn", "torch", "onnx"):
        succeed("export", where, "--to", to, "--which", "last", "--out", tmp_path / to)
    classifier = loaded(tmp_path / "sklearn" / "model.py")
    np.testing.assert_allclose(classifier.decision_function(x), expected, atol=1e-5)
    digits = result.parts.data.evals["holdout"][1]  # numbers, as a data frame has them
    assert classifier.score(x, digits) == pytest.approx(result.accuracy)
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(tmp_path / "onnx" / "model.onnx"))
    logits, chances = session.run(None, {"features": features})
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    np.testing.assert_allclose(chances, result.predict_proba(x), atol=1e-5)
    torch = pytest.importorskip("torch")
    with torch.no_grad():
        found = loaded(tmp_path / "torch" / "model.py")(torch.from_numpy(features)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_layers_describe_what_the_engines_train() -> None:
    """The list of layers has as many numbers as the flat vector: nothing is left out of the files."""
    import jax

    for spec in MODELS:
        model = make(spec, 64, 10)
        leaves = jax.tree.leaves(jax.eval_shape(model.init, jax.random.key(0)))
        assert sum(leaf.size for leaf in leaves) == sum(np.prod(s) for s in shapes(model.layers).values())


def test_the_best_and_the_last_round_survive_a_stop(tmp_path: Path) -> None:
    """A run stopped at a checkpoint and resumed leaves the same files as one that was not."""
    settings: dict[str, Any] = {"data": "digits", "model": "softmax", "method": "fedavg", "clients": 3}
    settings |= {"lr": 3.0, "steps": 8, "rounds": 6, "checkpoint_every": 2}  # scores go to and fro

    def stop(fresh: Any) -> None:
        if fresh.round == 4:
            raise RuntimeError

    whole = amsfl.run(out=tmp_path / "whole", **settings)
    with pytest.raises(RuntimeError):
        amsfl.run(out=tmp_path / "cut", watch=stop, **settings)
    assert not (tmp_path / "cut" / "model.json").exists()
    with pytest.raises(UserError, match="holds no model"):
        portable.load(tmp_path / "cut")
    amsfl.resume(tmp_path / "cut")
    for name in ("model.safetensors", "model-best.safetensors", "model.json", "MODEL.md"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()
    scores = [each.metrics["holdout"]["accuracy"] for each in whole.rounds]
    assert whole.summary.best["round"] == 1 + int(np.argmax(scores)) and whole.summary.best["score"] == max(
        scores
    )
    x, y = rows_of(whole), whole.parts.data.evals["holdout"][1]
    names = np.array(whole.parts.data.classes)[y]
    best = portable.load(tmp_path / "whole", "best")
    assert (best.predict(x) == names).mean() == pytest.approx(max(scores))
    assert (whole.predict(x) == names).mean() == pytest.approx(whole.accuracy)


def test_predict_writes_names_and_probabilities(tmp_path: Path) -> None:
    lines = [f"{i % 7},{'north' if i % 3 else 'süd'},{'yes' if i % 7 > 3 else 'no'}" for i in range(90)]
    table = tmp_path / "t.csv"
    table.write_text("\n".join(["amount,place,label", *lines]), encoding="utf-8")
    result = amsfl.run(
        data=str(table), model="softmax", engine="loop", clients=2, rounds=4, out=tmp_path / "run"
    )
    new = tmp_path / "new.csv"
    new.write_text(
        "place,extra,amount\nnorth,1,0\nnowhere,2,6\n", encoding="utf-8"
    )  # other order, unknown word
    out = tmp_path / "p.csv"
    done = succeed("predict", tmp_path / "run", new, "--out", out)
    rows = list(csv.DictReader(out.open(encoding="utf-8")))
    assert [row["prediction"] for row in rows] == list(result.best_model.predict(str(new))) == ["no", "yes"]
    for row in rows:
        assert float(row["p(no)"]) + float(row["p(yes)"]) == pytest.approx(1, abs=1e-5)
    trained = load(str(table))
    encoded = portable.load(tmp_path / "run").encode(str(table))
    both = np.concatenate([trained.x, trained.evals["holdout"][0]])
    assert sorted(map(tuple, both)) == sorted(map(tuple, encoded))  # rows are encoded as in training
    new.write_text("place\nnorth\n", encoding="utf-8")
    done = invoke("predict", tmp_path / "run", new, "--out", out)
    assert done.exit_code == 2 and "has no column 'amount'" in done.stderr


def test_a_network_of_ones_own_keeps_its_numbers(tmp_path: Path) -> None:
    own = make("softmax", 64, 10)._replace(layers=(), name="mine")
    result = amsfl.run(data="digits", network=own, engine="loop", clients=2, rounds=1, out=tmp_path / "run")
    assert result.predict(rows_of(result)).shape == (len(rows_of(result)),)
    assert set(json.loads((tmp_path / "run" / "model.json").read_text())["sha256"]) == {
        "model.safetensors",
        "model-best.safetensors",
    }
    with pytest.raises(UserError, match="network of the user's own"):
        portable.load(tmp_path / "run").predict(rows_of(result))
    done = invoke("export", tmp_path / "run", "--to", "torch")
    assert done.exit_code == 2 and "network of the user's own" in done.stderr


def test_features_on_another_scale_are_the_same_problem(tmp_path: Path) -> None:
    """Digits 64 times as large or small: the same first plan, and files take such rows."""
    data = load("digits")
    common = {"clients": 3, "rounds": 3, "engine": "loop", "model": "mlp:12", "clock": "sum"}
    ways = {}
    for factor in (1.0, 64.0, 1 / 64):
        x = {name: (np.float32(factor) * rows, y) for name, (rows, y) in data.evals.items()}
        moved = data._replace(name="moved", x=np.float32(factor) * data.x, evals=x, recipe=None)
        out = tmp_path / f"{factor:g}"
        result = amsfl.run(method="amsfl", dataset=moved, out=out, **common)
        ways[factor] = [record.steps for record in result.rounds]
        rows = moved.evals["holdout"][0]
        np.testing.assert_allclose(portable.load(out, "last").logits(rows), result.logits(rows), atol=1e-4)
    # later rounds go by rounding, which differs from processor to processor
    assert ways[64.0][0] == ways[1 / 64][0] == ways[1.0][0]


def test_rows_with_answers_are_scored_and_columns_explained(tmp_path: Path) -> None:
    """Scores are scikit-learn's of the predictions that are written; noise is worth nothing, the rest is."""
    from sklearn import metrics

    rng = np.random.default_rng(0)
    amount, noise = rng.normal(size=300), rng.normal(size=300)
    answers = np.where(amount > 0, "yes", "no")
    rows = zip(amount, noise, ["north", "south", "east"] * 100, answers, strict=True)
    table = tmp_path / "t.csv"
    lines = [f"{a:.4f},{b:.4f},{c},{d}" for a, b, c, d in rows]
    table.write_text("\n".join(["amount,noise,site,label", *lines]), encoding="utf-8")
    run = tmp_path / "run"
    amsfl.run(data=str(table), model="softmax", engine="loop", rounds=6, out=run, progress=False)
    out = tmp_path / "p.csv"
    done = succeed("predict", run, table, "--out", out)
    assert "accuracy: " in done.stdout
    assert "the rows that the model was trained on" in done.stdout
    predicted = [row["prediction"] for row in csv.DictReader(out.open(encoding="utf-8"))]
    found = portable.evaluate(portable.load(run), str(table))
    assert found.scores["accuracy"] == pytest.approx(metrics.accuracy_score(answers, predicted))
    assert found.baseline["accuracy"] == pytest.approx(
        max(np.mean(answers == "yes"), np.mean(answers == "no"))
    )
    assert sum(each["rows"] for each in found.calibration) == found.rows == 300
    frame = {"label": answers, "amount": np.round(amount, 4), "noise": np.round(noise, 4)}
    other = {name: cells[:299] for name, cells in frame.items()}
    known = [portable.evaluate(portable.load(run), rows).trained_on for rows in (frame, other)]
    assert found.trained_on and known == [True, False]  # the same rows in memory, and one row less
    importance = {each.column: each.lost for each in portable.explain(portable.load(run), str(table))}
    assert list(importance) == ["amount", "noise"] and importance["amount"] > 0.3 > importance["noise"] + 0.2
    done = succeed("explain", run, table, "--json")
    assert json.loads(done.stdout)[0]["column"] == "amount"
    done = succeed("predict", run, table, "--out", out, "--json")
    assert json.loads(done.stdout)["scores"] == pytest.approx(found.scores)
    alone = tmp_path / "alone"  # a table of one column says what it goes by, too
    settings: dict[str, Any] = {"model": "softmax", "engine": "loop", "rounds": 1, "progress": False}
    amsfl.run(data=str(table), drop="noise", out=alone, **settings)
    done = succeed("explain", alone)
    assert "amount" in done.stdout
    (tmp_path / "new.csv").write_text("amount,noise\n1,2\n")
    done = invoke("explain", run, tmp_path / "new.csv")
    assert done.exit_code == 2 and "nothing can be scored" in done.stderr


@pytest.mark.parametrize("read", ["words", "number"])
def test_codes_for_gaps_are_no_answers(read: str) -> None:
    """Rows whose label `missing` calls a gap are left out of scores, as they are of training."""
    rng = np.random.default_rng(0)
    x, label = rng.normal(size=80), list(range(1, 9)) * 10
    settings: dict[str, Any] = {"model": "softmax", "engine": "loop", "rounds": 1, "progress": False}
    result = amsfl.run(
        dataset={"x": x, "y": label}, label="y", missing="-999", columns=f"y={read}", **settings
    )
    coded = {"x": [*x, 0.5, 0.1], "y": [*label, -999, None]}
    assert portable.evaluate(result.model, coded) == portable.evaluate(result.model, {"x": x, "y": label})
    with pytest.raises(UserError, match="nothing can be scored"):
        portable.evaluate(result.model, {"x": [0.5], "y": [-999]})
    with warnings.catch_warnings():  # scikit-learn's, on rows of one class
        warnings.simplefilter("error")
        one = portable.evaluate(result.model, {"x": x[:5], "y": [3] * 5}).scores
    assert one.get("balanced accuracy") == one.get("accuracy")


def test_own_tables_have_the_clock_of_real_clients(tmp_path: Path) -> None:
    from amsfl.settings.parse import make_config

    assert make_config({"data": "mine.csv"}).clock == "makespan"
    assert (
        make_config({"data": "digits"}).clock == "sum" == make_config({"data": "a.csv", "clock": "sum"}).clock
    )


def model(*classes: str, amount: LabelScale | None = None) -> PortableModel:
    """Outputs x for the second class, 0 for the first; of numbers x."""
    outputs = len(classes) or 1
    weight = np.arange(2 - outputs, 2, dtype=np.float32)[:, None]
    tensors = {"dense1.weight": weight, "dense1.bias": np.zeros(outputs, np.float32)}
    return PortableModel(make("softmax", 1, outputs).layers, tensors, classes, ("x",), amount=amount)


def table(made: PortableModel, x: list[float], **kept: list[str]) -> list[dict[str, str]]:
    rows = np.array(x, np.float32)[:, None]
    return list(csv.DictReader(io.StringIO(as_csv(made, rows, kept)[0].decode())))


def test_small_differences_of_large_numbers_are_kept() -> None:
    far = model(amount=LabelScale(1e8, 0.25))
    x = [0.1, 0.1001, -2.0]
    written = [float(row["prediction"]) for row in table(far, x)]
    assert written == far.predict(np.array(x, np.float32)[:, None]).tolist() and len(set(written)) == 3


@pytest.mark.parametrize("cell", ["+", "-", "=", "++", "@u0", "+ve", "-1", "-1.5e-3", "-1,5", "a=b"])
def test_names_that_call_nothing_stay_as_they_are(cell: str) -> None:
    row = table(model("no", cell), [1.0], id=[cell])[0]
    assert row["prediction"] == row["id"] == cell


@pytest.mark.parametrize("cell", ["=cmd|' /C calc'!A0", "=A1", "+1+cmd", "@SUM(1)", "-2+3", "+A(B)", "\t=A1"])
def test_formulas_are_text_to_a_spreadsheet(cell: str) -> None:
    row = table(model("no", cell), [1.0], id=[cell])[0]
    assert row["prediction"] == row["id"] == f"'{cell}"


@pytest.mark.parametrize("name", ["row", "prediction", "p(yes)"])
def test_two_columns_of_one_name_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="rename"):
        as_csv(model("no", "yes"), np.ones((1, 1), np.float32), {name: ["1"]})


@pytest.mark.parametrize(
    ("names", "values"),
    [
        (("0", "1"), [0, 1]),
        (("-1", "10"), [-1, 10]),
        (("0.0", "1.0"), [0.0, 1.0]),
        (("0.5", "1"), [0.5, 1.0]),
        (("False", "True"), [False, True]),
        (("FALSE", "TRUE"), [False, True]),  # as R and Excel write them
        (("01", "02"), ["01", "02"]),  # codes, whose zeros count
        (("1", "1.0"), ["1", "1.0"]),  # two classes, one number
        (("1", "one"), ["1", "one"]),
    ],
)
def test_classes_are_what_a_data_frame_holds(names: tuple[str, ...], values: list[Any]) -> None:
    found = as_values(names).tolist()
    assert found == values and list(map(type, found)) == list(map(type, values))


def test_new_rows_are_never_overwritten(tmp_path: Path) -> None:
    rows, run = tmp_path / "t.csv", tmp_path / "run"
    rows.write_text("x,label\n" + "".join(f"{n % 7},{n % 2}\n" for n in range(60)))
    amsfl.run(data=str(rows), model="softmax", engine="loop", clients=2, rounds=1, out=run, progress=False)
    before = rows.read_bytes()
    for source in (rows, tmp_path):  # a folder means the files in it
        done = invoke("predict", run, source, "--out", rows)
        assert done.exit_code == 2 and "t.csv" in done.stderr and "--out" in done.stderr
        assert rows.read_bytes() == before
    other = tmp_path / "t.json"
    other.write_text("[]")
    done = invoke("predict", run, other)
    assert done.exit_code == 2 and ".jsonl" in done.stderr
    rows.write_text("x,label\n1e9,0\n1,1\n")  # scored, too; what is new in them is said once
    done = invoke("predict", run, rows, "--out", tmp_path / "p.csv")
    assert "accuracy" in done.stdout and done.stderr.count("far from") == 1
