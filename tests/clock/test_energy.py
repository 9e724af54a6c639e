"""Joules, megabytes and bytes: by hand, within budgets, and where nobody knows them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from federation_small import SMALL, own_data

import amsfl
from amsfl import clock
from amsfl.core import UserError
from amsfl.report import write
from amsfl.simulation.rounds import spent_by
from amsfl.simulation.trial import JOB

DATA = own_data(120)
TABLE = "step_seconds,latency,joules_step,joules_mb\n0.1,0.1,1,5\n0.2,0.1,4,0\n0.1,0.1,2,10\n"
COMMON = SMALL | {"clock": "makespan", "clients": 3}


@pytest.fixture
def sites(tmp_path: Path) -> str:
    path = tmp_path / "sites.csv"
    path.write_text(TABLE)
    return str(path)


def run(sites, **changes):
    return amsfl.run(dataset=DATA, **COMMON | {"profile": sites} | changes)


def test_accounts_by_hand(sites):
    """2 MB down, 1 MB up, one gradient more a round and half a one more a step.

    Client 0: 1 J a step and half, so 1.5 a step; 1 J of the gradient and 2 x 5 J down; 1 x 5 J up. Four
    steps that come in are 6 + 11 + 5 = 22 J, four that are lost 17 J.
    """
    profile = clock.profile(sites, 3)
    told = clock.costs(profile, clock.Overhead(2e6, 1e6, 1.0, 0.5)).accounts
    joules = told["joules"]
    assert joules.per_step.tolist() == [1.5, 6, 3] and (joules.start + joules.upload).tolist() == [16, 4, 32]
    jobs = np.zeros(2, JOB)
    jobs["client"], jobs["steps"] = [0, 1], [4, 1]
    came = {name: spent_by(each, jobs).tolist() for name, each in told.items()}
    assert came == {"megabytes": [3, 3], "joules": [22, 10]}
    lost = {name: spent_by(each, jobs[:1], came=False).tolist() for name, each in told.items()}
    assert lost == {"megabytes": [2], "joules": [17]}
    assert not clock.profile("mild", 3).spends and clock.profile("battery", 7).spends["joules_step"].size == 7


def test_a_run_says_what_it_spent(sites):
    """Softmax of two features and two classes: six numbers, 24 bytes each way. Steps are 2 everywhere."""
    result = run(sites)
    sent = 24e-6
    each = 2 * (1 + 4 + 2) + 2 * sent * (5 + 10)
    for record in result.rounds:
        assert record.joules == pytest.approx(each, rel=1e-12)
        assert sum(record.plan["client_joules"]) == pytest.approx(record.joules)
    assert result.summary.joules == pytest.approx(4 * each)
    assert sum(client.joules for client in result.clients) == pytest.approx(4 * each)
    assert result.to_frame()["joules"].sum() == pytest.approx(4 * each)
    plain = run("uniform")
    assert plain.summary.joules is None and "joules" not in plain.to_frame()
    assert plain.clients[0].joules is None


def test_work_that_came_to_nothing_has_cost_its_steps(sites):
    result = run(sites, round_end="quorum:1,drop", rounds=6)
    for record in result.rounds:
        lost = [int(each[0]) for each in record.dropped]
        steps = np.array([1, 4, 2])
        known = 2 * (steps[record.cohort].sum() + steps[lost].sum())
        assert record.joules == pytest.approx(known, abs=1e-2) and lost


def test_a_run_ends_when_its_joules_or_megabytes_are_spent(sites):
    each = run(sites, rounds=1).summary
    result = run(sites, rounds=None, joules=3.5 * each.joules)
    assert result.summary.rounds == 4 and result.summary.status == "finished"
    sent = (each.bytes_up + each.bytes_down) / 1e6
    assert run(sites, rounds=None, megabytes=2.5 * sent).summary.rounds == 3


def test_a_limit_on_what_nobody_knows_is_said_before_anything_runs(sites):
    with pytest.raises(UserError, match="does not say what clients spend"):
        run("mild", joules=20.0)


@pytest.mark.usefixtures("without_figures")
def test_a_report_has_the_energy_of_the_run_and_to_the_target(sites, tmp_path: Path):
    run(sites, out=tmp_path / "run")
    page = write([tmp_path / "run"], tmp_path / "report", 0.5).read_text(encoding="utf-8")
    assert "<span>Joules</span>" in page and "<span>Joules to 50%</span>" in page


RUN: dict[str, Any] = {"data": "digits", "model": "softmax", "engine": "loop", "clients": 5, "steps": 2}
RUN |= {"rounds": 6, "details": "", "lr": 0.1, "seed": 1}
VECTOR = 4 * (64 * 10 + 10)  # bytes of digits' weights and biases
READING = 4 * 6  # of what a client of AMSFL sends beside its upload


@pytest.mark.parametrize(
    ("changes", "down", "up"),
    [
        ({"method": "fedavg"}, VECTOR, VECTOR),
        # of each of two vectors a tenth, as a byte and its place, and one scale for the block of 1,024
        ({"method": "scaffold", "transmit": "topk:0.1,q8"}, 2 * VECTOR, 2 * (65 * (4 + 1) + 4)),
        ({"method": "amsfl"}, VECTOR, VECTOR + READING),  # whoever was in the round before
    ],
)
def test_bytes_of_a_run(changes: dict[str, Any], down: int, up: int) -> None:
    result = amsfl.run(cohort=3, **RUN | changes)
    assert {(each.bytes_down, each.bytes_up) for each in result.rounds} == {(3 * down, 3 * up)}
    assert result.summary.bytes_up == 6 * 3 * up
