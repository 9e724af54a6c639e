"""The messy table, and the road from it to predictions: what the tutorial does, on fewer rows."""

import csv
import io
import json
from collections import Counter

from command_line import CliRunner

from amsfl.cli.app import app
from amsfl.data.named import DIAGNOSES, HOSPITALS, LABEL, WHOLE, messy


def rows_of(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


def test_it_is_as_messy_as_it_says() -> None:
    files = messy()
    visits, new = (rows_of(files[name]) for name in ("visits.csv", "new-visits.csv"))
    assert files == messy(), "the same bytes each time"
    columns = list(new[0])
    assert len(visits) == 20_000 and list(visits[0]) == [*columns, LABEL] and columns[:2] == [*WHOLE]
    assert len(columns) == 11
    for name in columns[2:]:
        gaps = sum(not row[name] for row in visits) / len(visits)
        assert 0.035 < gaps < 0.045, name
    assert Counter(row[LABEL] for row in visits) == {"no": 18_600, "yes": 1_400}
    assert {row["hospital"] for row in visits} == set(HOSPITALS)
    assert len({row["visit_id"] for row in [*visits, *new]}) == len(visits) + len(new)
    assert (
        DIAGNOSES - 5 <= len({row["diagnosis"] for row in visits if row["diagnosis"]}) <= DIAGNOSES == 3_000
    )


def test_from_nothing_to_predictions(tmp_path, monkeypatch) -> None:
    """Three commands and no edit of a file; every client by its name; a prediction for every new row."""
    monkeypatch.chdir(tmp_path)

    def call(line: str):
        result = CliRunner().invoke(app, line.split())
        assert result.exit_code == 0, result.output
        return result

    said = call("data --example").stdout
    assert "amsfl run --data visits.csv --label readmitted" in said
    for name, content in messy(900).items():  # as it was written, and shorter
        (tmp_path / name).write_bytes(content)
    trained = call("run visits.csv --label readmitted --model softmax --rounds 6 --engine loop --verbose")
    for part in ("left out: visit_id", "read as date: admitted, born", "diagnosis", "Ghent"):
        assert part in trained.stderr
    gaps = [line for line in trained.stderr.splitlines() if "gaps in" in line]
    assert len(gaps) == 1 and gaps[0].count("gaps in") == 9, "one line for all of them"
    assert "amsfl predict runs/visits-amsfl-0 NEW_ROWS.csv" in trained.stdout
    summary = json.loads((tmp_path / "runs/visits-amsfl-0/summary.json").read_text())
    assert set(summary["steps"]) == set(HOSPITALS) and summary["accuracy"] >= 0.93
    call("predict runs/visits-amsfl-0 new-visits.csv --keep visit_id")
    found = rows_of((tmp_path / "predictions.csv").read_bytes())
    asked = rows_of((tmp_path / "new-visits.csv").read_bytes())
    assert [row["visit_id"] for row in found] == [row["visit_id"] for row in asked]
    assert all(abs(float(row["p(yes)"]) + float(row["p(no)"]) - 1) < 1e-5 for row in found)


def test_mistakes_are_sentences(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text("mine\n1\n")
    taken = CliRunner().invoke(app, ["data", "--example"])
    assert taken.exit_code == 2 and "is something else" in taken.stderr
    assert (tmp_path / "visits.csv").read_text() == "mine\n1\n"
