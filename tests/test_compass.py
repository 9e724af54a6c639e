"""FedCompass: its scheduler and its queue by hand, on real runs, and resumed."""

from pathlib import Path

import numpy as np
import pytest
from federation_small import SMALL, own_data

import amsfl
from amsfl import methods
from amsfl.core import UserError
from amsfl.schedule.compass import Client, Meeting, assign

DATA = own_data(120)
COMMON = SMALL | {
    "clock": "makespan",
    "steps": 10,
    "clients": 3,
    "method": "fedcompass",
    "staleness": "poly:0.5",
}


def test_who_joins_and_who_makes_a_group_by_hand():
    """2 to 10 steps. A group that meets in 8 s: a client of 1 s a step joins it with 8 steps, one of 0.5 s
    cannot (16), and one of 5 s cannot (1).

    The second group would be of the one with 0.5 s: once the first has met, its fastest takes all its 10
    steps of 1 s, back at 18; in 18 s it takes 36, above 10, so it takes all that it may. The one of 5 s takes
    floor(18/5) = 3 steps, to meet it then.
    """
    group = {4: Meeting(8.0, 9.6, 10.0)}
    assert assign(Client(1.0, 0.0, 2, 10), 0.0, group) == (8, 4)
    assert assign(Client(0.5, 0.0, 2, 10), 0.0, group) == (10, None)
    assert assign(Client(5.0, 0.0, 2, 10), 0.0, group) == (3, None)
    assert assign(Client(1.0, 2.0, 2, 10), 0.0, group) == (6, 4)  # two seconds go to the link
    both = group | {7: Meeting(6.0, 7.2, 1.0)}
    assert assign(Client(1.0, 0.0, 2, 10), 0.0, both) == (8, 4)  # where it takes the most steps
    assert assign(Client(1.0, 0.0, 2, 10), 0.0, {}) == (10, None)


@pytest.fixture
def sites(tmp_path: Path) -> str:
    path = tmp_path / "sites.csv"
    path.write_text("step_seconds\n1\n2\n4\n")
    return str(path)


def run(sites, **changes):
    return amsfl.run(dataset=DATA, **COMMON | {"profile": sites} | changes)


def test_the_queue_by_hand(sites):
    """Seconds a step 1, 2 and 4; 2 to 10 steps.

    First rounds of 2 steps: in at 2, 4 and 8, each a move of its own. At 2 the fast one makes a group of 10
    steps, to meet at 12. At 4 the second joins it: (12 - 4)/2 = 4 steps. At 8 the slow one would have 1 step;
    the fastest of that group is back at 12 + 10 = 22, so it takes (22 - 8)/4 = 3 steps and meets at 20. At 12
    both are in: a move. The fast one joins the slow one's group with (20 - 12)/1 = 8 steps, the second one
    with 4. At 20 all three are in.
    """
    rounds = run(sites, rounds=5).rounds
    seen = [(round(each.seconds["makespan"], 6), each.cohort, each.steps, each.staleness) for each in rounds]
    assert seen[:3] == [(2.0, [0], [2], [0]), (4.0, [1], [2], [1]), (8.0, [2], [2], [2])]
    assert seen[3] == (12.0, [0, 1], [10, 4], [2, 1])
    assert seen[4] == (20.0, [0, 1, 2], [8, 4, 3], [0, 0, 1])


def test_a_group_counts_by_its_shares_and_ages():
    """x+ = x + 0.9 sum_i s_i w_i d_i, shares of all data: two of three clients of 0.2 and 0.3."""
    method = methods.make("fedcompass")
    mix = method.mix(np.array([0.2, 0.3]), np.array([4.0, 9.0]))
    np.testing.assert_allclose(mix, [0.18, 0.27])


def test_who_is_late_counts_later_and_a_group_does_not_wait_forever(tmp_path: Path):
    """Clients vanish for long: groups end after 1.2 times their time, and late work comes in with others."""
    result = run("wild", clients=5, rounds=60, availability="chain:3,3", jitter=0.3, seed=3)
    ages = [age for each in result.rounds for age in each.staleness]
    assert max(ages) >= 2 and len(result.rounds) == 60
    for each in result.rounds:
        assert all(arrived <= each.seconds["makespan"] + 1e-9 for arrived in each.arrived)
    times = [each.seconds["makespan"] for each in result.rounds]
    assert times == sorted(times)


def test_resumed_it_has_the_same_bits(tmp_path: Path):
    how = {"clients": 5, "availability": "chain:3,1", "failure": 0.1, "checkpoint_every": 7}
    whole = run("wild", rounds=20, **how)
    run("wild", rounds=11, out=tmp_path / "a", **how)
    again = amsfl.resume(tmp_path / "a", rounds=20, dataset=DATA)
    np.testing.assert_array_equal(again.params, whole.params)
    assert [r.seconds for r in again.rounds] == [r.seconds for r in whole.rounds]


def test_any_method_may_meet_in_groups_and_a_part_of_the_clients_may_not(sites):
    assert run(sites, method="amsfl", round_end="groups:0.5,1.5", rounds=8).summary.rounds == 8
    assert run(sites, method="fedavg", round_end="groups", clients=3, cohort=2).summary.rounds == 4
    with pytest.raises(UserError, match="leave --cohort out"):
        run(sites, cohort=2)
    for wrong in ("groups:2,1", "groups:0.2,0.5", "groups:x", "groups:1"):
        with pytest.raises(UserError, match="write groups"):
            run(sites, round_end=wrong)
