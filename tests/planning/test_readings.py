"""Gain and fading from readings, with numbers small enough to check by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amsfl.core import Reading
from amsfl.planning.readings import (
    Estimates,
    gain_and_fading,
    gain_and_kept,
    new_estimates,
    new_means,
    update,
)

NAN = float("nan")
BOTH, HALF, FIVE = np.array([0, 1]), np.array([0.5, 0.5]), np.array([5.0, 5.0])


def both(**fields):
    """<d, v> of 10 and 5 in 5 steps with equal weights: 2 and 1 a step, mean 1.5, so gains 4/3 and 2/3.

    (4 - 2)/4: both keep a half of their gradient."""
    known = {"grad_sq": [4, 4], "grad_diff": [-2, -2], "delta_dir": [10, 5]} | fields
    return Reading(*(np.array(known.get(name, [0.0, 0.0]), float) for name in Reading._fields))


def test_gain_and_kept_part_by_hand():
    gain, kept = gain_and_kept(both(), FIVE, HALF)
    np.testing.assert_allclose([gain, kept], [[4 / 3, 2 / 3], [0.5, 0.5]])
    gain, _ = gain_and_kept(both(), np.array([10.0, 5.0]), HALF)
    np.testing.assert_allclose(gain, [1, 1], err_msg="a gain is that of one step")
    gain, _ = gain_and_kept(both(), FIVE, np.array([0.25, 0.75]))
    np.testing.assert_allclose(gain, [1.6, 0.8], err_msg="2/4 + 3/4 = 5/4")
    gain, kept = gain_and_kept(both(delta_dir=[10, -5], grad_diff=[1, -3.9]), FIVE, HALF)
    np.testing.assert_allclose([gain, kept], [[4 / 3, -2 / 3], [1.0, 0.1]], err_msg="by its size; clipped")


def test_the_first_round_has_no_direction():
    """v = 0: gains are equal; what a gradient kept is known."""
    gain, kept = gain_and_kept(both(delta_dir=[0, 0], grad_diff=[-3, -1]), FIVE, HALF)
    np.testing.assert_allclose([gain, kept], [[1, 1], [0.25, 0.75]])


def test_fading_is_what_the_plan_needs():
    """Half is kept after t steps: exp(-t fading) = 1/2 at this rate, twice as fast at twice the rate."""
    estimates = update(new_estimates(2), BOTH, [5, 10], 0.1, both(), HALF)
    np.testing.assert_allclose(estimates.fading, [np.log(2) / 0.5, np.log(2) / 1.0])
    slow, fast = (gain_and_fading(estimates, BOTH, lr) for lr in (0.1, 0.2))
    np.testing.assert_allclose(np.exp(-slow[1] * [5, 10]), 0.5)
    np.testing.assert_allclose(fast, [slow[0], 2 * slow[1]])


def test_before_any_reading_a_step_keeps_nine_tenths_at_any_rate():
    for lr in (0.01, 10.0):
        gain, fading = gain_and_fading(new_estimates(3), np.array([0, 2]), lr)
        np.testing.assert_allclose([gain, np.exp(-fading)], [[1.3, 1.3], [0.9, 0.9]])


def test_seven_tenths_of_the_old_stay():
    new = update(Estimates(np.ones(2), np.full(2, 2.0)), BOTH, FIVE, 0.1, both(), HALF)
    np.testing.assert_allclose(new.gain, [0.7 + 0.3 * 4 / 3, 0.7 + 0.3 * 2 / 3])
    np.testing.assert_allclose(new.fading, 0.7 * 2 + 0.3 * np.log(2) / 0.5)


def test_absent_clients_keep_their_estimates_and_new_ones_get_the_mean():
    old = Estimates(np.array([3.0, NAN, 1.0, 5.0]), np.array([2.0, NAN, 4.0, 6.0]))
    new = update(old, np.array([0, 2]), FIVE, 0.1, both(), HALF)
    assert (
        (new.gain[3], new.fading[3]) == (5, 6) and np.isnan(new.gain[1]) and old.gain[0] == 3 != new.gain[0]
    )
    gain, fading = gain_and_fading(new, np.array([1]), 0.1)
    assert (gain, fading) == pytest.approx((0.3 + np.nanmean(new.gain), 0.1 * np.nanmean(new.fading)))


def test_clients_without_readings_have_gains_and_fade_like_the_others():
    """Of one that sends d alone the server knows <d, v>; of none that does more, fading is the default."""
    half = update(new_estimates(2), BOTH, FIVE, 0.1, both(grad_sq=[0, 4], grad_diff=[0, -2]), HALF)
    gain, fading = gain_and_fading(half, BOTH, 0.1)
    np.testing.assert_allclose(gain, [0.3 + 4 / 3, 0.3 + 2 / 3])
    np.testing.assert_allclose(fading, np.log(2) / 5)
    none = update(new_estimates(2), BOTH, FIVE, 0.1, both(grad_sq=[0, 0], grad_diff=[0, 0]), HALF)
    np.testing.assert_allclose(np.exp(-gain_and_fading(none, BOTH, 0.1)[1]), 0.9)


def test_readings_that_are_not_finite_change_nothing():
    """The mean is over those that were read: client 1's relative gain is 1."""
    old = Estimates(np.array([3.0, 1.0]), np.array([2.0, 4.0]))
    new = update(old, BOTH, FIVE, 0.1, both(delta_dir=[NAN, 5], grad_diff=[NAN, 0]), HALF)
    assert (new.gain[0], new.fading[0], new.gain[1]) == (3, 2, pytest.approx(1))


def test_a_negative_gain_is_remembered_and_planned_as_nothing_but_the_base():
    estimates = update(new_estimates(2), BOTH, FIVE, 0.1, both(delta_dir=[10, -5]), HALF)
    assert estimates.gain[1] == pytest.approx(-2 / 3)
    np.testing.assert_allclose(gain_and_fading(estimates, BOTH, 0.1)[0], [4 / 3 + 0.3, 0.3])


def test_the_constants_of_algorithm_1_are_means_of_what_was_read():
    """||g|| = 2; ||h - g||/||d|| = 3 and, of who did not move, nothing; 2/(4 * 5 * 0.1) = 1."""
    read = both(diff_sq=[9, 9], delta_sq=[1, 0])
    assert new_means((None,) * 3, HALF, FIVE, 0.1, read) == pytest.approx((2.0, 3.0, 1.0))
    nothing = both(grad_sq=[0, 0], grad_diff=[0, 0])
    assert new_means((2.0, None, 1.0), HALF, FIVE, 0.1, nothing) == (2.0, None, 1.0)


@given(
    st.lists(st.tuples(*[st.floats(-1e6, 1e6) | st.just(NAN)] * 3), min_size=1, max_size=5),
    st.integers(1, 64),
    st.floats(1e-4, 10),
)
def test_whatever_is_read_the_plan_gets_numbers(rows, steps, lr):
    """Gain is above 0, fading 0 at least, both are finite."""
    change, square, along = np.array(rows, float).T
    nothing, cohort = 0 * along, np.arange(len(rows))
    read = Reading(nothing, np.abs(square), change, nothing, nothing, nothing, nothing, along)
    count = np.full(len(rows), steps)
    estimates = update(new_estimates(len(rows)), cohort, count, lr, read, np.full(len(rows), 1 / len(rows)))
    gain, fading = gain_and_fading(estimates, cohort, lr)
    assert np.isfinite([gain, fading]).all() and (gain > 0).all() and (fading >= 0).all()
