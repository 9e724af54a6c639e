"""The verdict against FedAvg: two rounds by hand, and on record after a planned run."""

import numpy as np
import pytest
from federation_small import SMALL, own_data

import amsfl
from amsfl.record import RoundRecord, read_run
from amsfl.simulation.summary import against_fedavg, sentence

PACES = np.array([1.0, 9.0, 3.0])


def a_round(steps, took, **changes):
    seconds = {"sum": sum(took), "makespan": max(took)}
    plan = {"client_seconds": took}
    return RoundRecord(
        1, seconds, seconds, cohort=[0, 2], steps=steps, bytes_up=3e6, bytes_down=2e6, plan=plan, **changes
    )


def test_two_rounds_by_hand():
    """Steps take 1 s and 3 s, the rest half a second. 7, 1 and 5, 3 steps are 4 each in the mean: FedAvg's
    rounds take 12.5 s by its slower client, the run's took 7.5 and 9.5. It sends 4 clients' 1 MB, not 10."""
    rounds = [a_round([7, 1], [7.5, 3.5]), a_round([5, 3], [5.5, 9.5])]
    found = against_fedavg(rounds, "makespan", 1e6, PACES)
    assert (found["steps"], found["seconds"], found["megabytes"]) == (4.0, 25.0, 4.0)
    saved = found["seconds_saved"]
    assert saved[0] == pytest.approx(8.0) and found["megabytes_saved"] == pytest.approx(-6.0)
    reach = 1.645 * np.std([5.0, 3.0]) / np.sqrt(2) * 2
    assert saved[1:] == pytest.approx([8 - reach, 8 + reach])
    assert against_fedavg(rounds, "sum", 1e6, PACES)["seconds"] == pytest.approx(2 * (4.5 + 12.5))
    assert "8 s saved" in sentence(found) and "6 MB more" in sentence(found)


def test_a_reading_is_no_part_of_fedavg():
    plain, read = a_round([4, 4], [4.5, 12.5]), a_round([4, 4], [5.5, 15.5], readings={"loss": [1.0, 1.0]})
    one, two = (against_fedavg([each], "makespan", 1e6, PACES) for each in (plain, read))
    assert one["seconds"] == two["seconds"] == 12.5


def test_rounds_that_do_not_say_how_long_clients_took():
    silent = a_round([4, 4], [4.5, 12.5])._replace(plan={})
    assert against_fedavg([silent], "makespan", 1e6, PACES) == against_fedavg([], "sum", 1e6, PACES) == {}
    assert sentence({}) == ""


def test_planned_runs_have_a_verdict(tmp_path):
    planned = SMALL | {"method": "amsfl", "policy": "price", "profile": "wild", "progress": False}
    result = amsfl.run(dataset=own_data(), out=tmp_path / "run", **planned)
    verdict = read_run(tmp_path / "run").summary.verdict
    assert verdict == result.summary.verdict and verdict["guard"]["judge"]
    assert verdict["seconds"] - verdict["seconds_saved"][0] == pytest.approx(result.summary.virtual_seconds)
    assert amsfl.run(dataset=own_data(), **SMALL, progress=False).summary.verdict == {}


@pytest.mark.parametrize(("clock", "cohort"), [("sum", 0), ("makespan", 2)])
def test_fedavg_pays_for_nothing_of_amsfl(clock, cohort):
    """What the verdict says of FedAvg is what FedAvg takes: its steps, its latency, a vector each way."""
    settings = SMALL | {"profile": "wild", "clock": clock, "cohort": cohort or None, "batch": 16}
    planned = amsfl.run(dataset=own_data(), progress=False, **settings | {"method": "amsfl"})
    verdict = planned.summary.verdict
    low, high = (
        amsfl.run(dataset=own_data(), progress=False, **settings | {"method": "fedavg", "steps": steps})
        for steps in (10, 20)
    )
    seconds = [each.summary.virtual_seconds for each in (low, high)]
    share = (verdict["steps"] - 10) / 10
    assert verdict["seconds"] == pytest.approx(seconds[0] + share * (seconds[1] - seconds[0]), rel=1e-6)


def test_more_spent_has_an_interval_above_zero():
    said = sentence(
        {"steps": 1.0, "seconds": 2.0, "seconds_saved": [-6.8, -8.7, -4.8], "megabytes_saved": 0.0}
    )
    assert "6.8 s more spent (4.8 to 8.7)" in said
