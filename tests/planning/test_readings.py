"""Gain and fading from readings, and the judge, with numbers small enough to check by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amsfl.core import Reading, Verdict
from amsfl.planning import describe, judge_round, new_judge
from amsfl.planning.learning import (
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


def judged(*rounds, judge=None, cohort=None, weights=None, loss=1.0, spread=1.0):
    """The judge after rounds of held-back losses, of clients of equal weight unless it is said."""
    judge = new_judge(len(rounds[0])) if judge is None else judge
    for losses in rounds:
        ones = np.ones(len(losses))
        read = Reading(loss * ones, ones, ones, ones, np.array(losses, float), spread * ones, ones, ones)
        who = np.arange(len(losses)) if cohort is None else np.array(cohort)
        judge = judge_round(judge, who, ones if weights is None else np.array(weights), read)
    return judge


def test_better_is_remembered_and_doubles_the_passes():
    first = judged([1, 1])
    assert (first.verdict, first.passes, first.held_loss) == (Verdict.BETTER, 1.0, 1.0)
    better = judged([0.5, 1.25], judge=first._replace(passes=0.4, bad=1))
    assert (better.verdict, better.passes, better.bad, better.factor) == (Verdict.BETTER, 0.8, 0, 1.0)
    assert better.reference.tolist() == [0.5, 1.25]  # all of this round's
    assert judged([0.4, 1.0], judge=better).passes == 1.0  # never more


@pytest.mark.parametrize(
    ("changes", "passes", "bad"),
    [  # two clients of equal weight: the standard error of their mean change is half of their distance
        ((-0.1, 0.4), 1.0, 0),  # 0.15 +- 0.25: who knows
        ((0.1, 0.4), 0.5, 0),  # 0.25 +- 0.15: surely worse, by one standard error
        ((0.2, 0.4), 0.5, 1),  # 0.3 +- 0.1: by two, and by more than 5%
        ((0.04, 0.04), 0.5, 0),  # 0.04 +- 0: not by 5%
    ],
)
def test_worse_halves_the_passes_and_may_be_bad(changes, passes, bad):
    after = judged([1, 1], 1 + np.array(changes))
    assert (after.verdict, after.passes, after.bad) == (Verdict.NONE, passes, bad)
    assert after.reference.tolist() == [1, 1] and after.factor == 1


def test_passes_fall_to_a_tenth():
    assert [judged([1, 1], *[[1.01, 1.01]] * n).passes for n in range(6)] == [1, 0.5, 0.25, 0.125, 0.1, 0.1]


def test_the_standard_error_weighs_clients():
    """q = (3/4, 1/4), changes (0, 0.4): d = 0.1; se^2 = (0.005625 + 0.005625)/(3/8) = 0.03."""
    after = judged([1, 1.4], judge=judged([1, 1]), weights=[0.75, 0.25])
    assert after.passes == 1.0
    assert judged([1.2, 1.4], judge=judged([1, 1]), weights=[0.75, 0.25]).passes == 0.5  # 0.25 +- 0.0866


def test_two_bad_rounds_go_back_with_half_of_the_rate():
    bad, unsure = [1.2, 1.2], [0.9, 1.2]
    twice = judged([1, 1], bad, bad)
    assert (twice.verdict, twice.factor, twice.backs, twice.bad) == (Verdict.BACK, 0.5, (3,), 0)
    assert twice.reference == pytest.approx([1.025, 1.025])  # or one lucky round would be out of reach
    assert judged([1, 1], bad, unsure, bad).backs == (4,)  # a round that is neither changes nothing
    assert judged([1, 1], bad, [0.9, 0.9], bad).backs == ()  # a better one does
    assert judged(bad, judge=twice).verdict == Verdict.NONE and judged(bad, bad, judge=twice).backs == (3, 5)
    assert "went back: 1, began again: 0 (after rounds 3)" in describe(twice)


@pytest.mark.parametrize("broken", [NAN, np.inf])
def test_a_round_that_is_not_finite_goes_back_at_once_with_a_quarter(broken):
    """Before anything else is looked at: the references rise, passes stay."""
    whole = judged([1, 1])._replace(passes=0.5)
    after = judged([0.5, 0.5], judge=whole, loss=broken)
    assert (after.verdict, after.factor, after.passes, after.backs) == (Verdict.BACK, 0.25, 0.5, (2,))
    assert after.reference == pytest.approx([1.025, 1.025])


def test_a_network_dead_in_two_rounds_running_begins_again():
    dead = {"spread": 0.0}
    once = judged([1, 1], **dead)
    assert (once.verdict, once.dead) == (Verdict.BETTER, 1)
    assert judged([1, 1], judge=once).dead == 0  # outputs differ again
    worn = once._replace(passes=0.25, bad=1, backs=(1,))
    again = judged([1, 1], judge=worn, **dead)
    assert (again.verdict, again.factor, again.passes, again.bad) == (Verdict.RESTART, 0.25, 1.0, 0)
    assert (again.restarts, again.backs, again.dead) == ((2,), (1,), 0) and np.isnan(again.reference).all()
    assert judged([9, 9], judge=again).verdict == Verdict.BETTER  # nothing to be compared with
    assert judged([1, 1], [1, 1], spread=NAN).dead == 0  # one row each: nobody can say
    wide = judged([1, 1], spread=0.5)
    assert [judged([1, 1], judge=wide, spread=spread).dead for spread in (0.051, 0.049)] == [0, 1]


def test_one_client_alone_is_never_sure():
    """However much worse: neither fewer passes nor a return. It may be better."""
    after = judged([1], [50.0], [50.0], [50.0])
    assert (after.verdict, after.passes, after.bad, after.backs) == (Verdict.NONE, 1.0, 0, ())
    assert judged([0.9], judge=after).verdict == Verdict.BETTER
    alone = judged([50.0], [50.0], judge=judged([1, 1]), cohort=[1])  # of two clients, as well
    assert (alone.passes, alone.bad) == (1.0, 0)


def test_the_same_clients_are_compared_with_themselves():
    """Losses of 1, 2 and 9: who is there says nothing. Who was never there is neither better nor worse."""
    start = judged([1, 2, 9])
    assert judged([2.0, 9.0], judge=start, cohort=[1, 2]).passes == 1.0
    new = judged([1, 1, 1])._replace(reference=np.array([1.0, 1.0, NAN]))
    after = judged([1.2, 1.2, 7.0], judge=new)
    assert after.bad == 1 and after.reference.tolist() == [1, 1, 7]
    absent = judged([0.5, 0.5], judge=start, cohort=[0, 2])
    assert absent.reference.tolist() == [0.5, 2, 0.5]


def test_where_nobody_holds_rows_back_nothing_happens():
    after = judged(*[[NAN, NAN]] * 4, spread=NAN)
    assert (after.verdict, after.passes, after.factor, after.rounds) == (Verdict.NONE, 1.0, 1.0, 4)
    assert np.isnan(after.reference).all() and after.held_loss is None and "nobody judged" in describe(after)
    assert judged([NAN, NAN], [NAN, NAN], loss=NAN).backs == (1, 2)  # but what is not finite is seen
    known = judged([1, 1])
    quiet = judged([NAN, NAN], judge=known)
    assert quiet.reference.tolist() == [1, 1] and quiet.verdict == Verdict.NONE and describe(known) == ""


def test_whom_the_server_does_not_believe_moves_nothing():
    """One of four says a thousandfold; cut to what the next one says, the round is better."""
    start, read = judged([1] * 4), np.ones(4)
    told = Reading(read, read, read, read, np.array([0.9, 0.9, 0.9, 1000.0]), read, read, read)
    found = [
        judge_round(start, np.arange(4), read, told, modest).verdict
        for modest in (np.asarray, lambda changes: np.minimum(changes, 0.0))
    ]
    assert found == [Verdict.NONE, Verdict.BETTER]
