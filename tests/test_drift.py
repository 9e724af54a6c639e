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
    """grad_dir of -2 and -1 with equal weights: mean 1.5, so gains 4/3 and 2/3."""
    return readings(**{"grad_sq": [4, 4], "grad_dir": [-2, -1], "diff_dir": [1, 0.5], **fields})


HALF = np.array([0.5, 0.5])


def test_gain_and_kept_part_by_hand():
    """Client 0: <g,v> = -2 becomes -1 after the steps, client 1: -1 becomes -0.5: each keeps a half."""
    gain, kept = drift.read(both(), HALF)
    np.testing.assert_allclose(gain, [4 / 3, 2 / 3])
    np.testing.assert_allclose(kept, [0.5, 0.5])


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
    gain, kept = drift.read(first, HALF)
    np.testing.assert_array_equal(gain, [1, 1])
    np.testing.assert_allclose(kept, [0.25, 0.5])


def test_before_any_reading():
    """Gain 1 for all, and a step keeps 0.9 of the one before, whatever the learning rate."""
    for lr in (0.01, 10.0):
        gain, lost = drift.coefficients(drift.start(3), np.array([0, 2]), lr)
        np.testing.assert_array_equal(gain, [1, 1])
        np.testing.assert_allclose(lost, [0.1, 0.1])


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
    np.testing.assert_allclose(gain, np.nanmean(new.gain))
    np.testing.assert_allclose(lost / gain, 0.1 * np.nanmean(new.fading))


def test_readings_that_are_not_finite_change_nothing():
    old = drift.Estimates(np.array([3.0, 1.0]), np.array([2.0, 4.0]))
    broken = both(grad_dir=[NAN, -1], diff_dir=[NAN, 0.5])
    new = drift.update(old, np.array([0, 1]), [5, 5], 0.1, broken, HALF)
    assert (new.gain[0], new.fading[0]) == (3, 2)
    # the mean is over those that were read: client 1's relative gain is 1
    assert new.gain[1] == pytest.approx(0.7 * 1 + 0.3 * 1)
    first = drift.update(drift.start(2), np.array([0, 1]), [5, 5], 0.1, readings(grad_sq=[NAN, 1]), HALF)
    assert np.isnan(first.gain[0]) and first.gain[1] == 1


def test_who_pulls_the_other_way_is_worth_next_to_nothing():
    gain, kept = drift.read(both(grad_dir=[-2, 1]), HALF)
    assert gain[1] == drift.estimates.GAIN_AT_LEAST and kept[1] == drift.estimates.KEPT[0]


@given(
    st.lists(st.tuples(*[st.floats(-1e6, 1e6) | st.just(NAN)] * 4), min_size=1, max_size=5),
    st.integers(1, 64),
    st.floats(1e-4, 10),
)
def test_coefficients_are_always_fit_for_the_scheduler(rows, steps, lr):
    """Whatever is read: gain and drift are finite, gain above 0, drift at least 0."""
    grad_diff, square, grad_dir, diff_dir = np.array(rows, float).T
    reading = readings(grad_sq=np.abs(square), grad_diff=grad_diff, grad_dir=grad_dir, diff_dir=diff_dir)
    cohort = np.arange(len(rows))
    weights = np.full(len(rows), 1 / len(rows))
    estimates = drift.update(drift.start(len(rows)), cohort, np.full(len(rows), steps), lr, reading, weights)
    gain, lost = drift.coefficients(estimates, cohort, lr)
    assert np.isfinite(gain).all() and (gain > 0).all()
    assert np.isfinite(lost).all() and (lost >= 0).all()


def test_next_rate_by_hand():
    """Weights 3 to 1: (3*2 + 1*6) / (3*4 + 1*12) = 12/24: the cohort's Polyak step is 0.5."""
    reading, weights = readings(loss=[2, 6], grad_sq=[4, 12]), [0.75, 0.25]
    assert drift.next_rate(0.45, reading, weights) == pytest.approx(0.5)
    assert drift.next_rate(0.2, reading, weights) == pytest.approx(1.4 * 0.2), "at most 1.4 times"
    assert drift.next_rate(2.0, reading, weights) == pytest.approx(0.7 * 2.0), "at least 0.7 times"
    assert drift.next_rate(drift.FIRST_RATE, reading, weights) == pytest.approx(0.5), "the first is free"


def test_next_rate_passes_over_what_is_not_finite():
    broken = readings(loss=[NAN, 6], grad_sq=[4, 12])
    assert drift.next_rate(0.5, broken, [0.75, 0.25]) == pytest.approx(0.5)
    assert drift.next_rate(0.3, readings(loss=[NAN], grad_sq=[1]), [1.0]) == 0.3
    assert drift.next_rate(0.3, readings(loss=[1], grad_sq=[0]), [1.0]) == 0.3
