"""Profiles, costs and both clocks, by hand."""

from pathlib import Path

import numpy as np
import pytest

from amsfl import clock, methods, planning
from amsfl.cli.sites import read as read_clients
from amsfl.core import UserError
from amsfl.methods.amsfl import Amsfl
from amsfl.simulation import components

DIM = 10_117  # MLP 122-64-32-5, what the built-in tables are about


def work_of(name: str, dim: int = DIM) -> clock.Overhead:
    """What simulation/setup.py charges for a method."""
    method = methods.make(name)
    policy = planning.policy(method.facts.policy)
    return components.work_of(methods.Federation(method), policy, dim)


@pytest.mark.parametrize("name", clock.BUILT_IN)
def test_built_in_tables(name):
    """A round of FedAvg with the default model costs what the table says: c_i t + b_i."""
    _, steps, comm, _ = clock.BUILT_IN[name]
    cost = clock.costs(clock.profile(name, 5), work_of("fedavg"))
    np.testing.assert_allclose(cost.step_seconds, np.resize(steps, 5))
    np.testing.assert_allclose(cost.comm_seconds, np.resize(comm, 5))


def test_built_in_tables_repeat_and_are_cut():
    seven, two = clock.profile("mild", 7), clock.profile("mild", 2)
    assert seven.clients == 7 and two.clients == 2
    np.testing.assert_array_equal(seven.step_seconds[5:], seven.step_seconds[:2])
    np.testing.assert_array_equal(two.latency, seven.latency[:2])


def test_only_slow_big_says_who_holds_what():
    """The third client is the slowest and holds half; shares sum to 1 for any number of clients."""
    assert clock.profile("mild", 5).shares is None
    big = clock.profile("slow-big", 5)
    assert big.shares is not None and big.shares.argmax() == big.step_seconds.argmax() == 2
    np.testing.assert_allclose(big.shares, [0.125, 0.125, 0.5, 0.125, 0.125])
    assert clock.profile("slow-big", 8).shares.sum() == pytest.approx(1)


def test_scaffold_pays_for_its_control_variates():
    """Half of b is latency, paid once; half is transfer, twice as long with two vectors: 1.5 b."""
    profile = clock.profile("far", 5)
    plain, twice = (clock.costs(profile, work_of(name)) for name in ("fedavg", "scaffold"))
    np.testing.assert_allclose(twice.comm_seconds, 1.5 * plain.comm_seconds)
    np.testing.assert_array_equal(twice.step_seconds, plain.step_seconds)


def test_amsfl_pays_for_its_gradient_and_its_scalars():
    """One gradient a round (c_i) and six float32 numbers up (24 bytes at the client's bandwidth)."""
    profile = clock.profile("mild", 5)
    plain, ours = (clock.costs(profile, work_of(name)) for name in ("fedavg", "amsfl"))
    scalars = 8e-6 * 4 * 6 / profile.up_mbps
    np.testing.assert_allclose(
        ours.comm_seconds - plain.comm_seconds, profile.step_seconds + scalars, rtol=1e-9
    )
    np.testing.assert_array_equal(ours.step_seconds, plain.step_seconds)


def test_fedcsda_pays_for_its_teacher():
    """Two vectors down, one up: 1.25 b. A forward pass a step (1/3 gradient), prototypes on 512 rows
    a round: 512/64 forward passes of a batch, 8/3 gradients."""
    profile = clock.profile("wild", 5)
    plain, taught = (clock.costs(profile, work_of(name)) for name in ("fedavg", "fedcsda"))
    np.testing.assert_allclose(taught.step_seconds, plain.step_seconds * 4 / 3)
    np.testing.assert_allclose(taught.comm_seconds, 1.25 * plain.comm_seconds + 8 / 3 * profile.step_seconds)
    job = components.work_of(
        methods.Federation(methods.make("fedcsda")), planning.policy("fixed"), DIM, batch=256
    )
    small = clock.costs(profile, job).comm_seconds
    np.testing.assert_allclose(small, 1.25 * plain.comm_seconds + 2 / 3 * profile.step_seconds)


def test_both_clocks_by_hand():
    """c = (1, 2, 4), b = (10, 20, 5): 3 steps of client 0 and 2 of client 2 take 13 each, 5 of 1 take 30."""
    cost = clock.Costs(np.array([1.0, 2.0, 4.0]), np.array([10.0, 20.0, 5.0]))
    assert clock.round_seconds(cost, np.array([0, 2]), [3, 2]) == {"sum": 26.0, "makespan": 13.0}
    assert clock.round_seconds(cost, np.array([0, 1, 2]), [3, 5, 2]) == {"sum": 56.0, "makespan": 30.0}


def test_bytes_by_hand():
    """100 numbers, 2 down and 1 up with 6 scalars: 800 bytes down, 424 up. At 8 and 0.8 Mbit/s that is
    800 us and 4.24 ms."""

    class Two(Amsfl):
        facts = Amsfl.facts._replace(vectors_down=2)

    job = components.work_of(methods.Federation(Two()), planning.policy("price"), 100)._replace(
        extra_gradients=0.0
    )
    assert (job.bytes_down, job.bytes_up) == (800, 424)
    profile = clock.Profile("x", *(np.array([v]) for v in (0.1, 0.5, 0.8, 8.0)))
    assert clock.costs(profile, job).comm_seconds[0] == pytest.approx(0.5 + 800e-6 + 4.24e-3)


def test_lognormal_is_seeded():
    one, again, other = (clock.profile("lognormal:0.02,0.8", 4000, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.step_seconds, again.step_seconds)
    assert (one.step_seconds != other.step_seconds).all()
    # the median of 4,000 draws lies within 5 standard errors (1.2533 sigma/sqrt(n)) of 0.02
    assert abs(np.log(np.median(one.step_seconds) / 0.02)) < 5 * 1.2533 * 0.8 / 4000**0.5
    assert np.log(one.step_seconds).std() == pytest.approx(0.8, rel=0.06)
    assert (clock.profile("lognormal:0.02,0", 3).step_seconds == 0.02).all()


FORM, RANGE = r"write lognormal:MEDIAN,SIGMA, as in lognormal:0\.02,0\.8", "the median goes from 1e-09"
MALFORMED = dict.fromkeys(["lognormal", "lognormal:0.02", "lognormal:a,b", "lognormal:0.02,1,2"], FORM)
MALFORMED |= dict.fromkeys(["lognormal:0,1", "lognormal:-1,1", "lognormal:1,-1", "lognormal:nan,1"], RANGE)


@pytest.mark.parametrize("spec", MALFORMED)
def test_lognormal_that_is_none(spec):
    with pytest.raises(UserError, match=MALFORMED[spec]):
        clock.profile(spec, 5)


GOOD = "step_seconds,latency,up_mbps,down_mbps\n0.01,0,20,100\n0.5,0.25,1,2\n"


def test_csv_profile(tmp_path):
    """Columns in any order, spaces around their names, others beside them."""
    path = tmp_path / "sites.csv"
    path.write_text(
        "client, latency,step_seconds,up_mbps ,down_mbps,gain,fading\n"
        "Oslo,0,0.01,20,100,1,2\nFaro,0.25,0.5,1,2,1,2\n"
    )
    read = clock.profile(str(path), 2)
    assert read.name == "sites.csv" and read.shares is None
    for column, values in zip(
        (read.step_seconds, read.latency, read.up_mbps, read.down_mbps),
        ([0.01, 0.5], [0, 0.25], [20, 1], [100, 2]),
        strict=True,
    ):
        np.testing.assert_array_equal(column, values)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (GOOD.replace("latency,", "latencies,"), r"unknown column 'latencies' \(did you mean 'latency'\?\)"),
        ("", "has no column 'step_seconds'; the columns there are: none"),
        (
            GOOD.replace("step_seconds,", "weight,"),
            "has no column 'step_seconds'; the columns there are: weight,",
        ),
        (GOOD.replace("0.25", "-0.25"), r"p\.csv, line 3: latency is -0\.25; give a number from 0 to"),
        (GOOD.replace("0.5,", "-0.5,"), r"line 3: step_seconds is -0\.5; give a number from 1e-09 to"),
        (GOOD.replace("0.5,", "0,"), r"line 3: step_seconds is 0; give a number from 1e-09 to"),
        (GOOD.replace("20,", "nan,"), r"line 2: up_mbps is nan; give a number from 1e-09 to"),
        (GOOD.replace("20,", "fast,"), r"line 2: up_mbps is 'fast', not a number"),
        (GOOD.replace(",1,2", ",1"), r"line 3: down_mbps is empty"),
        ("step_seconds,weight\n1,0\n1,0\n", "all weights are 0"),
        (GOOD.replace("0.01,0,20,100\n", ""), r"has 1 lines for 2 clients; .* or use --clients 1"),
    ],
)
def test_csv_profile_mistakes_are_sentences(tmp_path, text, sentence):
    path = tmp_path / "p.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=sentence):
        clock.profile(str(path), 2)


def test_csv_profile_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match=r"Cannot read .*: No such file or directory\."):
        clock.profile(str(tmp_path / "none.csv"), 2)
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(UserError, match="Cannot read"):
        clock.profile(str(tmp_path / "bytes.csv"), 2)


def test_a_profile_finds_its_clients_by_name(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("client,step_seconds,latency,up_mbps,down_mbps\nsouth,2,0,1,1\nnorth,1,0,1,1\n")
    assert clock.profile(str(path), 2, names=("north", "south")).step_seconds.tolist() == [1, 2]
    assert clock.profile(str(path), 2).step_seconds.tolist() == [2, 1]  # without names: in the file's order
    with pytest.raises(UserError, match="no client is called 'south'"):
        clock.profile(str(path), 2, names=("north", "soudh"))
    path.write_text("client,step_seconds,latency,up_mbps,down_mbps\nnorth,2,0,1,1\nnorth,1,0,1,1\n")
    with pytest.raises(UserError, match="client 'north' is already on line 2"):
        clock.profile(str(path), 2, names=("north", "south"))


def test_one_table_of_sites_serves_a_plan_and_a_run(tmp_path: Path) -> None:
    """A run takes the links where there are any, a plan the seconds of a whole round's communication."""
    path = tmp_path / "sites.csv"
    path.write_text("client,weight,step_seconds,latency,up_mbps,comm_seconds\na,1,2,3,8,5\nb,3,2,3,8,5\n")
    run = clock.profile(str(path), 2)
    plan = read_clients(path)
    assert run.latency.tolist() == [3, 3] and run.up_mbps.tolist() == [8, 8]
    assert (
        run.shares.tolist() == [0.25, 0.75] and clock.profile(str(path), 2, names=("b", "a")).shares is None
    )
    assert plan["comm_seconds"].tolist() == [5, 5] and plan["clients"] == ("a", "b")
    path.write_text("step_seconds,comm_seconds\n2,5\n1,4\n")
    bare = clock.profile(str(path), 2)
    costs = clock.costs(bare, clock.Overhead(1e6, 1e6))
    np.testing.assert_allclose(costs.comm_seconds, [5, 4], rtol=1e-6)  # all of it, whatever travels
