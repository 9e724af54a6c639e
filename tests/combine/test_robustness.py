"""A record of a run with a robust rule says whom the rule weighed down."""

import numpy as np
from federation_small import SMALL, own_data

import amsfl
from amsfl.report.measure.describe import describe
from amsfl.report.measure.read import read
from amsfl.report.tabulate.contents import tables


def test_a_record_says_whom_a_rule_weighed_down_and_the_report_too(tmp_path):
    """Two of six send noise; Multi-Krum leaves them out in every round, and the table says so, by client."""
    out = tmp_path / "run"
    common = SMALL | {"rounds": 3, "clients": 6, "robust": "cap:0.3,multikrum:2"}
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
