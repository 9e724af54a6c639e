"""Gain, drift and learning rate from readings, with numbers small enough to check by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amsfl import drift
from amsfl.core import Reading, Verdict

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


def test_fading_is_what_the_scheduler_needs():
    """R = 1/2 after 5 steps: worth fades by 2^(-1/5) a step, and exp(-5 fading) = 1/2."""
    estimates = drift.update(drift.start(2), np.array([0, 1]), [5, 10], 0.1, both(), HALF)
    np.testing.assert_allclose(estimates.fading, [np.log(2) / 0.5, np.log(2) / 1.0])
    _, fading = drift.coefficients(estimates, np.array([0, 1]), 0.1)
    np.testing.assert_allclose(np.exp(-fading * [5, 10]), 0.5)


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
        gain, fading = drift.coefficients(drift.start(3), np.array([0, 2]), lr)
        assert gain[0] == gain[1] > 0
        np.testing.assert_allclose(np.exp(-fading), [0.9, 0.9], rtol=1e-3)


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
    gain, fading = drift.coefficients(new, np.array([1]), 0.1)
    np.testing.assert_allclose(gain, 0.3 + np.nanmean(new.gain))
    np.testing.assert_allclose(fading, 0.1 * np.nanmean(new.fading))


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


def test_a_negative_gain_keeps_the_base_value():
    """A negative gain is remembered; the scheduler sees 0.3 of the mean, and of the other 0.3 more."""
    reading = both(delta_dir=[10, -5], grad_diff=[0, -1])
    gain, kept = drift.gain_and_kept(reading, FIVE, HALF)
    np.testing.assert_allclose(gain, [4 / 3, -2 / 3])
    np.testing.assert_allclose(kept, [0.999, 0.75])
    estimates = drift.update(drift.start(2), np.array([0, 1]), FIVE, 0.1, reading, HALF)
    worth, fading = drift.coefficients(estimates, np.array([0, 1]), 0.1)
    np.testing.assert_allclose(worth, [4 / 3 + 0.3, 0.3])
    assert fading[1] == pytest.approx(-np.log(0.75) / 5)


def test_negative_gains_still_differ_by_client():
    """An overshot v turns every sign: gains are then equal, and fading decides."""
    reading = both(delta_dir=[-10, -5], grad_diff=[-1, -3])
    estimates = drift.update(drift.start(2), np.array([0, 1]), FIVE, 0.1, reading, HALF)
    worth, fading = drift.coefficients(estimates, np.array([0, 1]), 0.1)
    np.testing.assert_allclose(worth, [0.3, 0.3])
    assert fading[0] < fading[1]


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


def test_one_client_s_endless_first_rate_counts_ten_times_the_usual_one():
    """Empty rows have no curvature: by the mean, one of five made lr 8e10 and ended the run at 0.39."""
    rates = readings(opening=[0.5, 0.4, 1e11, 0.6, 0.5], grad_sq=[1.0] * 5)
    lr = drift.opened(drift.Rate(), rates, [0.2] * 5).lr
    assert lr == pytest.approx(0.2 * (0.5 + 0.4 + 0.6 + 0.5) + 0.2 * 10 * 0.5)
    two = readings(opening=[1e11, 0.5], grad_sq=[1.0, 1.0])
    assert drift.opened(drift.Rate(), two, [0.5, 0.5]).lr == pytest.approx(0.5 * 0.5 + 0.5 * 10 * 0.5)


def test_the_first_rate_is_the_mean_of_what_clients_find():
    """Weights 3 to 1 and openings 0.5 and 0.75; weights of a partial cohort need not sum to 1."""
    found = readings(opening=[0.5, 0.75], grad_sq=[4, 8])
    assert drift.opened(drift.Rate(), found, [0.75, 0.25]).lr == pytest.approx(0.5625)
    assert drift.opened(drift.Rate(), found, [0.3, 0.1]).lr == pytest.approx(0.5625)
    assert drift.opened(drift.Rate(0.1), found, [0.3, 0.1]).lr == 0.1  # it never rises
    broken = readings(opening=[NAN, 0.75], grad_sq=[4, 8])
    assert drift.opened(drift.Rate(), broken, [0.75, 0.25]).lr == 0.75
    assert drift.opened(drift.Rate(), readings(opening=[NAN], grad_sq=[1]), [1.0]) == drift.Rate()


def test_the_rate_cools_over_the_last_part_of_a_run():
    assert [drift.cooled(2.0, over, 0.5) for over in (0.0, 0.5, 0.75, 1.0)] == pytest.approx([2, 2, 1, 0.1])


def test_the_cut_grows_where_uploads_disagree():
    """1/agreement up to 3 leaves it at 1; from there it grows with it, to 4 at most; 0.7 of the old stays."""
    cuts = [drift.cut(drift.agreed(drift.Rate(), alike), 4.0) for alike in (1.0, 0.4, 1 / 6, 1 / 9, 0.01)]
    assert cuts == pytest.approx([1, 1, 2, 3, 4])
    assert drift.cut(drift.Rate(), 4.0) == 1 == drift.cut(drift.agreed(drift.Rate(), 0.01), 1.0)
    twice = drift.agreed(drift.agreed(drift.Rate(), 0.2), 0.1)
    assert twice.agreement == pytest.approx(0.7 * 0.2 + 0.3 * 0.1)
    for nothing in (0.0, NAN):  # nobody moved, or nobody looked
        assert drift.agreed(twice, nothing) == twice
    assert drift.agreed(drift.Rate(), 3.0).agreement == 1.0  # unequal steps: the mean can be the longer one


def judged(*rounds, clients=3, over=0.0, cut=1.0):
    """The judge after rounds of held-back losses."""
    judge = drift.new_judge(clients)
    for losses in rounds:
        size = len(losses)
        ones = readings(loss=[1] * size, grad_sq=[1] * size, spread=[1] * size, held_loss=losses)
        judge = drift.judge_round(judge, np.arange(size), np.ones(size), ones, over, cut=cut)
    return judge


def test_two_bad_rounds_go_back_and_halve_the_rate():
    assert judged([1, 1, 1]).verdict == judged([1, 1, 1], [0.9, 1, 1]).verdict == Verdict.BETTER
    once = judged([1, 1, 1], [1.2, 1.2, 1.2])
    assert (once.verdict, once.worse) == (Verdict.NONE, 1)
    twice = judged([1, 1, 1], [1.2, 1.2, 1.2], [1.2, 1.2, 1.2])
    assert (twice.verdict, twice.factor, twice.backs) == (Verdict.BACK, 0.5, (3,))
    assert twice.reference == pytest.approx(np.full(3, 1.025))
    unsure = judged([1, 1, 1], [1.5, 0.9, 0.9], [1.5, 0.9, 0.9])  # worse by 0.1, give or take 0.16
    assert unsure.worse == 0 and judged([1, 1, 1], [1.04] * 3, [1.04] * 3).worse == 0  # not 5% worse


def test_the_third_return_opens_a_branch_that_must_get_better():
    """Two bad rounds each; then twenty rounds at the first model's loss give it up, a better one takes it."""
    twice = [[2.0] * 3, [2.0] * 3]
    opened = judged([1, 1, 1], *twice, *twice, *twice)
    assert (opened.verdict, opened.backs, opened.passes) == (Verdict.BRANCH, (3, 5, 7), 0.1)
    assert (opened.branched, opened.left, opened.factor) == (7, 20, 0.5)
    waiting = judged([1, 1, 1], *twice, *twice, *twice, *[[3.0] * 3] * 19)
    assert (waiting.verdict, waiting.left, waiting.worse) == (Verdict.NONE, 1, 0)
    assert "was not better when the run ended" in drift.describe(waiting, 1.0, 0.1)
    given_up = judged([1, 1, 1], *twice, *twice, *twice, *[[3.0] * 3] * 20)
    assert (given_up.verdict, given_up.factor, given_up.passes) == (Verdict.BACK, 1.0, 1.0)
    assert given_up.reference == pytest.approx(np.full(3, 1.025**4)) and given_up.backs[-1] == 27
    assert "after round 7, was given up" in drift.describe(given_up, 1.0, 0.1)
    taken = judged([1, 1, 1], *twice, *twice, *twice, [3.0] * 3, [0.9] * 3, *twice)
    assert (taken.verdict, taken.left, taken.passes) == (Verdict.BACK, 0, 0.1), "there is one branch a run"
    assert "was better and taken" in drift.describe(taken, 1.0, 0.1)


def test_one_lucky_cohort_does_not_take_a_branch():
    """Better by 0.1, give or take 0.34: of three of five clients not enough, of all it is. Nobody to compare:
    not enough either."""
    branch = [[1] * 5, *[[2.0] * 5] * 6]
    lucky = judged(*branch, [1.5, 1.3, 0.1], clients=5)
    assert (lucky.verdict, lucky.left) == (Verdict.NONE, 19)
    assert lucky.reference == pytest.approx(np.full(5, 1.025**3))
    for most in ([1.5, 1.3, 0.1, 0.9], [1.5, 1.3, 0.1, 0.9, 1.0]):  # one that is missing makes no part round
        everybody = judged(*branch, most, clients=5)
        assert (everybody.verdict, everybody.left) == (Verdict.BETTER, 0)
    sure = judged(*branch, [0.9, 0.95, 0.92], clients=5)
    assert (sure.verdict, sure.left) == (Verdict.BETTER, 0) and sure.reference[0] == 0.9
    newcomer = readings(loss=[1], grad_sq=[1], spread=[1], held_loss=[0.5])
    grown = judged(*branch, clients=5)._replace(reference=np.array([1.0, 1.0, 1.0, 1.0, NAN]))
    assert drift.judge_round(grown, np.array([4]), np.ones(1), newcomer).verdict == Verdict.NONE


def test_passes_follow_the_judge():
    """Halved after a round that is not better, down to a tenth, doubled after one that is, up to all of them;
    going back changes nothing of it."""
    first, same, better = [1.0] * 3, [1.0] * 3, [0.9] * 3
    assert judged(first).passes == judged(first, better).passes == 1.0
    assert [judged(first, *[same] * count).passes for count in range(1, 6)] == [0.5, 0.25, 0.125, 0.1, 0.1]
    assert judged(first, same, same, better).passes == 0.5
    back = judged(first, [1.2] * 3, [1.2] * 3)
    assert (back.verdict, back.passes) == (Verdict.BACK, 0.25)


def test_a_part_of_the_clients_opens_no_branch():
    """Two of four, however often it goes back; their passes follow as everybody's do."""
    everybody, worse = [1.0] * 4, [1.2] * 2
    back = judged(everybody, worse, worse, clients=4)
    assert (back.verdict, back.factor, back.backs, back.passes) == (Verdict.BACK, 0.5, (3,), 0.25)
    assert judged(everybody, worse, worse, [0.9] * 2, clients=4).passes == 0.5
    often = judged(everybody, *[worse, worse, [0.9] * 2, [0.9] * 2] * 4, clients=4)
    assert (len(often.backs), often.branched) == (4, 0)


def test_a_part_round_may_be_worse_where_clients_pull_apart():
    """By 0.05 p^4: with p = 1.5 by a quarter. A round of all clients may not."""
    worse = [1.2] * 2
    assert judged([1.0] * 4, worse, worse, clients=4, cut=1.5).worse == 0
    assert judged([1.0] * 4, [1.3] * 2, [1.3] * 2, clients=4, cut=1.5).verdict == Verdict.BACK
    assert judged([1.0] * 4, [1.2] * 4, [1.2] * 4, clients=4, cut=1.5).verdict == Verdict.BACK


def test_a_return_straight_after_a_return_forgets_what_one_cohort_had():
    """Of a part of the clients; everybody goes back again. A round between, and it is an ordinary return."""
    part = judged([1.0] * 4, *[[1.2] * 2] * 4, clients=4)
    assert (part.verdict, part.backs, part.factor, part.worse) == (Verdict.BETTER, (3,), 1.0, 0)
    assert np.isnan(part.reference).all()
    assert judged([1.0] * 4, *[[1.2] * 4] * 4, clients=4).backs == (3, 5)
    assert judged([1.0] * 4, *[[1.2] * 2] * 2, [1.03] * 2, *[[1.2] * 2] * 2, clients=4).backs == (3, 6)


def test_no_branch_opens_late_in_a_run():
    late = judged([1, 1, 1], *[[2.0] * 3] * 6, over=0.51)
    assert (late.verdict, late.backs, late.branched) == (Verdict.BACK, (3, 5, 7), 0)


def test_a_round_that_is_not_finite_goes_back_at_once():
    whole = judged([1, 1, 1], [1, 1, 1])
    broken = readings(loss=[1, NAN, 1], grad_sq=[1] * 3, held_loss=[1] * 3, spread=[1] * 3)
    after = drift.judge_round(whole, np.arange(3), np.ones(3), broken)
    assert (after.verdict, after.factor, after.passes) == (Verdict.BACK, 0.15, whole.passes)


def test_a_network_that_says_the_same_of_every_row_begins_again():
    judge = drift.new_judge(2)
    flat = readings(loss=[1, 1], grad_sq=[1, 1], held_loss=[1, 1], spread=[0, 0])
    verdicts = []
    for _ in range(14):
        judge = drift.judge_round(judge, np.arange(2), np.ones(2), flat)
        verdicts.append(judge.verdict)
    assert [number for number, each in enumerate(verdicts) if each == Verdict.RESTART] == [3, 6, 9]
    assert judge.restarts == (4, 7, 10)
    judge = drift.new_judge(2)
    for _ in range(5):  # one row each: nobody can say
        judge = drift.judge_round(judge, np.arange(2), np.ones(2), flat._replace(spread=np.full(2, NAN)))
    assert judge.dead == 0 and not judge.restarts
