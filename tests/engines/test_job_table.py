"""What jobs are told: streams that are drawn ahead are those of their round, whatever came before."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from amsfl import sampling
from amsfl.data import load, partition
from amsfl.engines import models, task
from amsfl.engines.job_table import ROUNDS, JobIntegers, Streams, job_tables

SEEDS = sampling.words([3, 2**32 - 1])
COHORTS = [np.array([[0, 2], [1, 3]]), np.array([[1, 2], [0, 3]])]


def direct(who, number):
    with np.errstate(over="ignore"):
        return np.stack(sampling.stream(SEEDS[:, None], sampling.words(number), sampling.words(who)))


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from([0, 1, 2, ROUNDS, ROUNDS + 1, 2**32 - 1]))))
def test_streams_are_those_of_their_round(calls):
    streams, trial = Streams(SEEDS), np.arange(2)[:, None]
    for which, number in calls:
        np.testing.assert_array_equal(streams(COHORTS[which], trial, number), direct(COHORTS[which], number))
    many = np.array([[5, 6], [7, 8]])  # jobs each of their own round
    np.testing.assert_array_equal(streams(COHORTS[0], trial, many), direct(COHORTS[0], many))


def test_tables_of_a_plan_that_stays_are_new_ones():
    """A program may still read the last round's: nothing in them changes."""
    data = load("digits")
    work = task.make(
        data, models.make("softmax", data.x.shape[1], 10), [partition("iid", data.y, 4, 0)] * 2, (3, 4)
    )
    deal, who = job_tables(work, 8), COHORTS[0]
    plan = who, np.full((2, 2), 5), (np.full((2, 1), 0.1), np.ones((2, 1)), np.ones((2, 1)))
    first = deal(*plan, 0)
    before = first.integers.copy()
    later = [deal(*plan, number) for number in range(1, 2 * ROUNDS)]
    np.testing.assert_array_equal(first.integers, before)
    assert len({table.integers[:, -2:].tobytes() for table in (first, *later)}) == 2 * ROUNDS
    other = deal(who, np.full((2, 2), 7), *plan[2:], 3)
    assert (
        JobIntegers(*other.integers.T).steps.tolist() == [7] * 4
        and JobIntegers(*later[2].integers.T).steps.tolist() == [5] * 4
    )
    np.testing.assert_array_equal(other.integers[:, -2:], later[2].integers[:, -2:])
