"""Exports that take raw rows: words, gaps, dates and codes, as amsfl's own preprocessing has them."""

import importlib.util
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import amsfl
from amsfl import portable
from amsfl.portable.export import export

WORDS = ["north", "south", "east"]


def raw_table(rows: int, seed: int, new: bool) -> dict[str, list[Any]]:
    """Every kind of column, with gaps; new rows hold a word that training rows had not."""
    rng = np.random.default_rng(seed)
    size = rng.normal(50, 20, rows).round(2).tolist()
    table: dict[str, list[Any]] = {
        "size": [None if n % 7 == 0 else value for n, value in enumerate(size)],
        "dose": [-999.0 if n % 5 == 0 else float(n % 11) + 0.25 for n in range(rows)],
        "place": [None if n % 6 == 1 else WORDS[n % 3] for n in range(rows)],
        "code": [f"c{n % 90}" for n in range(rows)],
        "rank": [f"r{n % 4}" for n in range(rows)],
        "note": [None if n % 9 == 4 else f"the {WORDS[n % 3]} wind {n % 13}" for n in range(rows)],
        "seen": [f"2024-0{n % 9 + 1}-1{n % 9}" for n in range(rows)],
        "site": [n % 2 for n in range(rows)],
    }
    if new:
        table["place"][0], table["code"][1], table["rank"][2] = "nowhere", "unheard", "r9"
    else:
        table["label"] = ["yes" if value > 50 else "no" for value in size]
    return table


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("exported_raw", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=["indicator", "site"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("raw") / "run"
    how = {"columns": "rank=frequency,note=text", "missing": "-999.0", "impute": request.param}
    common = {"model": "mlp:6", "engine": "loop", "rounds": 2, "method": "fedavg", "progress": False}
    amsfl.run(dataset=raw_table(240, 0, False), label="label", out=out, **how, **common)
    model = portable.load(out)
    new = raw_table(40, 1, True)
    reads = {column.read for column in model.recipe.columns} if model.recipe else set()
    assert reads == {"number", "date", "words", "hash", "frequency", "text"}
    return model, new, model.logits(new)


def test_onnx_takes_raw_columns(trained: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from amsfl.portable.raw_onnx import raw_inputs

    model, new, expected = trained
    export(model, "onnx", tmp_path)
    session = runtime.InferenceSession(str(tmp_path / "model-raw.onnx"))
    inputs = raw_inputs(model, new)
    assert {each.name for each in session.get_inputs()} == set(inputs)
    logits, chances = session.run(None, inputs)
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    np.testing.assert_allclose(chances, model.predict_proba(new), atol=1e-5)
    # by hand, without amsfl: a column is an array of its own kind, a gap NaN or an empty text
    inputs["size"] = np.array([[np.nan if value is None else value] for value in new["size"]])
    inputs["dose"] = np.array([[value] for value in new["dose"]])
    inputs["place"] = np.array([[value or ""] for value in new["place"]], object)
    np.testing.assert_allclose(session.run(None, inputs)[0], expected, atol=1e-5)


def test_onnx_says_what_a_gap_in_text_is(trained: Any) -> None:
    """`(missing)` has one token, which has a bucket; zeros would be a text without words."""
    onnx = pytest.importorskip("onnx")
    from amsfl.portable.raw_onnx import raw_graph, raw_inputs

    model, new, _ = trained
    fill = next(column.fill for column in model.recipe.columns if column.name == "note")
    inputs = onnx.load_from_string(raw_graph(model, model.recipe)).graph.input
    assert fill in next(each.doc_string for each in inputs if each.name == "note")
    if fill == "(missing)":
        assert raw_inputs(model, new)["note"][4].nonzero()[0].tolist() == [crc32(b"missing") % 256]


def test_onnx_takes_rows_without_their_client(trained: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from amsfl.portable.raw_onnx import raw_inputs

    model, new, _ = trained
    export(model, "onnx", tmp_path)
    strangers = {name: cells for name, cells in new.items() if name != "site"}
    session = runtime.InferenceSession(str(tmp_path / "model-raw.onnx"))
    logits = session.run(None, raw_inputs(model, strangers))[0]
    np.testing.assert_allclose(logits, model.logits(strangers), atol=1e-5)


def test_torch_takes_raw_columns(trained: Any, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    model, new, expected = trained
    export(model, "torch", tmp_path)
    module = loaded(tmp_path / "model.py")
    days = [(np.datetime64(day) - np.datetime64("1970-01-01")).astype(int).item() for day in new["seen"]]
    gaps = [np.nan if value is None else value for value in new["size"]]
    held: list[dict[str, Any]] = [  # by other libraries, whose gaps are NaN or NA
        {},
        {"size": np.array(gaps, np.float32), "site": np.array(new["site"], np.float32)},
        {"size": torch.tensor(gaps), "dose": torch.tensor(new["dose"])},
        {"dose": [f"{dose:g}" for dose in new["dose"]], "site": [float(site) for site in new["site"]]},
    ]
    for columns in held:
        with torch.no_grad():
            logits = module.load()(module.encode(new | {"seen": days} | columns)).numpy()
        np.testing.assert_allclose(logits, expected, atol=1e-5)
    nullable = pytest.importorskip("pandas").array(new["size"], dtype="Float64")
    with torch.no_grad():
        logits = module.load()(module.encode(new | {"seen": days, "size": nullable})).numpy()
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_torch_takes_other_spellings(tmp_path: Path) -> None:
    """Of words that R wrote as TRUE and pandas as 1.0, a data frame has booleans and numbers."""
    torch = pytest.importorskip("torch")
    table = {
        "smoker": ["TRUE", "FALSE"] * 30,
        "grade": ["1.0", "2.0", "3.0"] * 20,
        "rank": ["1.0", "2.0", "2.0"] * 20,
        "label": ["yes", "no"] * 30,
    }
    how = {"columns": "grade=words,rank=frequency", "model": "softmax", "engine": "loop"}
    result = amsfl.run(
        dataset=table, label="label", rounds=2, method="fedavg", partition="iid", progress=False, **how
    )
    export(result.model, "torch", tmp_path)
    module = loaded(tmp_path / "model.py")
    typed = {"smoker": [True, False] * 3, "grade": [1.0, 2.0, 3.0] * 2, "rank": [1, 2, 2] * 2}
    written = {name: cells[:6] for name, cells in table.items()}
    expected = result.model.logits(written)
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(result.model.logits(typed), expected, atol=1e-6)
    for rows in (typed, written):
        with torch.no_grad():
            np.testing.assert_allclose(module.load()(module.encode(rows)).numpy(), expected, atol=1e-5)
