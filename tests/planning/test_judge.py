"""The judge, verdict by verdict, with numbers small enough to check by hand."""

import numpy as np
import pytest

from amsfl.core import Reading, Verdict
from amsfl.planning import describe, judge_round, new_judge

NAN = float("nan")


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
