"""The asynchrony study: hindsight and factors by hand, and that a stopped study goes on."""

import math
from pathlib import Path

import pytest
from federation_small import SMALL, own_data

from amsfl.record import locked
from amsfl.simulation import make_config
from amsfl.study import asynchrony as study
from amsfl.study import units as units_
from amsfl.study.asynchrony import BASE, PRESENCE, PROFILES, Cell, End
from amsfl.study.asynchrony_table import as_markdown, table
from amsfl.study.units import Unit


def test_hindsight_takes_the_pair_that_all_seeds_reach_soonest():
    """lr 0.1: 4 s on the mean. lr 0.3: 1 s and one that never came there. lr 1: 5 s."""
    ends = [
        End("wild", "always", seed, lr, 20, seconds, reached)
        for lr, both in {
            0.1: ((3.0, True), (5.0, True)),
            0.3: ((1.0, True), (1.0, False)),
            1.0: ((5.0, True), (5.0, True)),
        }.items()
        for seed, (seconds, reached) in enumerate(both)
    ]
    assert list(study.cells("x", ends)) == [Cell("x", "wild", "always", 4.0, True, 0.1, 20)]


def test_factors_are_geometric_means_over_profiles():
    """Twice as fast in all profiles but one, where it is 32 times: (2^4 32)^(1/5) = 2^(9/5)."""
    cells = [Cell(BASE, profile, "always", 64.0, True, 0.1, 20) for profile in PROFILES]
    cells += [Cell("x", p, "always", 2.0 if p == "wan" else 32.0, p != "far", 0.1, 20) for p in PROFILES]
    first, second = table(cells)
    assert first.factor == pytest.approx(1) and second.factor == pytest.approx(2 ** (9 / 5))
    assert second.bound and not first.bound
    assert "| x | 32.0 | 32.0 | 32.0 | > 32.0 | 2.0 | about 3.48 |" in as_markdown([first, second])


def test_units_try_every_contestant_alike():
    """Rates x steps for whoever must be told them, in all settings; the same work for everybody."""
    settings = len(PROFILES) * len(PRESENCE)
    for unit in study.units([1, 2]):
        told = 1 if "AMSFL" in unit.name else len(study.RATES)
        assert len(unit.configs) == told * settings * 2 and unit.about["name"] in study.CONTESTANTS
        assert all(each.target == study.TARGET and each.clock == "makespan" for each in unit.configs)


def test_a_stopped_study_goes_on(tmp_path: Path):
    common = SMALL | {"clock": "makespan", "target": 0.9, "rounds": 3}
    units = [
        Unit(f"{name}, {steps} steps", {"name": name}, [make_config(common | how | {"steps": steps})])
        for steps in (1, 2)
        for name, how in ((BASE, {}), ("FedBuff, buffer:2", {"method": "fedbuff", "round_end": "buffer:2"}))
    ]
    done: list[str] = []
    for todo in (units[:1], units):
        study.run(tmp_path, own_data(120), todo, lambda name, *_: done.append(name))
    assert done == [unit.name for unit in units]
    cells = study.read(tmp_path)
    assert [cell.name for cell in cells] == [BASE, "FedBuff, buffer:2"]
    assert all(math.isfinite(cell.seconds) for cell in cells)
    with locked(tmp_path, f".{units_.file_of(tmp_path, units[0].name).stem}-lock"):  # another process has it
        units_.file_of(tmp_path, units[0].name).unlink()
        study.run(tmp_path, own_data(120), units)
    assert not units_.file_of(tmp_path, units[0].name).exists()
