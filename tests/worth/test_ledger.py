"""The ledger against brute force, its costs by hand, and a whole run with one."""

from types import SimpleNamespace

import numpy as np
import pytest
from federation_small import SMALL, own_data
from test_shapley import by_definition
from typer.testing import CliRunner

import amsfl
from amsfl.cli.app import app
from amsfl.core import UserError, Verdict
from amsfl.record import RoundRecord
from amsfl.study.what_if import what_if
from amsfl.worth.costs import caused, client_costs
from amsfl.worth.ledger import (
    BLOCK,
    RoundParts,
    as_arrays,
    coalition_models,
    enter,
    from_arrays,
    judged,
    open_ledger,
    scored,
    twins,
)
from amsfl.worth.shapley import all_coalitions, shapley
from amsfl.worth.statement import NOISE, OwnRows, WorthStatement, related


def test_one_round_of_fedavg_against_brute_force():
    """After one round every coalition's model is the average of its members' own, and the values follow."""
    rng = np.random.default_rng(1)
    weights, deltas, first = np.array([0.5, 0.2, 0.3]), rng.normal(size=(3, 4)), rng.normal(size=4)
    move = weights @ deltas
    ledger = enter(
        open_ledger(weights, 4, float), RoundParts(np.arange(3), weights, deltas, np.ones(3)), move
    )
    members = all_coalitions(3)
    models = coalition_models(ledger, first + move, first, members)
    for some, model in zip(members, models, strict=True):
        share = weights * some
        wanted = first if not some.any() else first + share @ deltas / share.sum()
        np.testing.assert_allclose(model, wanted, atol=1e-12)
    target = rng.normal(size=4)
    values = -((models - target) ** 2)  # a known game: four rows, each a coordinate's closeness to a target
    shares = shapley(3, lambda some: -((coalition_models(ledger, first + move, first, some) - target) ** 2))
    np.testing.assert_allclose(shares.rows, by_definition(values), atol=1e-12)


def test_rounds_kept_apart_are_the_same_sums():
    """D_S <- r D_S + the round's difference, over more rounds than are kept apart, for client 0 alone.

    Deltas are as long as each other and 1 - exp(-path) is 0.7: r is 0.3, three quarters of the way from 0 to
    0.4, so three quarters of the one sum and a quarter of the other.
    """
    rng, weights, path = np.random.default_rng(2), np.array([0.5, 0.5]), np.full(2, -np.log(0.3))
    ledger, model = open_ledger(weights, 3, float), np.zeros(3)
    sums = {0.0: np.zeros(3), 0.4: np.zeros(3)}
    for _ in range(2 * BLOCK + 3):
        own = rng.normal(size=3)
        deltas = np.stack([own, np.roll(own, 1)])
        move = weights @ deltas
        ledger, model = enter(ledger, RoundParts(np.arange(2), weights, deltas, path), move), model + move
        sums = {keep: keep * part + deltas[0] - move for keep, part in sums.items()}
    alone = coalition_models(ledger, model, 0 * model, np.array([[True, False]]))[0]
    np.testing.assert_allclose(alone, model + 0.75 * sums[0.4] + 0.25 * sums[0.0], atol=1e-9)


def test_what_is_not_the_uploads_is_everybodys():
    """A server that moves twice as far and aside: parts are twice as large, and aside goes to every model."""
    deltas = np.array([[1.0, 0.0], [3.0, 0.0]])
    parts = RoundParts(np.arange(2), np.array([0.5, 0.5]), deltas, np.ones(2))
    ledger = enter(open_ledger(np.ones(2), 2, float), parts, np.array([4.0, 5.0]))
    models = coalition_models(ledger, np.array([4.0, 5.0]), np.zeros(2), all_coalitions(2))
    np.testing.assert_allclose(models, [[0, 0], [2, 5], [6, 5], [4, 5]], atol=1e-12)


def test_twins_are_alike_and_a_silent_client_pulls_nothing_back():
    rng = np.random.default_rng(0)
    ledger = open_ledger(np.ones(4), 50, float)
    mine, other = rng.normal(size=(2, 50))
    for _ in range(20):
        deltas = np.stack([mine, mine, other, 0 * other]) + 0.1 * rng.normal(size=(4, 50)) * [
            [1],
            [1],
            [1],
            [0],
        ]
        ledger = enter(ledger, RoundParts(np.arange(4), np.full(4, 0.25), deltas, np.ones(4)), deltas.mean(0))
    assert twins(ledger) == [1, 0, None, None]
    way = 20 * np.stack([mine, mine, other, 0 * other]).mean(0)
    silent = coalition_models(ledger, way, 0 * way, np.eye(4, dtype=bool))[3]
    assert np.linalg.norm(silent) < 0.1 * np.linalg.norm(way)  # it never left the first model


def a_round(**changes):
    seconds = {"sum": 9.0, "makespan": 4.0}
    return RoundRecord(
        1, seconds, seconds, cohort=[0, 2], steps=[3, 5], bytes_up=2e6, bytes_down=2e6, **changes
    )


def test_costs_by_hand():
    """Client 2 came a second and a half after client 0; one after another each keeps the others waiting."""
    each = a_round(plan={"client_seconds": [2.5, 4.0], "client_joules": [1.0, 2.0]})
    assert caused(each, "makespan").tolist() == [0.0, 1.5]
    assert caused(each, "sum").tolist() == [2.5, 4.0]
    private = each._replace(epsilon=[0.5, 0.0, 0.75])
    first, absent, last = client_costs([each, private], 3, "makespan")
    assert (first.epsilon, last.epsilon) == (0.5, 0.75)
    assert (last.seconds, last.steps, last.megabytes, last.joules, last.money) == (3.0, 10, 4.0, 4.0, None)
    assert (first.seconds, absent.steps) == (0.0, 0)


def test_nobody_keeps_a_server_that_waits_for_a_moment():
    each = a_round(plan={"client_seconds": [2.5, 3.0]}, arrived=[2.5, 3.0], started=[0.0, 0.0])
    assert caused(each, "makespan").tolist() == [0.0, 0.0]


SITES = {"sites": np.arange(60, dtype=np.int32) % 3, "site_names": ("Graz", "Lyon", "Oslo")}
ALL = SMALL | {"worth": True, "clock": "makespan", "progress": False}


@pytest.mark.parametrize("method", ["fedavg", "amsfl", "scaffold", "fedadam"])
def test_values_add_up_for_any_method(method):
    result = amsfl.run(dataset=own_data(**SITES), **ALL | {"method": method, "policy": "fixed"})
    statement = WorthStatement.read(result.summary.worth)
    added = sum(each.adds.mean for each in statement.clients)
    assert added == pytest.approx(statement.last - statement.first)
    assert statement.last == pytest.approx(result.accuracy)  # 20 rows: the ledger takes them all
    assert result.rounds[-1].worth["score"] == pytest.approx(result.accuracy)


def test_engines_agree():
    both = [
        amsfl.run(dataset=own_data(**SITES), **ALL | {"engine": engine}).summary.worth
        for engine in ("loop", "jax")
    ]
    one, two = (np.array([each["adds"] for each in worth["clients"]]) for worth in both)
    np.testing.assert_allclose(one, two, atol=1e-9)


def test_rounds_that_do_not_wait():
    changes = {"method": "fedbuff", "round_end": "buffer:2", "rounds": 6, "profile": "mild", "clients": 3}
    result = amsfl.run(dataset=own_data(**SITES), **ALL | changes)
    assert [each["name"] for each in result.summary.worth["clients"]] == ["Graz", "Lyon", "Oslo"]


def test_resumed_to_the_same_statement(tmp_path):
    data = own_data(**SITES)
    whole = amsfl.run(dataset=data, **ALL)
    amsfl.run(dataset=data, out=tmp_path / "run", **ALL | {"rounds": 2})
    assert amsfl.resume(tmp_path / "run", dataset=data, rounds=4).summary.worth == whole.summary.worth


def test_the_command_and_what_if(tmp_path):
    pytest.importorskip("pandas")
    settings = ALL | {"profile": "mild", "rounds": 6, "target": 0.6, "stop_at_target": False}
    result = amsfl.run(dataset=own_data(**SITES), out=tmp_path / "run", **settings)
    assert list(result.worth().index) == ["Graz", "Lyon", "Oslo"]
    answer = CliRunner().invoke(app, ["worth", str(tmp_path / "run")])
    assert answer.exit_code == 0 and "Graz adds" in answer.output, answer.output
    foretold = what_if(tmp_path / "run", "Oslo")
    keep = np.asarray(SITES["sites"]) != 2
    data = own_data()
    other = own_data(x=data.x[keep], y=data.y[keep], sites=SITES["sites"][keep], site_names=("Graz", "Lyon"))
    left = amsfl.run(dataset=other, **settings | {"worth": False})
    assert abs(foretold.error) < 0.01
    assert foretold.would.ends[-1] == pytest.approx(left.summary.virtual_seconds, rel=0.01)
    quicker = what_if(tmp_path / "run", speeds={"Oslo": 2.0})
    assert quicker.would.ends[-1] < quicker.was.ends[-1]
    asked = CliRunner().invoke(
        app, ["worth", str(tmp_path / "run"), "--without", "Oslo", "--budget", "1", "--json"]
    )
    assert asked.exit_code == 0, asked.output
    twice = CliRunner().invoke(
        app, ["worth", str(tmp_path / "run"), "--without", "Oslo", "--without", "Graz"]
    )
    assert twice.exit_code == 2 and "one client" in twice.stderr
    both = ["--without", "Oslo", "--with-speed", "Oslo=2x"]
    refused = CliRunner().invoke(app, ["worth", str(tmp_path / "run"), *both])
    assert refused.exit_code == 2 and "both name Oslo" in refused.stderr
    with pytest.raises(UserError, match="Olso"):
        what_if(tmp_path / "run", "Olso")
    with pytest.raises(UserError, match="'9'") as unknown:
        what_if(tmp_path / "run", "9")
    assert str(unknown.value).count("Graz") == 1


def test_a_ledger_goes_where_the_judge_sends_the_server():
    """What a round found better is the anchor that it began with: its own uploads are not that anchor's."""
    rng, weights = np.random.default_rng(0), np.full(3, 1 / 3)

    def after(ledger, rounds):
        for _ in range(rounds):
            deltas = rng.normal(size=(3, 4))
            work = RoundParts(np.arange(3), weights, deltas, np.ones(3))
            ledger = enter(ledger, work, deltas.mean(0))
        return ledger

    own, best = judged(after(open_ledger(weights, 4, float), BLOCK + 2), None, Verdict.BETTER)
    kept = [part.copy() for part in best]
    own, best = judged(after(own, 3), best, Verdict.NONE)
    assert own.rounds.tolist() == [BLOCK + 5] * 3 and scored(own, best, 0) is own
    back, best = judged(own, best, Verdict.BACK)
    after(back, 1)  # does not touch the best one
    states = SimpleNamespace(ledger=None, best_ledger=best)
    again = from_arrays(as_arrays(states) | {"other": np.zeros(1)})
    assert again["ledger"] is None
    assert all(np.array_equal(a, b) for a, b in zip(again["best_ledger"], kept, strict=True))
    branch, best = judged(own, best, Verdict.BRANCH)
    assert not branch.rounds.any() and not branch.parts.any() and scored(branch, best, 20) is best
    anew, nothing = judged(own, best, Verdict.RESTART)
    assert not anew.parts.any() and nothing is None


def test_costs_without_a_ledger(tmp_path):
    amsfl.run(dataset=own_data(**SITES), out=tmp_path / "run", **SMALL, progress=False)
    answer = CliRunner().invoke(app, ["worth", str(tmp_path / "run")])
    assert answer.exit_code == 0 and "Graz" in answer.output and "--worth" in answer.output, answer.output


def test_mistakes_are_sentences(tmp_path):
    result = amsfl.run(dataset=own_data(**SITES), **SMALL, progress=False)
    with pytest.raises(UserError, match="worth=True"):
        result.worth()
    with pytest.raises(UserError, match="under privacy"):
        amsfl.run(dataset=own_data(**SITES), **ALL | {"epsilon": 3.0})
    with pytest.raises(UserError, match="clients at most"):
        amsfl.run(dataset=own_data(rows=600), **ALL | {"clients": 100, "partition": "iid"})


def test_labels_by_chance_are_not_related_and_wrong_ones_are():
    rng = np.random.default_rng(0)
    said = rng.integers(10, size=400)
    for labels, telling in ((said, 1.0), ((said + 1) % 10, 1.0), (rng.integers(10, size=400), 0.0)):
        shuffled = np.mean([related(said, rng.permutation(labels)) for _ in range(8)], 0)
        rows = OwnRows(said, said, related(said, labels), shuffled)
        assert rows.telling.mean == pytest.approx(telling, abs=NOISE)
