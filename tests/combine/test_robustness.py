"""The robustness study: what is kept of a run, the worst attack, a study that goes on."""

import numpy as np
import pytest
from federation_small import SMALL, own_data

import amsfl
from amsfl import schedule
from amsfl.record import locked
from amsfl.report.draw.robustness import draw
from amsfl.report.measure.describe import describe
from amsfl.report.measure.read import read
from amsfl.report.tabulate.contents import tables
from amsfl.simulation import make_config
from amsfl.study import robustness as study
from amsfl.study.robustness import End
from amsfl.study.units import Unit


def test_the_worst_attack_is_the_worst_mean():
    """Two seeds; under ipm 0.5 on average, under alie 0.6; one of two never came to 89%."""
    ends = [End("", 0, 0.9, 3.0), End("", 1, 1.0, 5.0), End("alie", 0, 0.3, None), End("alie", 1, 0.9, 9.0)]
    ends += [End("ipm", 0, 0.5, 6.0), End("ipm", 1, 0.5, None)]
    row = study.row("FedAvg", 2, ends)
    assert row[:-1] == ("FedAvg", 2, pytest.approx(0.95), 0.5, "ipm", 4.0, None)
    assert "| FedAvg | 2 | 0.950 | 0.600 | 0.500 |" in study.as_markdown([row])
    assert "| FedAvg | 2 | 0.950 | 0.500 | ipm | 4.0 | never |" in study.as_markdown([row])


def test_every_contestant_is_a_run():
    """All settings are good ones, with a trial for every attack and one without."""
    units = list(study.units([0, 1], [1, 4], 3))
    assert len(units) == 2 * len(study.CONTESTANTS)
    assert {len(unit.configs) for unit in units} == {2 * (1 + len(study.ATTACKS))}
    assert (
        units[-1].configs[-1].combine == "cap:0.1,clip,nnm:4,geomedian" and units[-1].configs[-1].seconds == 3
    )


def test_steps_from_one_to_fifty():
    """Whatever clients cost: the last unit's policy, and no other's."""
    problem = schedule.problem(np.full(10, 0.1), np.ones(10), np.ones(10), budget=None)
    *_, unit = study.units([0], [1], 3)
    steps = unit.own.policy.plan(problem, schedule.Signals()).steps
    assert (steps[0], steps[-1]) == (1, study.MOST) and (np.diff(steps) > 0).all()
    assert next(study.units([0], [1], 3)).own.policy is None


def test_a_study_goes_on(tmp_path):
    """One unit is run once; other settings run it again; table and picture come of what is there."""
    loop = {"engine": "loop", "model": "softmax", "clients": 4, "rounds": 2, "batch": 8, "steps": 1}
    common = loop | {"method": "fedavg", "combine": "median"}
    configs = [make_config(common | {"attack": each}) for each in ("", "signflip:1", "rows:1")]
    unit, seen = Unit("FedAvg, median, 1 of 4", {"name": "FedAvg, median", "foes": 1}, configs), []

    def watch(name, number, total):
        seen.append(name)

    for _ in range(2):
        study.run(tmp_path, own_data(), [unit], watch)
    assert seen == ["FedAvg, median, 1 of 4"]
    other = unit._replace(name="FedAvg, median, 2 of 4")
    with locked(tmp_path, ".unit-fedavg--median--2-of-4-lock"):  # a second process that works on it
        study.run(tmp_path, own_data(), [other], watch)
    assert len(seen) == 1
    study.run(tmp_path, own_data(), [unit._replace(configs=configs[:2])], watch)
    assert len(seen) == 2
    (row,) = study.read(tmp_path)
    assert row.attack == "signflip" and np.isfinite(row.worst)
    draw([row], tmp_path)
    assert (tmp_path / "robustness.png").stat().st_size > 1000


def test_a_record_says_whom_a_rule_weighed_down_and_the_report_too(tmp_path):
    """Two of six send noise; Multi-Krum leaves them out in every round, and the table says so, by client."""
    out = tmp_path / "run"
    common = SMALL | {"rounds": 3, "clients": 6, "combine": "cap:0.3,multikrum:2"}
    result = amsfl.run(**common, dataset=own_data(), attack="gaussian:2", out=out)
    foes = set(np.flatnonzero(result.parts.foes.who[0]))
    for record in result.rounds:
        assert [*record.weighed] == ["claimed", "cap:0.3", "multikrum:2"]
        assert {who for who in range(6) if record.weighed["multikrum:2"][who] < 1e-6} == foes
    (found,) = doubted_of(out)
    names = {f"C{who + 1}" for who in foes}
    rows = {row.values["client"]: row.values for row in found.rows}
    assert {name for name in rows if rows[name]["low"] == 3} >= names
    assert {rows[name]["link"] for name in names} == {"multikrum:2"} and rows[min(names)]["counted"] < 1e-6


def doubted_of(folder):
    return [table for table in tables(describe(read([folder]))) if table.name == "doubted"]
