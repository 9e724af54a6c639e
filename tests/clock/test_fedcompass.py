"""FedCompass: its scheduler and its queue by hand, on real runs, and resumed."""

import heapq
import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from federation_small import SMALL, own_data

import amsfl
from amsfl import methods
from amsfl.clock.round_end import ArrivalGroup, Starter, fedcompass
from amsfl.core import UserError

DATA = own_data(120)
COMMON = SMALL | {"clock": "makespan", "steps": 10, "clients": 3, "method": "fedcompass"}
JOIN = fedcompass


def test_who_joins_and_who_makes_a_group_by_hand():
    """2 to 10 steps. A group that meets in 8 s: a client of 1 s a step joins it with 8 steps, one of 0.5 s
    cannot (16), and one of 5 s cannot (1).

    The second group would be of the one with 0.5 s: once the first is waited for no longer, at 9.6, its
    fastest takes all its 10 steps of 1 s, back at 19.6; in that time it takes 39, above 10, so it takes all
    that it may. The one of 5 s takes floor(19.6/5) = 3 steps, to meet it then; one of 15 s would take 1, and
    takes the 2 that it must.
    """
    group = {4: ArrivalGroup(0.0, 8.0, 9.6, 10.0)}
    assert JOIN(Starter(1.0, 0.0, 10), 0.0, group)[:2] == (8, 4)
    assert JOIN(Starter(0.5, 0.0, 10), 0.0, group)[:2] == (10, None)
    assert JOIN(Starter(5.0, 0.0, 10), 0.0, group)[:2] == (3, None)
    assert JOIN(Starter(15.0, 0.0, 10), 0.0, group)[:2] == (2, None)
    assert JOIN(Starter(5.0, 0.0, 10), 9.7, group)[:2] == (10, None)  # nobody waits for that group any more
    newer = group | {9: ArrivalGroup(0.0, 8.9, 9.6, 10.0)}
    assert JOIN(Starter(1.0, 0.0, 10), 0.0, newer)[:2] == (8, 9)
    assert JOIN(Starter(1.0, 2.0, 10), 0.0, group)[:2] == (6, 4)  # two seconds go to the link
    both = group | {7: ArrivalGroup(0.0, 6.0, 7.2, 1.0)}
    assert JOIN(Starter(1.0, 0.0, 10), 0.0, both)[:2] == (8, 4)  # where it takes the most steps
    assert JOIN(Starter(1.0, 0.0, 10), 0.0, {})[:2] == (10, None)


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
    steps, to meet at 12 and waited for until 14. At 4 the second joins it: (12 - 4)/2 = 4 steps. At 8 the
    slow one would have 1 step; the fastest of that group is back at 14 + 10 = 24, so it takes (24 - 8)/4 = 4
    steps and meets at 24. At 12 both are in: a move. The fast one cannot take 12 steps, and makes a group
    of its 10, to meet at 22. The second one meets the slow one, (24 - 12)/2 = 6 steps, not the fast one (5).
    At 22 the fast one is in, and joins them with 2 steps. At 24 all three are in.
    """
    rounds = run(sites, rounds=6).rounds
    seen = [(round(each.seconds["makespan"], 6), each.cohort, each.steps, each.staleness) for each in rounds]
    assert seen[:3] == [(2.0, [0], [2], [0]), (4.0, [1], [2], [1]), (8.0, [2], [2], [2])]
    assert seen[3] == (12.0, [0, 1], [10, 4], [2, 1])
    assert seen[4:] == [(22.0, [0], [10], [0]), (24.0, [0, 1, 2], [2, 6, 4], [0, 1, 2])]


def as_printed(durations, speeds, least, most, factor, moves):
    """(when, who, steps, how old) of every move by the pseudo-code alone: a heap of arrivals and timers.

    `durations[i]` are the seconds that client i's rounds really take, in their order; its speed and links
    without seconds are all that the server knows.
    """
    heap, groups, goes_to, late, found, version, names = [], {}, {}, [], [], 0, itertools.count()
    nth, steps, began = [0] * len(speeds), [least] * len(speeds), [0] * len(speeds)

    def off(who, now):
        began[who] = version
        heapq.heappush(heap, (now + durations[who][nth[who]], 0, who))
        nth[who] += 1

    def assign_group(who, now):
        best = None
        for name, group in groups.items():  # join
            count = math.floor((group["expected"] - now) / speeds[who] + 1e-9)
            if least <= count <= most and (best is None or count >= best[0]):
                best = count, name
        if best is None:  # create
            count = -1
            for group in groups.values():
                if now < group["latest"]:
                    back = group["latest"] + most * min(speeds[each] for each in group["who"])
                    fits = math.floor((back - now) / speeds[who] + 1e-9)
                    count = max(count, fits) if fits <= most else count
            count = most if count < 0 else max(count, least)
            lasts, name = count * speeds[who], next(names)
            groups[name] = {"expected": now + lasts, "latest": now + factor * lasts, "who": [who], "in": []}
            heapq.heappush(heap, (now + factor * lasts, 1, name))
            best = count, name
        else:
            groups[best[1]]["who"].append(who)
        steps[who], goes_to[who] = best
        off(who, now)

    def move(now, some):
        nonlocal version
        some = sorted(some, key=lambda one: one[0])  # of one client, the first begun
        found.append((now, *map(list, zip(*((w, s, version - b) for w, s, b in some), strict=True))))
        version += 1

    for who in range(len(speeds)):
        off(who, 0.0)
    while len(found) < moves:
        now, timer, who = heapq.heappop(heap)
        if timer:
            group = groups.get(who)
            if group is None or not group["in"]:
                groups.pop(who, None)  # whoever comes now is late
                continue
            came = groups.pop(who)["in"]
        elif who not in goes_to:  # a first round
            move(now, [*late, (who, steps[who], began[who])])
            late = []
            assign_group(who, now)
            continue
        elif goes_to[who] not in groups:  # its group has gone on without it
            late.append((who, steps[who], began[who]))
            if len(late) == len(speeds) - 1:  # ours: they do not wait without end
                move(now, late)
                late = []
            assign_group(who, now)
            continue
        else:
            group = groups[goes_to[who]]
            group["in"].append((who, steps[who], began[who]))
            if len(group["in"]) < len(group["who"]):
                continue
            came = groups.pop(goes_to[who])["in"]
        move(now, late + came)
        late = []
        for each, _, _ in sorted(came, key=lambda one: speeds[one[0]]):
            assign_group(each, now)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_against_the_pseudo_code(tmp_path: Path, seed):
    """Six clients whose rounds jitter, so that some come late: who moves the server, when, with how many
    steps and how old, is what a heap of arrivals and timers says that knows only how long each round took."""
    speeds = np.exp(np.random.default_rng(seed).normal(0, 0.7, 6)).round(3)
    path = tmp_path / "sites.csv"
    path.write_text("\n".join(["step_seconds", *map(str, speeds)]))
    result = run(str(path), clients=6, rounds=40, jitter=0.4, seed=seed)
    trips = {who: [] for who in range(6)}
    for each in result.rounds:
        for who, began, came in zip(each.cohort, each.started, each.arrived, strict=True):
            trips[who].append((began, came - began))
    durations = [[seconds for _, seconds in sorted(trips[who])] + [1e9] for who in range(6)]
    seen = [(each.seconds["makespan"], each.cohort, each.steps, each.staleness) for each in result.rounds]
    # of rounds that are under way at the end nobody knows how long they take: all before the last of them
    known = sum(
        each.seconds["makespan"] < min(max(b for b, _ in trips[w]) for w in trips) for each in result.rounds
    )
    printed = as_printed(durations, speeds.tolist(), 2, 10, 1.2, known)
    assert known > 15 and max(max(each[3]) for each in printed) > 1
    for mine, theirs in zip(seen[:known], printed, strict=True):
        assert mine[0] == pytest.approx(theirs[0], rel=1e-9) and mine[1:] == theirs[1:]


def test_a_group_counts_by_its_shares_and_ages():
    """x+ = x + 0.9 sum_i s_i w_i d_i, shares of all data: two of three clients of 0.2 and 0.3."""
    method = methods.make("fedcompass")
    mix = method.mix(np.array([0.2, 0.3]), np.array([4.0, 9.0]))
    np.testing.assert_allclose(mix, [0.18, 0.27])


def test_any_method_may_meet_in_groups_and_a_part_of_the_clients_may_not(sites):
    assert run(sites, method="amsfl", round_end="groups", rounds=8).summary.rounds == 8
    assert run(sites, method="fedavg", round_end="groups", clients=3, cohort=2).summary.rounds == 4
    with pytest.raises(UserError, match="leave --cohort out"):
        run(sites, cohort=2)
    with pytest.raises(UserError, match="takes no number"):
        run(sites, round_end="groups:2")
