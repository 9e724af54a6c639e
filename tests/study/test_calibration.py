"""From records to profiles: numbers by hand, what a simulation was given, what makes no sense."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import CliRunner
from federation_small import SMALL, own_data

import amsfl
from amsfl.cli.app import app
from amsfl.cli.calibrate import _show as show
from amsfl.clock import read_profile
from amsfl.core import UserError
from amsfl.record import Manifest, MethodFacts, RoundRecord, RunRecord
from amsfl.study.calibrate import FittedSites, as_csv, calibrate, fit
from amsfl.study.timings import timings_of

SITES = "step_seconds,latency,jitter,failure\n0.01,0.5,0.1,0\n0.02,0.2,0.3,0.2\n0.05,0.3,0,0.1\n"


def simulated(out: Path, **changes: Any) -> Path:
    data = own_data()
    settings = SMALL | {"clients": 3, "partition": "iid", "clock": "makespan", "rounds": 60} | changes
    amsfl.run(out=out, dataset=data, eval_every=60, details="", **settings)
    return out


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A table of sites and a run by it."""
    folder = tmp_path_factory.mktemp("known")
    (folder / "sites.csv").write_text(SITES)
    return folder / "sites.csv", simulated(folder / "run", profile=str(folder / "sites.csv"))


def test_what_a_simulation_was_given_comes_back(known: tuple[Path, Path]) -> None:
    """Sixty rounds: a sigma's deviation is about a tenth of it, a chance p's sqrt(p(1-p)/60)."""
    table, run = known
    want, found = read_profile(table, 3), calibrate([run])
    assert want.sites is not None
    np.testing.assert_allclose(found.step_seconds, want.step_seconds)
    np.testing.assert_allclose(found.latency, want.latency, rtol=0.12)
    np.testing.assert_allclose(found.jitter, want.sites.columns["jitter"], rtol=0.35, atol=1e-9)
    assert found.failure is not None and abs(found.server_seconds) < 0.02
    np.testing.assert_allclose(found.failure, [0, 0.2, 0.1], atol=0.12)


def test_the_profile_runs_and_takes_as_long(known: tuple[Path, Path], tmp_path: Path) -> None:
    written = tmp_path / "profile.csv"
    done = CliRunner().invoke(app, ["calibrate", str(known[1]), "--out", str(written)])
    assert done.exit_code == 0, done.output
    assert written.read_text().startswith("client,step_seconds,latency,jitter,failure\n0,0.01,")
    again = simulated(tmp_path / "again", profile=str(written))
    ends = [amsfl.record.read_run(folder).rounds[-1].seconds["makespan"] for folder in (known[1], again)]
    assert ends[1] == pytest.approx(ends[0], rel=0.05)


def test_a_buffer_has_no_server_of_its_own(tmp_path: Path) -> None:
    """Rounds overlap in a simulation without a server's time: what is fitted is what it was given."""
    run = simulated(tmp_path / "aloft", method="fedbuff", round_end="buffer:2", profile="wild", rounds=16)
    found = calibrate([run])
    assert found.server_seconds == 0 and found.jitter is None
    given = amsfl.clock.profile("wild", 3, 0, ())
    np.testing.assert_allclose(found.step_seconds, given.step_seconds)


def test_a_name_with_a_comma_is_one_cell_on_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    found = FittedSites(("Graz, East", "b"), np.array([0.25, 0.5]), np.zeros(2), np.zeros(2))
    show(found, as_csv(found))
    assert "Graz, East  " in capsys.readouterr().out


def real(rounds: list[RoundRecord], **settings: Any) -> RunRecord:
    about = {"clients": {"names": ["north", "south"]}}
    facts = {"fedavg": MethodFacts("fedavg", "FedAvg")}
    kept = {"method": "fedavg", "data": "own", "cohort": None} | settings
    return RunRecord(Manifest("flower", kept, facts, {"clients": 2}, about=about), rounds, None)


def one(number: int, took: list[float], elapsed: float, cohort: Any = (0, 1), **plan: Any) -> RoundRecord:
    who = list(cohort)
    told = {"weights": [0.25, 0.75][: len(who)], "step_seconds": [0.1, 0.2][: len(who)], "refused": []}
    told |= {"client_seconds": took} | plan
    spent = {"makespan": max(took)}
    return RoundRecord(
        number, {"makespan": 0.0}, spent, cohort=who, steps=[10, 5][: len(who)], plan=told,
        wall={"elapsed": elapsed},
    )  # fmt: skip


def test_a_real_record_by_hand() -> None:
    """North: 10 steps of 0.1 s, rests 2, 3 and 7: the median is 3. South: 5 of 0.2 s, rests 1, 1.5, 1.

    Residuals from 1 + 3 are -1, 0, 4; over hypot(1, 3) the median of their sizes is 1/sqrt(10).
    The wall has 4, 5 and 9 s, which the server.s own share is fitted to.
    """
    rounds = [one(1, [3.0, 2.0], 4.0), one(2, [4.0, 2.5], 9.0), one(3, [8.0, 2.0], 18.0)]
    found = fit([timings_of(real(rounds))])
    assert found.names == ("north", "south") and found.weight is not None
    np.testing.assert_allclose(found.step_seconds, [0.1, 0.2])
    np.testing.assert_allclose(found.latency - found.server_seconds, [3.0, 1.0])
    np.testing.assert_allclose(found.jitter, [1.4826 / 10**0.5, 0.0])
    np.testing.assert_allclose(found.weight, [0.25, 0.75])
    assert found.failure is None and found.on_seconds is None
    rounds = [one(number, [3.0 + 1e-15 * number, 2.0], 4.0 * number) for number in (1, 2, 3)]
    even = fit([timings_of(real(rounds))])  # jitter that is rounding's own dust is none
    assert even.jitter is None and "jitter" not in as_csv(even)


def test_failures_and_absences_by_hand() -> None:
    """Five rounds of 4 s. South fails in the second, is gone in the third and fourth: there for 12 s until
    it leaves once, away for 8 s until it is back once; one of its three tries failed."""
    refused = [{"client": 1, "reason": "failed: the disk is full"}]
    gone = [{"client": 1, "reason": "gone: no heartbeat"}]
    planned = {"cohort": [0, 1], "steps": [10, 5]}
    rounds = [
        one(1, [3.0, 2.0], 4.0),
        one(2, [3.0], 8.0, [0], refused=refused, planned=planned),
        one(3, [3.0], 12.0, [0], refused=gone, planned=planned),
        one(4, [3.0], 16.0, [0]),
        one(5, [3.0, 2.0], 20.0),
    ]
    found = fit([timings_of(real(rounds))])
    assert found.failure is not None and found.on_seconds is not None and found.off_seconds is not None
    np.testing.assert_allclose(found.failure, [0, 1 / 3])
    np.testing.assert_allclose(found.on_seconds, [20, 12])
    np.testing.assert_allclose(found.off_seconds, [0, 8])
    np.testing.assert_allclose(found.server_seconds, 1.0)


def moved(number: int, cohort: list[int], began: list[float], came: list[float], **more: Any) -> RoundRecord:
    """A move of a server that does not wait for all, two seconds after the one before."""
    age = {"staleness": [int(number * 2 - begin > 2) for begin in began]}
    own = age | {"cohort": cohort, "steps": [1] * len(cohort), "started": began, "arrived": came} | more
    plan = own.pop("plan", {}) | {"client_seconds": [1.0] * len(cohort), "step_seconds": [0.5] * len(cohort)}
    seconds = {"makespan": 2.0 * number}
    return RoundRecord(number, seconds, {"makespan": 2.0}, plan=plan, wall={"elapsed": 2.0 * number}, **own)


def away(rounds: list[RoundRecord], clients: int) -> list[list[int]]:
    record = real(rounds, round_end="quorum:2")
    made_from = {"clients": clients}
    return timings_of(record._replace(manifest=record.manifest._replace(made_from=made_from))).away


def test_who_is_at_work_is_not_away() -> None:
    """Client 2 begins in round 1 and comes in round 2, one move old; client 3 comes back in the third."""
    rounds = [
        moved(1, [0, 1], [0.0, 0.0], [1.0, 2.0]),
        moved(2, [0, 2], [2.0, 0.0], [3.0, 4.0], dropped=[[1, 2.0, 2.5]]),
        moved(3, [0, 1, 2, 3], [4.0] * 4, [6.0] * 4),
    ]
    assert away(rounds, 4) == [[3], [3], []]
    # nobody can stop client 1: given up after 2 s, it works until its reply is in after 6
    late = {"refused": [{"client": 1, "reason": "late: no reply within 2.0 s"}]}
    came = {"refused": [{"client": 1, "reason": "late reply: work for round 1 came after 6 s"}]}
    alone = [moved(n, [0], [2.0 * n - 2], [2.0 * n], plan=p) for n, p in enumerate([late, {}, came, {}], 1)]
    assert away([*alone, moved(5, [0, 1], [8.0, 8.0], [10.0, 10.0])], 2) == [[], [], [], [1], []]


def test_mistakes_are_sentences(known: tuple[Path, Path], tmp_path: Path) -> None:
    short = simulated(tmp_path / "short", rounds=2)
    with pytest.raises(UserError, match="has 2 rounds; to calibrate by, give one with at least 3"):
        calibrate([short])
    other = simulated(tmp_path / "other", clients=2, rounds=4)
    with pytest.raises(UserError, match="calibrate by runs of the same clients"):
        calibrate([known[1], other])
    done = CliRunner().invoke(app, ["calibrate", str(known[1]), "--out", str(tmp_path / "profile.txt")])
    assert done.exit_code == 2 and "ends in .csv" in " ".join(done.output.split())
