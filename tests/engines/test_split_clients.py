"""A client whose first steps one worker takes and whose last ones another: the same steps, the same bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amsfl import methods
from amsfl.data import load, partition
from amsfl.engines import Orders, devices, models, task, worker_threads
from amsfl.engines.jax_engine import JaxEngine
from amsfl.engines.packing import WHOLE, pack_by_trial

CLIENTS, BATCH, HEAVY = 5, 32, "mlp:400-100"  # a network whose step is arithmetic


def turns(packed, steps):
    """Of every worker (job, first step, end, begun at, ended at), each step taking as long as any other."""
    found = []
    for queues in packed:
        now, mine = 0, []
        for queue in queues:
            for place in range(int(queue.waves[0])):
                job, first = int(queue.jobs[0, place, 0]), int(queue.first[0, place])
                until = min(int(queue.until[0, place]), int(steps.ravel()[job]))
                mine.append((job, first, until, now, now + until - first))
                now += until - first
        found.append(mine)
    return found


@given(
    st.lists(st.lists(st.integers(0, 60), min_size=7, max_size=7), min_size=1, max_size=3),
    st.integers(1, 5),
)
def test_every_step_is_taken_once_and_nobody_waits(plans, workers):
    """Whoever ends a job finds it laid aside by then, and the longest way is never longer than it was."""
    steps = np.array(plans)
    packed = pack_by_trial(steps, workers, 7, 0.05, 1, parted=True)
    each = turns(packed, steps)
    taken = sorted(turn[:3] for mine in each for turn in mine)
    for job, length in enumerate(steps.ravel().tolist()):
        ends = [(first, until) for which, first, until in taken if which == job]
        assert [0, *(until for _, until in ends)] == [*(first for first, _ in ends), length] or not length
    laid = {job: over for mine in each for job, first, until, _, over in mine if until < steps.ravel()[job]}
    begun = {job: at for mine in each for job, first, _, at, _ in mine if first}
    assert laid.keys() == begun.keys() and all(laid[job] <= begun[job] for job in laid)
    before = [sum(steps.ravel()[q.jobs[0, : q.waves[0], 0]].sum() for q in queues)
              for queues in pack_by_trial(steps, workers, 7, 0.05, 1)]  # fmt: skip
    assert max((mine[-1][-1] for mine in each if mine), default=0) <= max(before)
    waits = [any(queue.taken is not None for queue in queues) for queues in packed]
    assert waits == sorted(waits), "one after another they must not wait for somebody who comes later"


def test_five_equal_jobs_on_two_cores_end_together():
    packed = pack_by_trial(np.full((1, 5), 20), 2, 5, 0.05, 1, parted=True)
    assert turns(packed, np.full((1, 5), 20)) == [
        [(4, 0, 10, 0, 10), (1, 0, 20, 10, 30), (3, 0, 20, 30, 50)],
        [(0, 0, 20, 0, 20), (2, 0, 20, 20, 40), (4, 10, 20, 40, 50)],
    ]
    [head, whole], [others, tail] = packed
    assert (head.laid_aside, whole.laid_aside, tail.taken, others.taken) == (4, None, 4, None)
    assert tail.until[0, 0] == WHOLE and head.slots[0, 0] == tail.slots[0, 0]


@pytest.mark.parametrize("name", ["amsfl", pytest.param("scaffold", marks=pytest.mark.slow)])
def test_a_parted_client_has_the_bits_of_a_whole_one(name):
    """One worker parts nothing, two part a job of five; the reading of AMSFL is taken across the parts."""
    data, method = load("digits"), methods.make(name)
    network = models.make(HEAVY, data.x.shape[1], len(data.classes))
    work = task.make(data, network, [partition("dirichlet:0.5", data.y, CLIENTS, 0)], (0,))
    found = []
    for workers in (1, 2):
        engine = JaxEngine(work, method, BATCH, method.facts.readings, mesh=devices.mesh(1), workers=workers)
        state, said = engine.start(), []
        for number, plan in enumerate(([4] * CLIENTS, [9, 2, 2, 1, 1], [4] * CLIENTS)):
            steps = np.array([plan])
            parted = [queue.laid_aside for queues in engine._queues(steps) for queue in queues]
            assert any(job is not None for job in parted) == (workers == 2 and max(plan) < 9)
            orders = Orders(np.arange(CLIENTS)[None], steps, np.full(1, 0.05), work.shards.weights)
            state, outcome = engine.round(state, orders, number, keep=True)
            said.append([np.asarray(part).tobytes() for part in (*outcome.readings, outcome.deltas)])
        found.append((*map(bytes, map(np.asarray, state)), said))
    assert found[0] == found[1]


def test_who_waits_for_somebody_that_failed_hears_of_it():
    hands = worker_threads.Handover([3])

    def call(gives):
        if not gives:
            return hands.take(3)
        with hands.promised([3]):
            raise ValueError("no such luck")

    each = worker_threads.in_threads(lambda gives: call(gives) if gives is not None else None)
    assert each([(None,), (None,)]) == [None, None]  # the first time they take turns
    with pytest.raises(ValueError, match="no such luck"):
        each([(False,), (True,)])
