"""Predictions as others take them: all their digits, their own spelling, labels of a data frame."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import CliRunner

import amsfl
from amsfl.cli.app import app
from amsfl.core import UserError
from amsfl.data.dataset import LabelScale
from amsfl.engines.models import make
from amsfl.portable import PortableModel
from amsfl.portable.evaluation import as_csv
from amsfl.portable.sklearn_model import as_values


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
        done = CliRunner().invoke(app, ["predict", str(run), str(source), "--out", str(rows)])
        assert done.exit_code == 2 and "t.csv" in done.stderr and "--out" in done.stderr
        assert rows.read_bytes() == before
    other = tmp_path / "t.json"
    other.write_text("[]")
    done = CliRunner().invoke(app, ["predict", str(run), str(other)])
    assert done.exit_code == 2 and ".jsonl" in done.stderr


def test_what_is_new_in_rows_is_said_once(tmp_path: Path) -> None:
    rows, run, out = tmp_path / "t.csv", tmp_path / "run", tmp_path / "p.csv"
    rows.write_text("x,label\n" + "".join(f"{n % 7},{n % 2}\n" for n in range(60)))
    amsfl.run(data=str(rows), model="softmax", engine="loop", clients=2, rounds=1, out=run, progress=False)
    rows.write_text("x,label\n1e9,0\n1,1\n")  # scored, too
    done = CliRunner().invoke(app, ["predict", str(run), str(rows), "--out", str(out)])
    assert "accuracy" in done.stdout and done.stderr.count("far from") == 1
