"""From records to profiles: numbers by hand, what a simulation was given, what makes no sense."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import invoke, succeed
from federation_small import SMALL, own_data

import amsfl
from amsfl.clock import read_profile
from amsfl.core import UserError
from amsfl.record import Manifest, RoundRecord, RunRecord
from amsfl.study.calibrate import as_csv, calibrate, fit

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
    want, (sites, server) = read_profile(table, 3), calibrate([run])
    assert want.sites is not None and abs(server) < 0.02
    found = sites.columns
    np.testing.assert_allclose(found["step_seconds"], want.step_seconds)
    np.testing.assert_allclose(found["latency"], want.latency, rtol=0.12)
    np.testing.assert_allclose(found["jitter"], want.sites.columns["jitter"], rtol=0.35, atol=1e-9)
    np.testing.assert_allclose(found["failure"], [0, 0.2, 0.1], atol=0.12)


def test_the_profile_runs_and_takes_as_long(known: tuple[Path, Path], tmp_path: Path) -> None:
    written = tmp_path / "profile.csv"
    succeed("calibrate", known[1], "--out", written)
    assert written.read_text().startswith("client,step_seconds,latency,jitter,failure\n0,0.01,")
    again = simulated(tmp_path / "again", profile=str(written))
    ends = [amsfl.record.read_run(folder).rounds[-1].seconds["makespan"] for folder in (known[1], again)]
    assert ends[1] == pytest.approx(ends[0], rel=0.05)


def test_a_buffer_has_no_server_of_its_own(tmp_path: Path) -> None:
    """Rounds overlap in a simulation without a server's time: what is fitted is what it was given."""
    run = simulated(tmp_path / "aloft", method="fedbuff", round_end="buffer:2", profile="wild", rounds=16)
    found, server = calibrate([run])
    assert server == 0 and "jitter" not in found.columns
    given = amsfl.clock.profile("wild", 3, 0, ())
    np.testing.assert_allclose(found.columns["step_seconds"], given.step_seconds)


def real(rounds: list[RoundRecord], **settings: Any) -> RunRecord:
    about = {"clients": {"names": ["7", "12"]}}
    facts = {"fedavg": {"name": "fedavg", "title": "FedAvg", "note": ""}}
    kept = {"method": "fedavg", "data": "own", "cohort": None} | settings
    return RunRecord(Manifest("flower", kept, facts, about=about), rounds, None)


def one(number: int, took: list[float], elapsed: float, cohort: Any = (0, 1), **plan: Any) -> RoundRecord:
    """A round of 7, a quarter of the rows, and of 12; the server takes a second besides."""
    who = list(cohort)
    told = {"asked": [0, 1], "step_seconds": [0.1, 0.2][: len(who)], "refused": []}
    told |= {"client_seconds": took} | plan
    spent = {"makespan": elapsed - 1.0}
    return RoundRecord(
        number, {"makespan": 0.0}, spent, cohort=who, steps=[10, 5][: len(who)], plan=told,
        wall={"seconds": elapsed}, mix=[0.25, 0.75][: len(who)], staleness=[0] * len(who),
    )  # fmt: skip


def test_a_real_record_by_hand() -> None:
    """7: 10 steps of 0.1 s, rests 2, 3 and 7: the median is 3. 12: 5 of 0.2 s, rests 1, 1.5, 1.

    Residuals from 1 + 3 are -1, 0, 4; over hypot(1, 3) the median of their sizes is 1/sqrt(10).
    """
    rounds = [one(1, [3.0, 2.0], 4.0), one(2, [4.0, 2.5], 5.0), one(3, [8.0, 2.0], 9.0)]
    sites, server = fit([real(rounds)])
    assert sites.clients == ("7", "12") and server == 1
    assert as_csv(sites).splitlines() == [
        "client,weight,step_seconds,latency,jitter",
        f"7,0.25,0.1,4,{1.4826 / 10**0.5:.6g}",
        "12,0.75,0.2,2,0",
    ]
    running = real(rounds)._replace(manifest=Manifest("flower", {"data": "own"}))  # names come at the end
    assert fit([running])[0].clients == ("0", "1")
    rounds = [one(number, [3.0 + 1e-15 * number, 2.0], 4.0) for number in (1, 2, 3)]
    assert "jitter" not in fit([real(rounds)])[0].columns  # jitter that is rounding's own dust is none


def test_failures_and_absences_by_hand() -> None:
    """Five rounds of 4 s. 12 fails in the second, is gone in the third and fourth: there for 12 s until
    it leaves once, away for 8 s until it is back once; one of its three tries failed."""
    refused = [{"client": 1, "reason": "failed: the disk is full"}]
    rounds = [
        one(1, [3.0, 2.0], 4.0),
        one(2, [3.0], 4.0, [0], refused=refused),
        one(3, [3.0], 4.0, [0], asked=[0]),
        one(4, [3.0], 4.0, [0], asked=[0]),
        one(5, [3.0, 2.0], 4.0),
    ]
    found = fit([real(rounds)])[0].columns
    np.testing.assert_allclose(found["failure"], [0, 1 / 3])
    np.testing.assert_allclose(found["on_seconds"], [20, 12])
    np.testing.assert_allclose(found["off_seconds"], [0, 8])


def flower_record(out: Path, quorum: int | None, order: list[int], away: range = range(0)) -> Path:
    """The record of a Flower server of ours, twelve rounds: node i takes 0.1(i + 1) s a step and half a
    second besides, of which it says the steps' part, and the server takes a quarter of a second to score."""
    pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")
    from virtual_grid import PLAIN, VirtualGrid, arrays_of, steps_of, stock_app

    from amsfl.flower import AMSFL, RoundGrid

    def seconds(node: int, message: Any) -> float:
        steps = steps_of(message)
        return 0.1 * (node + 1) * steps + 0.5 if steps else 0.25

    said = {"train-seconds": lambda node, x, config: 0.1 * (node + 1) * config["local-steps"]}
    client = stock_app(lambda *_: np.ones(1), lambda node, x, config: 10 * (node + 1), **said)
    virtual = VirtualGrid(client, 3, seconds)
    strategy = AMSFL(
        steps=4, min_available_nodes=1, min_train_nodes=1, min_evaluate_nodes=1, out=out, **PLAIN
    )
    strategy.nodes.places([1000 + node for node in order])  # who was first to answer

    def stop(record: RoundRecord) -> bool:
        virtual.gone = {2} if record.round in away else set()
        return False

    strategy.stop = stop
    strategy.start(RoundGrid(virtual, poll=0.01, quorum=quorum), arrays_of(np.zeros(1)), num_rounds=12)
    return out


def test_the_record_of_a_flower_server(tmp_path: Path) -> None:
    """Every site's truth comes back, whoever was first to answer."""
    runs = [flower_record(tmp_path / str(n), None, order) for n, order in enumerate(([2, 0, 1], [0, 1, 2]))]
    sites, _ = calibrate(runs)
    found = sites.columns
    assert sites.clients == ("1000", "1001", "1002") and not {"failure", "on_seconds"} & {*found}
    np.testing.assert_allclose(found["step_seconds"], [0.1, 0.2, 0.3])
    np.testing.assert_allclose(found["latency"], 0.5 + 0.25, atol=0.05)  # by looks of 0.01 s
    np.testing.assert_allclose(found["weight"], np.array([1, 2, 3]) / 6)


def test_the_record_of_a_flower_server_that_does_not_wait(tmp_path: Path) -> None:
    """Under a quorum of two the third node is late, not away; then it is gone for three rounds."""
    late, server = calibrate([flower_record(tmp_path / "late", 2, [0, 1, 2])])
    np.testing.assert_allclose(late.columns["step_seconds"], [0.1, 0.2, 0.3])
    np.testing.assert_allclose(late.columns["latency"] - server, 0.5, atol=0.05)
    assert not {"failure", "on_seconds"} & {*late.columns}
    gone, _ = calibrate([flower_record(tmp_path / "gone", None, [0, 1, 2], range(4, 7))])
    np.testing.assert_array_equal(gone.columns["off_seconds"] > 0, [False, False, True])


def test_the_record_of_amsfl_deploy(tmp_path: Path) -> None:
    pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")
    run, table = tmp_path / "run", tmp_path / "sites.csv"
    words = ["--data", "digits", "--clients", "3", "--model", "softmax", "--method", "fedavg"]
    succeed("deploy", *words, "--rounds", "3", "--out", run)
    succeed("calibrate", run, "--out", table)
    assert read_profile(table, 3).step_seconds.shape == (3,)


def test_mistakes_are_sentences(known: tuple[Path, Path], tmp_path: Path) -> None:
    short = simulated(tmp_path / "short", rounds=2)
    with pytest.raises(UserError, match="has 2 rounds; to calibrate by, give one with at least 3"):
        calibrate([short])
    other = simulated(tmp_path / "other", clients=2, rounds=4)
    with pytest.raises(UserError, match="calibrate by runs of the same clients"):
        calibrate([known[1], other])
    done = invoke("calibrate", known[1], "--out", tmp_path / "profile.txt")
    assert done.exit_code == 2 and "ends in .csv" in " ".join(done.output.split())
