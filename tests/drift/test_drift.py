"""Gain, drift and learning rate from readings, with numbers small enough to check by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amsfl import drift
from amsfl.core import Reading

NAN = float("nan")


def readings(**fields):
    """A Reading of a cohort; fields not given are zero."""
    size = len(next(iter(fields.values())))
    return Reading(*(np.array(fields.get(name, [0.0] * size), float) for name in Reading._fields))


def both(**fields):
    """delta_dir of 10 and 5 in 5 steps with equal weights: 2 and 1 a step, mean 1.5, so gains 4/3 and 2/3."""
    return readings(**{"grad_sq": [4, 4], "grad_diff": [-2, -2], "delta_dir": [10, 5], **fields})


HALF, FIVE = np.array([0.5, 0.5]), np.array([5.0, 5.0])


def test_gain_and_kept_part_by_hand():
    """<g, g + dg> / ||g||^2 = (4 - 2) / 4: both keep a half of their gradient."""
    gain, kept = drift.gain_and_kept(both(), FIVE, HALF)
    np.testing.assert_allclose(gain, [4 / 3, 2 / 3])
    np.testing.assert_allclose(kept, [0.5, 0.5])
    gain, _ = drift.gain_and_kept(both(), np.array([10.0, 5.0]), HALF)
    np.testing.assert_allclose(gain, [1, 1], err_msg="a gain is that of one step")


def test_drift_is_what_the_geometric_curve_needs():
    """R = 1/2 after 5 steps: worth fades by 2^(-1/5) a step, and a exp(-d 5/a) = a/2."""
    estimates = drift.update(drift.start(2), np.array([0, 1]), [5, 10], 0.1, both(), HALF)
    np.testing.assert_allclose(estimates.fading, [np.log(2) / 0.5, np.log(2) / 1.0])
    gain, lost = drift.coefficients(estimates, np.array([0, 1]), 0.1)
    np.testing.assert_allclose(gain * np.exp(-lost * [5, 10] / gain), gain / 2)


def test_a_longer_step_fades_faster():
    estimates = drift.update(drift.start(2), np.array([0, 1]), [5, 5], 0.1, both(), HALF)
    slow, fast = (drift.coefficients(estimates, np.array([0, 1]), lr) for lr in (0.1, 0.2))
    np.testing.assert_allclose(fast[0], slow[0])
    np.testing.assert_allclose(fast[1], 2 * slow[1])


def test_first_round_has_no_direction():
    """v = 0: gains are equal and g itself is the measure, R = 1 + <g,dg>/||g||^2 = 1 - 3/4."""
    first = readings(grad_sq=[4, 2], grad_diff=[-3, -1])
    gain, kept = drift.gain_and_kept(first, FIVE, HALF)
    np.testing.assert_array_equal(gain, [1, 1])
    np.testing.assert_allclose(kept, [0.25, 0.5])


def test_before_any_reading():
    """Equal gains, and a step keeps 0.9 of the one before, whatever the learning rate (0: not known)."""
    for lr in (0.0, 0.01, 10.0):
        gain, lost = drift.coefficients(drift.start(3), np.array([0, 2]), lr)
        assert gain[0] == gain[1] > 0
        np.testing.assert_allclose(np.exp(-lost / gain), [0.9, 0.9], rtol=1e-3)


def test_smoothing_keeps_seven_tenths():
    old = drift.Estimates(np.array([1.0, 1.0]), np.array([2.0, 2.0]))
    new = drift.update(old, np.array([0, 1]), [5, 5], 0.1, both(), HALF)
    np.testing.assert_allclose(new.gain, [0.7 + 0.3 * 4 / 3, 0.7 + 0.3 * 2 / 3])
    np.testing.assert_allclose(new.fading, 0.7 * 2 + 0.3 * np.log(2) / 0.5)


def test_absent_clients_keep_their_estimates_and_new_ones_get_the_mean():
    old = drift.Estimates(np.array([3.0, np.nan, 1.0, 5.0]), np.array([2.0, np.nan, 4.0, 6.0]))
    new = drift.update(old, np.array([0, 2]), [5, 5], 0.1, both(), HALF)
    assert new.gain[3] == 5 and new.fading[3] == 6 and np.isnan(new.gain[1])
    assert new.gain[0] != 3 and new.gain[2] != 1
    assert old.gain[0] == 3, "the old memory is not written to"
    gain, lost = drift.coefficients(new, np.array([1]), 0.1)
    np.testing.assert_allclose(gain, 0.3 + np.nanmean(new.gain))
    np.testing.assert_allclose(lost / gain, 0.1 * np.nanmean(new.fading))


def test_readings_that_are_not_finite_change_nothing():
    old = drift.Estimates(np.array([3.0, 1.0]), np.array([2.0, 4.0]))
    broken = both(delta_dir=[NAN, 5], grad_diff=[NAN, 0])
    new = drift.update(old, np.array([0, 1]), [5, 5], 0.1, broken, HALF)
    assert (new.gain[0], new.fading[0]) == (3, 2)
    # the mean is over those that were read: client 1's relative gain is 1
    assert new.gain[1] == pytest.approx(0.7 * 1 + 0.3 * 1)
    # what is known of an upload alone counts; what needs its gradients does not
    first = drift.update(drift.start(2), np.array([0, 1]), [5, 5], 0.1, readings(grad_sq=[NAN, 1]), HALF)
    assert first.gain.tolist() == [1, 1] and np.isnan(first.fading[0]) and np.isfinite(first.fading[1])


def test_who_pulls_the_other_way_keeps_what_everybody_has_beforehand():
    """A negative gain is remembered; the scheduler sees 0.3 of the mean, and of the other 0.3 more."""
    reading = both(delta_dir=[10, -5], grad_diff=[0, -1])
    gain, kept = drift.gain_and_kept(reading, FIVE, HALF)
    np.testing.assert_allclose(gain, [4 / 3, -2 / 3])
    np.testing.assert_allclose(kept, [0.999, 0.75])
    estimates = drift.update(drift.start(2), np.array([0, 1]), FIVE, 0.1, reading, HALF)
    worth, lost = drift.coefficients(estimates, np.array([0, 1]), 0.1)
    np.testing.assert_allclose(worth, [4 / 3 + 0.3, 0.3])
    assert lost[1] / worth[1] == pytest.approx(-np.log(0.75) / 5)


def test_where_all_pull_the_other_way_plans_still_tell_clients_apart():
    """An overshot v turns every sign: gains are then equal, and fading decides."""
    reading = both(delta_dir=[-10, -5], grad_diff=[-1, -3])
    estimates = drift.update(drift.start(2), np.array([0, 1]), FIVE, 0.1, reading, HALF)
    worth, lost = drift.coefficients(estimates, np.array([0, 1]), 0.1)
    np.testing.assert_allclose(worth, [0.3, 0.3])
    assert lost[0] < lost[1]


@given(
    st.lists(st.tuples(*[st.floats(-1e6, 1e6) | st.just(NAN)] * 4), min_size=1, max_size=5),
    st.integers(1, 64),
    st.floats(1e-4, 10),
)
def test_coefficients_are_always_fit_for_the_scheduler(rows, steps, lr):
    """Whatever is read: gain and drift are finite, gain above 0, drift at least 0."""
    grad_diff, square, delta_dir, _ = np.array(rows, float).T
    reading = readings(grad_sq=np.abs(square), grad_diff=grad_diff, delta_dir=delta_dir)
    cohort = np.arange(len(rows))
    weights = np.full(len(rows), 1 / len(rows))
    estimates = drift.update(drift.start(len(rows)), cohort, np.full(len(rows), steps), lr, reading, weights)
    gain, lost = drift.coefficients(estimates, cohort, lr)
    assert np.isfinite(gain).all() and (gain > 0).all()
    assert np.isfinite(lost).all() and (lost >= 0).all()


def test_the_first_rate_is_the_mean_of_the_clients_polyak_steps():
    """Weights 3 to 1 and loss/||g||^2 of 2/4 and 6/8: 0.75*0.5 + 0.25*0.75; means 3 and 5 stay behind."""
    rate = drift.next_rate(drift.Rate(), readings(loss=[2, 6], grad_sq=[4, 8]), [0.75, 0.25])
    assert rate == pytest.approx((0.5625, 3.0, 5.0))
    part = drift.next_rate(drift.Rate(), readings(loss=[2, 6], grad_sq=[4, 8]), [0.3, 0.1])
    assert part == pytest.approx(rate), "weights of a partial cohort need not sum to 1"


def test_later_rates_move_slowly():
    """Old means 3 and 5, fresh ones 2 and 4, half and half: 2.5 / 4.5, if that is within 0.7 of the old."""
    fresh, one = readings(loss=[2], grad_sq=[4]), [1.0]
    for old, new in [(0.5, 2.5 / 4.5), (2.0, 0.7 * 2.0), (0.1, 0.1 / 0.7)]:
        assert drift.next_rate(drift.Rate(old, 3, 5), fresh, one) == pytest.approx((new, 2.5, 4.5))


def test_rates_pass_over_what_is_not_finite():
    old = drift.Rate(0.5, 3.0, 5.0)
    broken = drift.next_rate(old, readings(loss=[NAN, 2], grad_sq=[4, 4]), [0.75, 0.25])
    assert broken == pytest.approx((2.5 / 4.5, 2.5, 4.5))
    assert drift.next_rate(old, readings(loss=[NAN], grad_sq=[1]), [1.0]) == old
    assert drift.next_rate(old, readings(loss=[1], grad_sq=[0]), [1.0]) == old
