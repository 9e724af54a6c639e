"""What a recorded run says of the claims."""

import json
from pathlib import Path

import numpy as np
import pytest
from claims.problems import norm, quadratic
from claims.rows import rows_of
from claims.trace import drift, grad_bound, record

from amsfl.core import UserError
from amsfl.record import Manifest, MethodFacts, RoundRecord, create
from amsfl.theory import check_folder, check_run, table
from amsfl.theory.readings import accumulated, gather, predicted_work

PLAIN = MethodFacts("fedavg", "FedAvg")


@pytest.fixture
def trace():
    rng = np.random.default_rng(2)
    turn = np.linalg.qr(rng.normal(size=(3, 4, 4)))[0]
    eigen = rng.uniform(0.2, 2.0, (3, 4))
    p = quadratic(
        np.einsum("nij,nj,nkj->nik", turn, eigen, turn), rng.normal(size=(3, 4)), np.array([0.5, 0.3, 0.2])
    )
    return record(p, rng.normal(size=4), np.tile([2, 7, 4], (10, 1)), 0.1, np.array([1.0, 0.5, 2.0]))


def of(results, name, form, basis="readings"):
    (found,) = [r for r in results if (r.name, r.form) == (name, form) and basis in (None, r.basis)]
    return found


def test_rows_are_round_records(trace):
    for row in rows_of(trace):
        assert isinstance(row, RoundRecord)
        json.dumps(row, allow_nan=False)


def test_drift_can_be_read_off_the_scalars(trace):
    """||Delta_i|| from delta_sq, grad_delta and grad_sq is the drift summed along the trajectory."""
    r = gather(rows_of(trace))
    np.testing.assert_allclose(accumulated(r), norm(drift(trace)).ravel(), rtol=1e-6)
    assert r.smooth <= trace.problem.smooth * (1 + 1e-9)
    assert r.bound == pytest.approx(float(grad_bound(trace)))


def test_curves_foretell_the_work(trace):
    """delta_dir = -eta sum_s <g_s, v>; both curves go through the first and last worth."""
    r = gather(rows_of(trace)[1:])
    actual = r.value["delta_dir"]
    for curve in ("linear", "geometric"):
        assert np.median(np.abs(predicted_work(r, curve) - actual) / np.abs(actual)) < 0.1
    one = r._replace(steps=np.ones_like(r.steps))
    for curve in ("linear", "geometric"):  # a single step is worth what the first gradient says
        np.testing.assert_allclose(predicted_work(one, curve), -r.lr * r.value["grad_dir"], rtol=1e-9)


def test_ordinary_run(trace):
    results = check_run(rows_of(trace), PLAIN)
    for name in ("displacement", "gradient deviation", "drift accumulation"):
        assert of(results, name, "corrected").holds
    assert of(results, "objective kept", "printed").holds is False
    unknown = [r for r in results if r.holds is None and "needs w*" in r.verdict]
    assert {r.where for r in unknown} == {"Thm 3.1", "Thm 3.2"}
    assert {tuple(row) for row in table(results)} == {results[0]._fields}


def test_budget_and_prediction(trace):
    """The sum clock says 2 + 3.5 + 8 = 13.5 s a round, the makespan 8 s."""
    over = of(check_run(rows_of(trace), PLAIN, budget=13.0), "round budget", "printed", "clock")
    assert over.holds is False
    assert "0.5 s" in over.verdict
    assert of(check_run(rows_of(trace), PLAIN, budget=13.5), "round budget", "printed", "clock").holds
    assert of(
        check_run(rows_of(trace), PLAIN, budget=8, clock="makespan"), "round budget", "printed", "clock"
    ).holds
    assert of(check_run(rows_of(trace), PLAIN), "round seconds", "printed", "clock").holds
    late = [row._replace(predicted_seconds=10.0) for row in rows_of(trace)]
    assert of(check_run(late, PLAIN), "round seconds", "printed", "clock").holds is False


def test_readings_that_are_not_finite_are_left_out(trace):
    rows = rows_of(trace)
    rows[3].readings["grad_sq"][1] = None
    rows[4].readings["delta_sq"][0] = float("inf")
    whole, r = gather(rows_of(trace)), gather(rows)
    assert len(r.steps) == len(whole.steps) - 2
    assert of(check_run(rows, PLAIN), "displacement", "corrected").holds
    for none in ({}, {name: [0.0] * 3 for name in rows[0].readings}):
        assert gather([row._replace(readings=none) for row in rows]) is None
    bare = [row._replace(readings={}) for row in rows]
    assert any("no finite readings" in r.verdict for r in check_run(bare, PLAIN))


def test_a_larger_step_than_the_curvature_allows_is_seen(trace):
    wild = record(trace.problem, trace.anchors[0], trace.steps[:2], 2.5 / trace.problem.smooth)
    assert of(check_run(rows_of(wild), PLAIN), "step size", "corrected").holds is False


def recorded(trace, folder, **settings):
    """The trace as an ordinary run's folder."""
    own = Manifest("run", 0, [], settings, methods={PLAIN.name: PLAIN})
    with create(folder, own, force=True) as writer:
        for row in rows_of(trace):
            writer.append(row)


def test_a_run_that_was_killed_is_read_up_to_its_last_whole_line(trace, tmp_path):
    recorded(trace, tmp_path)
    whole = (tmp_path / "rounds.jsonl").read_text()
    (tmp_path / "rounds.jsonl").write_text(whole[:-30])
    assert of(check_folder(tmp_path), "displacement", "corrected").checked == 27  # 9 rounds, 3 clients


def test_mistakes_are_sentences(trace, tmp_path):
    with pytest.raises(UserError, match="no rounds"):
        check_run([], PLAIN)
    with pytest.raises(UserError, match="holds no record"):
        check_folder(tmp_path)
    recorded(trace, tmp_path)
    (tmp_path / "rounds.jsonl").write_text('{"round": 0\n{}\n')
    with pytest.raises(UserError, match="line 1"):
        check_folder(tmp_path)


def test_the_example_of_the_page_runs(tmp_path, monkeypatch, capsys):
    """docs/theory.md ends in a program: every corrected claim that it prints holds."""
    page = (Path(__file__).parents[2] / "docs" / "theory.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(page.split("```python\n")[1].split("```")[0], {})
    lines = capsys.readouterr().out.splitlines()
    assert sum(" corrected " in line and line.startswith("True") for line in lines) > 15
    assert not [line for line in lines if " corrected " in line and line.startswith("False")]
