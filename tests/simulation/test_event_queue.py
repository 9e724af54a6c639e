"""How a round ends: the queue by hand, asynchronous runs against synchronous ones and a plain heap."""

import heapq
from pathlib import Path

import numpy as np
import pytest
from federation_small import SMALL, own_data
from hypothesis import given, settings
from hypothesis import strategies as st

import amsfl
from amsfl import clock
from amsfl.clock import round_end
from amsfl.core import Upload, UserError
from amsfl.engines import Models, Results, Work
from amsfl.settings.custom import CustomParts
from amsfl.simulation import make_config
from amsfl.simulation.components import precision
from amsfl.simulation.rounds import begin, begin_round, end_round
from amsfl.simulation.setup import assemble
from amsfl.simulation.trial import JOB, EventQueue, Round, next_move

DATA = own_data(120)
COMMON = SMALL | {"clock": "makespan", "steps": 3, "clients": 5}


def run(**changes):
    return amsfl.run(dataset=DATA, **COMMON | changes)


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(6, 9))
def test_equal_clients_and_a_buffer_of_the_cohort_are_synchronous(seed, cohort, clients):
    """Who starts together comes together: the server moves when all are in, to the bit and to the second."""
    both = [
        run(seed=seed, cohort=cohort, clients=clients, precision="float32", round_end=end, rounds=3)
        for end in ("all", f"buffer:{cohort}", f"quorum:{cohort}", "deadline:1000")
    ]
    for other in both[1:]:
        np.testing.assert_array_equal(other.params, both[0].params)
        assert other.summary.virtual_seconds_by_clock == both[0].summary.virtual_seconds_by_clock


def lap(queue, version, end, seconds, now):
    """One move among clients that take so many seconds each, all of them busy."""

    def invite(at):
        idle = [who for who in range(len(seconds)) if who not in queue.jobs["client"]]
        jobs = np.zeros(len(idle), JOB)
        jobs["client"], jobs["version"], jobs["started"] = idle, version, at
        jobs["arrives"] = at + np.array(seconds, float)[idle]
        return jobs

    return next_move(queue, now, version, end, invite)


def course(text, seconds, moves, late="stale"):
    """(when, who, how old) of every move."""
    queue, now, found = EventQueue(), 0.0, []
    end = round_end(text)._replace(late=late)
    for version in range(moves):
        jobs, _, now = lap(queue, version, end, seconds, now)
        found.append((now, jobs["client"].tolist(), (version - jobs["version"]).tolist()))
    return found, queue


def test_the_queue_by_hand():
    """Two clients of 1 s and 2.5 s.

    all: both at 2.5 and 5. quorum:1: the fast one at 1 and 2; the slow one, begun with the first model, at
    2.5. deadline:1.5: the fast one at the deadline; it begins again and is in at 2.5, and so is the slow one:
    all are in, and nobody waits until 3. Then again the fast one alone, at 4. buffer:1: each by itself.
    """
    pair = (1.0, 2.5)
    assert course("all", pair, 2)[0] == [(2.5, [0, 1], [0, 0]), (5.0, [0, 1], [0, 0])]
    fast = [(1.0, [0], [0]), (2.0, [0], [0]), (2.5, [1], [2])]
    assert course("quorum:1", pair, 3)[0] == fast
    late = [(1.5, [0], [0]), (2.5, [0, 1], [0, 1]), (4.0, [0], [0])]
    assert course("deadline:1.5", pair, 3)[0] == late
    dropped = [(1.0, [0], [0]), (2.0, [0], [0]), (3.0, [0], [0])]
    assert course("quorum:1", pair, 3, late="drop")[0] == dropped
    alone = [(1.0, [0], [0]), (2.0, [0], [0]), (2.5, [1], [2]), (3.0, [0], [1])]
    assert course("buffer:1", pair, 4)[0] == alone


def test_a_buffer_takes_as_many_as_it_holds():
    """Five equal clients and a buffer of two: two moves at once, and the fifth waits for the next to come."""
    found, queue = course("buffer:2", [1.0] * 5, 3)
    assert [(when, who) for when, who, _ in found] == [(1.0, [0, 1]), (1.0, [2, 3]), (2.0, [0, 4])]
    assert found[2][2] == [0, 2] and queue.arrived["client"].tolist() == [1, 2, 3, 4]


def buffered(parts, steps, count, moves, worth):
    """FedBuff with a heap, one client at a time: an implementation that shares nothing but local work."""
    engine, costs = parts.engine, parts.costs[0]
    clients = parts.weights.shape[1]
    x = parts.task.start()[0]
    seconds = costs.step_seconds * steps + costs.comm_seconds
    heap = sorted((float(seconds[who]), who, 0, 0) for who in range(clients))
    models, version, held, now = {0: x}, 0, [], 0.0
    empty = np.zeros((1, 0))
    while version < moves:
        now, who, began, number = heapq.heappop(heap)
        start = Models(models[began][None], empty, 0 * x[None])
        job = (np.array([part]) for part in (who, steps, COMMON["lr"], number))
        (done,) = engine.work([Work(0, *job, start, np.array([0]), empty, empty)])
        held.append((who, version, began, done.uploads.delta[0]))
        if len(held) == count:
            held.sort(key=lambda each: each[0])
            share = np.array([parts.weights[0, each[0]] for each in held])
            share /= share.sum()
            x = x + sum(s * worth(version - each[2]) * each[3] for s, each in zip(share, held, strict=True))
            version, held = version + 1, []
            models[version] = x
        number = max(version, number + 1)
        heapq.heappush(heap, (now + float(seconds[who]), who, version, number))
    return x, now


@pytest.mark.parametrize(("count", "staleness"), [(1, "constant"), (2, "sqrt"), (3, "sqrt")])
def test_asynchronous_runs_against_a_heap(tmp_path: Path, count, staleness):
    """Speeds without ties; every upload counts by its age, in shares of the data within the buffer."""
    path = tmp_path / "sites.csv"
    path.write_text("step_seconds\n0.1\n0.173\n0.31\n0.0457\n0.22\n")
    changes = {"profile": str(path), "round_end": f"buffer:{count},{staleness}", "rounds": 15}
    config = make_config(COMMON | changes)
    with precision(config):
        parts = assemble([config], CustomParts(dataset=DATA))
        x, now = buffered(parts, config.steps, count, 15, clock.staleness(staleness))
    found = run(**changes)
    np.testing.assert_allclose(found.params, x, rtol=1e-12, atol=1e-13)
    assert found.summary.virtual_seconds == pytest.approx(now, rel=1e-12)
    assert max(max(each.staleness) for each in found.rounds) > 1


def test_what_stale_work_counts():
    """By hand: 1/sqrt(1+3) = 1/2."""
    assert clock.staleness("constant")(9) == clock.staleness("sqrt")(0) == 1
    assert clock.staleness("sqrt")(3) == 0.5


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"round_end": "qorum:3"}, "Unknown round end 'qorum'"),
        ({"round_end": "quorum"}, "'quorum' needs clients"),
        ({"round_end": "deadline:-1"}, "write its seconds"),
        ({"round_end": "quorum:2,hinge"}, "Unknown staleness 'hinge'"),
        ({"round_end": "all,drop"}, "no work to drop"),
        ({"round_end": "quorum:3", "clock": "sum"}, "add --clock makespan"),
        ({"round_end": "buffer:6"}, "waits for 6 clients, and 5 are under way at a time"),
        ({"round_end": "buffer:2", "method": "scaffold"}, "SCAFFOLD needs everyone's work on the newest"),
        ({"round_end": "quorum:2", "method": "feddyn"}, "quorum:3,drop"),
        ({"round_end": "quorum:2", "details": "models"}, "own models are scored at the end of a whole"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(changes, sentence):
    with pytest.raises(UserError, match=sentence):
        run(**changes)


def settled(method, deltas, ages, starts, anchor, weights):
    """The anchor after one move with these uploads."""
    parts = assemble([make_config(COMMON | {"method": method})], CustomParts(dataset=DATA))
    parts = parts._replace(weights=np.array([weights]))
    (trial,) = begin(parts)
    trial.anchor = anchor
    jobs = np.zeros(len(deltas), JOB)
    jobs["client"], jobs["steps"], jobs["version"] = np.arange(len(deltas)), 3, 10 - np.array(ages)
    for start, version in zip(starts, jobs["version"].tolist(), strict=True):
        trial.queue.models[version] = Models(start, start[:0], start)
    parts = parts._replace(whole_rounds=[False])
    this = Round(jobs, jobs[:0], None, None, {}, 0.0, 10)
    (work,) = begin_round(parts, trial, this)
    deltas = np.array(deltas)
    sent = Upload(deltas, deltas[:, :0], (deltas**2).sum(1))
    nothing = np.zeros((len(deltas), 0))
    end_round(parts, trial, this, [work], [Results(sent, work.state, work.memory, nothing)])
    return trial.anchor


def test_fedasync_and_fedbuff_by_hand():
    """FedAsync, alpha 0.6, age 3: a = 0.6/sqrt(4) = 0.3; x = 1, y = 5 + 2 = 7: 0.7 + 0.3*7 = 2.8.
    FedBuff, K = 2, ages 0 and 3: 1 + (2 + 0.5*4)/2 = 3, whatever the clients' rows."""
    one, dim = np.ones(6), 6
    found = settled("fedasync", [2 * one], [3], [5 * one], one, [0.1, *[0.2] * 4])
    np.testing.assert_allclose(found, np.full(dim, 2.8))
    found = settled("fedbuff", [2 * one, 4 * one], [0, 3], [one, 9 * one], one, [0.7, 0.1, 0.1, 0.05, 0.05])
    np.testing.assert_allclose(found, np.full(dim, 3.0))
