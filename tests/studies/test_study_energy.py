"""The energy study: limits, and the trade-off."""

from pathlib import Path

import energy
import pytest
from federation_small import SMALL, own_data

from amsfl.core import UserError
from amsfl.simulation import make_config

import common


def test_a_limit_on_joules_costs_seconds(tmp_path: Path) -> None:
    """The least that a round can spend is one step of each client and its bytes."""
    dataset = own_data(120)
    shared = SMALL | {"method": "amsfl", "target": 0.8, "clients": 5, "profile": "battery", "rounds": 20}
    shared = {key: value for key, value in shared.items() if key not in ("steps", "lr")}
    least, *_ = energy.limits(shared, dataset)
    units = [
        common.Unit(
            name,
            {"name": name, "limit": limit},
            [make_config(shared | {"budget_joules": limit, "seed": seed}) for seed in (0, 1)],
            lambda: dataset,
            energy.keep,
        )
        for name, limit in (("tight", least), ("no limit", None))
    ]
    common.run_units(tmp_path / "energy", units)
    tight, free = energy.rows_of(common.read_units(tmp_path / "energy"))
    assert (tight["limit"], free["limit"]) == (least, None) and tight["joules"] / tight["rounds"] <= least
    assert tight["reached"] and free["reached"] and tight["joules"] < free["joules"]
    energy.study(energy.Settings(out=tmp_path / "energy", only_report=True))
    assert (tmp_path / "energy" / "energy.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(UserError, match="does not say what clients spend"):
        energy.limits(shared | {"profile": "wild"}, dataset)


def test_what_no_other_beats():
    """As fast, and for fewer joules; a limit that never reached the target does not count."""
    shared = {"rounds": 3.0, "steps": 5.0, "reached": True}
    rows = [{"name": "tight", "seconds": 2.0, "joules": 1.0} | shared]
    rows += [{"name": "free", "seconds": 2.0, "joules": 3.0} | shared]
    rows += [{"name": "never", "seconds": 1.0, "joules": 1.0} | shared | {"reached": False}]
    assert energy.undominated(rows) == {"tight"}
    text = energy.table(rows).markdown()
    assert "| tight | 2.0 | 1 | 3.0 | 5 | yes |" in text and "| never | > 1.0 | > 1 | 3.0 | 5 |  |" in text
