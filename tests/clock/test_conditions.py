"""Jitter, absence and failure: by hand, by their laws, and the same bits when a run is resumed."""

from pathlib import Path

import numpy as np
import pytest
from federation_small import SMALL, own_data

import amsfl
from amsfl.clock.conditions import ClientConditions, _luck, chain, presence
from amsfl.core import UserError

DATA = own_data(120)
COMMON = SMALL | {"clock": "makespan", "clients": 5, "rounds": 6}


def run(**changes):
    return amsfl.run(dataset=DATA, **COMMON | changes)


def test_a_trace_by_hand_and_repeated(tmp_path: Path):
    """One client there in [1, 3) and [3, 4), one stretch, and [6, 8); the other in [0, 10): the period."""
    path = tmp_path / "trace.csv"
    path.write_text("client,from,to\na,6,8\na,1,3\na,3,4\nb,0,10\n")
    window = presence(str(path), 2, 0, ("a", "b"))
    assert window(0, 0.0) == (1, 4) and window(0, 3.5) == (1, 4)
    assert window(0, 4.0) == (6, 8)
    assert window(0, 8.0) == (11, 14) and window(0, 27.9) == (26, 28)
    assert window(1, 25.0) == (20, 30)


def test_work_stands_still_while_a_client_is_away(tmp_path: Path):
    """3 s of work begun at 3 in the trace above: one second until 4, two from 6 on: done at 8."""
    path = tmp_path / "trace.csv"
    path.write_text("client,from,to\n0,1,4\n0,6,8\n1,0,10\n")
    weather = ClientConditions(window=presence(str(path), 2, 0))
    pairs = ([0, 1], [0, 0], [3.0, 3.0], [2.0, 2.0], [1.0, 1.0])
    arrives, lost = weather.trips(0, *map(np.array, pairs))
    assert arrives.tolist() == [8, 6] and not lost.any()
    assert weather.begin(0, 4.5) == 6


def test_chains_have_their_means_and_can_be_asked_about_the_past():
    """Mean times of 2,000 stretches lie within 5 standard errors (mean/sqrt(n)) of what was asked for."""
    window = chain(np.array([30.0, 30.0]), np.array([10.0, 10.0]), 7)
    t, on, off, stretches = 0.0, [], [], []
    for _ in range(2000):
        begin, end = window(0, t)
        off += [begin - t] if begin > t and stretches else []
        on.append(end - begin)
        stretches.append((begin, end))
        t = end
    assert abs(np.mean(on) - 30) < 5 * 30 / 2000**0.5 and abs(np.mean(off) - 10) < 5 * 10 / 2000**0.5
    assert [window(0, begin) for begin, _ in stretches[:50]] == stretches[:50]
    assert window(1, 0.0) != stretches[0]


def test_luck_has_its_laws():
    """20,000 draws: means and variances within 5 standard errors of the normal's and the uniform's."""
    n = 20_000
    one, two, u, v = _luck(1, np.arange(n), np.zeros(n, int))
    for normal in (one, two):
        assert abs(normal.mean()) < 5 / n**0.5 and abs(normal.var() - 1) < 5 * (2 / n) ** 0.5
    assert abs(np.corrcoef(one, two)[0, 1]) < 5 / n**0.5
    for uniform in (u, v):
        assert abs(uniform.mean() - 0.5) < 5 * (1 / 12 / n) ** 0.5


def test_jitter_moves_seconds_and_nothing_else():
    """Everyone is waited for, so the model is the same to the bit; only the clock differs, and by seed."""
    calm, rough, other = run(), run(jitter=0.5), run(jitter=1.0)
    np.testing.assert_array_equal(calm.params, rough.params)
    assert len({each.summary.virtual_seconds for each in (calm, rough, other)}) == 3
    assert rough.rounds[0].arrived and not calm.rounds[0].arrived


def test_failures_are_left_out(tmp_path: Path):
    """Two of five never succeed: only the others are in any model, and each failure is on record."""
    path = tmp_path / "sites.csv"
    path.write_text("step_seconds,failure\n" + "0.1,0\n" * 3 + "0.1,1\n" * 2)
    found = run(profile=str(path))
    assert all(each.cohort == [0, 1, 2] for each in found.rounds)
    assert all(sorted(who for who, *_ in each.dropped) == [3, 4] for each in found.rounds)
    with pytest.raises(UserError, match="clients failed"):
        path.write_text("step_seconds,failure\n" + "0.1,1\n" * 5)
        run(profile=str(path))


def test_clients_that_are_away_are_not_invited(tmp_path: Path):
    """Client 0 is there in the first second of ten only; the others always, and four of five are enough."""
    path = tmp_path / "trace.csv"
    path.write_text("client,from,to\n0,0,1\n" + "".join(f"{who},0,10\n" for who in range(1, 5)))
    found = run(availability=str(path), steps=20, rounds=9, round_end="quorum:4,drop")
    began = [round(each.seconds["makespan"] - each.round_seconds["makespan"], 9) for each in found.rounds]
    asked = [0 in [*each.cohort, *(who for who, *_ in each.dropped)] for each in found.rounds]
    assert asked == [when < 1 for when in began] and False in asked and True in asked


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"availability": "chian:1,2"}, r"Unknown availability 'chian:1,2' \(did you mean 'chain'\?\)"),
        ({"availability": "chain:1"}, "as in chain:600,60"),
        ({"availability": "none.csv"}, "Cannot read none.csv"),
        ({"availability": "chain:5,5", "clock": "sum"}, "add --clock makespan"),
        ({"jitter": 0.1, "details": "models"}, "leave models out of --details"),
    ],
)
def test_mistakes_are_sentences(changes, sentence):
    with pytest.raises(UserError, match=sentence):
        run(**changes)


def test_a_table_and_a_setting_that_say_the_same(tmp_path: Path):
    path = tmp_path / "sites.csv"
    path.write_text("step_seconds,jitter,on_seconds\n" + "0.1,0.2,5\n" * 5)
    with pytest.raises(UserError, match="give both"):
        run(profile=str(path))
    path.write_text("step_seconds,jitter\n" + "0.1,0.2\n" * 5)
    with pytest.raises(UserError, match="has a column for it"):
        run(profile=str(path), jitter=0.1)
