"""Sources by name, the hold-out split, digits, the synthetic stand-in, the tutorial's messy table."""

import csv
import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from command_line import invoke, succeed
from hypothesis import given
from hypothesis import strategies as st

from amsfl.core import UserError
from amsfl.data import catalogue, load, nslkdd
from amsfl.data.dataset import split
from amsfl.data.named import DIAGNOSES, HOSPITALS, messy
from amsfl.data.nslkdd import CLASSES, FEATURES, KINDS, NOTE, NUMERIC, SHARES, VOCABULARY, generate
from amsfl.data.read_table import read_table


@given(st.lists(st.integers(0, 4), min_size=1, max_size=80), st.floats(0.01, 0.99), st.integers(0, 99))
def test_split_is_stratified(y: list[int], holdout: float, seed: int) -> None:
    labels = np.array(y)
    train, test = split(labels, holdout, seed)
    assert (train ^ test).all()
    for label, count in zip(*np.unique(labels, return_counts=True), strict=True):
        held = int(test[labels == label].sum())
        if count < 2:
            assert held == 0
        else:  # the nearest whole number of rows that leaves one on either side
            assert 1 <= held <= count - 1
            assert abs(held - holdout * count) <= 1


@given(st.lists(st.integers(0, 9), min_size=10, max_size=60), st.integers(0, 99))
def test_split_leaves_every_site_a_row_while_its_class_has_others(sites: list[int], seed: int) -> None:
    """One class only: holding out n/5 <= n - sites rows, so no site need lose its last row."""
    where = np.array(sites + sites)
    train, _ = split(np.zeros(len(where), int), 0.2, seed, where)
    assert set(where[train]) == set(where)


def test_few_numbers_are_held_out_by_the_share_that_is_asked() -> None:
    held = [split(np.arange(rows) / 7, 0.2, 0)[1].sum() for rows in (5, 10, 20, 30, 100)]
    assert held == [1, 2, 4, 6, 20]


@pytest.mark.parametrize("holdout", [0, 1, -0.5, float("nan")])
def test_bad_holdout(holdout: float) -> None:
    with pytest.raises(UserError, match="between 0 and 1"):
        load("digits", holdout=holdout)


def test_digits() -> None:
    data = load("digits")
    x, y = data.evals["holdout"]
    assert len(data.x) + len(x) == 1797 and abs(len(x) / 1797 - 0.2) < 0.01
    assert data.x.shape[1] == len(data.features) == 64 and data.x.dtype == np.float32
    assert data.y.dtype == np.int32 and set(y) == set(range(10)) and len(data.classes) == 10
    assert data.x.min() == 0 and data.x.max() == 1 and data.sites is None and not data.synthetic


def test_a_file_of_another_kind_is_called_so() -> None:
    with pytest.raises(UserError, match=r"must end in \.csv"):
        load(__file__)


def test_a_folder_without_tables_is_called_so(tmp_path: Path) -> None:
    for read in (load, read_table):
        with pytest.raises(UserError, match=r"older .*has no tables"):
            read(str(tmp_path))


def test_catalogue_names_what_load_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("AMSFL_DATA_DIR", str(tmp_path))
    lines = {line[0]: line for line in catalogue()}
    assert [*lines][:3] == ["nslkdd", "nslkdd-synth", "digits"] and [*lines][-1] == "FILE.csv"
    assert lines["nslkdd"][3] == f"not in {tmp_path}"
    for name in ("nslkdd-synth", "digits"):
        data = load(name)
        assert lines[name][1] == len(data.x) + sum(len(x) for x, _ in data.evals.values())


def test_synth_has_the_schema_and_the_class_shares() -> None:
    data = load("nslkdd-synth")
    assert data.synthetic and data.note == NOTE and data.classes == CLASSES and data.features == FEATURES
    y = np.concatenate([data.y, data.evals["holdout"][1]])
    for labels, which in ((y, "train"), (data.evals["test"][1], "test")):
        real = np.array(list(SHARES[which].values()))
        shares = np.bincount(labels, minlength=5) / len(labels)
        np.testing.assert_allclose(shares, real / real.sum(), atol=2 / len(labels))
    for x in (data.x, data.evals["test"][0]):
        assert x.shape[1] == 122 and x.min() >= 0 and x.max() <= 1
        onehot = x[:, len(NUMERIC) :]
        assert (onehot.sum(axis=1) == len(VOCABULARY)).all()  # every word is in the vocabulary


def test_synth_raw_rows_are_reproducible_and_the_test_split_shows_new_attacks() -> None:
    one, two = generate("train", 500), generate("train", 500)
    assert one.equals(two) and not one.equals(generate("train", 500, seed=1))
    train, test = (set(generate(which, 5000)["attack"]) for which in ("train", "test"))
    assert test - train == {"apache2", "processtable", "mscan", "saint", "snmpguess", "warezmaster",
                            "httptunnel", "xterm"}  # fmt: skip
    assert "*" in KINDS and not any("*" in attack for attack in train)


def test_synth_is_hard_for_a_linear_model_and_not_for_a_nonlinear_one() -> None:
    """Least squares on one-hot targets is linear, and exact; a forest stands for nonlinear models."""
    from sklearn.ensemble import RandomForestClassifier

    data = load("nslkdd-synth")
    x, y = data.evals["holdout"]
    flat = np.linalg.lstsq(data.x, np.eye(5)[data.y], rcond=None)[0]
    forest = RandomForestClassifier(30, random_state=0).fit(data.x[:6000], data.y[:6000])
    assert 0.80 < np.mean((x @ flat).argmax(axis=1) == y) < 0.95
    assert forest.score(x, y) > 0.96
    assert 0.65 < forest.score(*data.evals["test"]) < 0.85


def test_offline_falls_back_to_synth_and_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.delenv("AMSFL_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def offline(*args: object, **kwargs: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    data = load("nslkdd")
    assert data.name == "nslkdd-synth" and data.synthetic and "\n" not in data.note
    assert "could not be downloaded" in data.note and NOTE in data.note
    with pytest.raises(UserError, match=r"KDDTrain\+\.txt is not on this machine.*by AMSFL_DATA_DIR"):
        nslkdd.load_nslkdd(0.2, 0)


def rows_of(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


def test_the_example_is_the_same_everywhere_and_one_class_is_rare() -> None:
    assert messy(50) == messy(50), "the same bytes each time"
    visits = rows_of(messy()["visits.csv"])
    assert Counter(row["readmitted"] for row in visits) == {"no": 18_600, "yes": 1_400}
    assert len({row["diagnosis"] for row in visits if row["diagnosis"]}) > DIAGNOSES - 5


def test_from_nothing_to_predictions(tmp_path, monkeypatch) -> None:
    """Three commands and no edit of a file; every client by its name; a prediction for every new row."""
    monkeypatch.chdir(tmp_path)

    def call(line: str):
        result = succeed(*line.split())
        return result

    said = call("data --example").stdout
    assert "amsfl run --data visits.csv --label readmitted" in said
    for name, content in messy(900).items():  # as it was written, and shorter
        (tmp_path / name).write_bytes(content)
    trained = call("run visits.csv --label readmitted --model softmax --rounds 6 --engine loop")
    read = call("data visits.csv --label readmitted")
    for part in ("left out: visit_id", "read as date: admitted, born", "diagnosis", "Ghent"):
        assert part in read.stdout
    gaps = [line for line in read.stdout.splitlines() if "beside the median" in line]
    assert len(gaps) == 1 and gaps[0].count("' ") == 9, "one line for all of them"
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
    taken = invoke("data", "--example")
    assert taken.exit_code == 2 and "is something else" in taken.stderr
    assert (tmp_path / "visits.csv").read_text() == "mine\n1\n"
