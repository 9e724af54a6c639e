"""Numbers of a report: statistics against scipy's and textbook examples, trials and curves made by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_example import entry, source, trial
from scipy import stats as scipy_stats

from amsfl.core.scores import recorded_score
from amsfl.report import figures, statistics
from amsfl.report.comparison import compare
from amsfl.report.tables import clients, tables

ACCURACY = recorded_score("accuracy")
NUMBERS = st.lists(st.floats(-100, 100), min_size=2, max_size=30)


def one(*trials, key="a", target=0.9, **own):
    return compare([source((key, own, list(trials)))], target)


@given(NUMBERS)
def test_interval_is_scipys(values):
    found, spread = statistics.interval(values), scipy_stats.sem(values)
    assert found.mean == pytest.approx(np.mean(values))
    if spread > 1e-9:
        low, high = scipy_stats.t.interval(0.95, len(values) - 1, np.mean(values), spread)
        assert (found.low, found.high) == pytest.approx((low, high))


def test_intervals_end_where_the_quantity_does_and_need_two_trials():
    found = statistics.interval([0.9, 1.0, 1.0], 0.0, 1.0)
    assert found.high == 1.0 and found.low > 0.5
    assert math.isnan(statistics.interval([0.5]).low) and math.isnan(statistics.interval([]).mean)
    assert statistics.ratio([2.0, 8.0, 20.0], [1.0, 4.0, 10.0]) == pytest.approx((2, 2, 2))


@settings(deadline=None, max_examples=25)
@given(st.lists(st.floats(0, 1), min_size=3, max_size=30))
def test_p_is_scipys(values):
    if np.std(np.round(values, 12)) > 1e-6:
        assert statistics.p_value(values) == pytest.approx(scipy_stats.ttest_1samp(values, 0).pvalue)


def test_p_of_differences_that_are_all_the_same():
    assert statistics.p_value([0.0] * 4) == 1 and statistics.p_value([0.1 + 0.2, 0.3, 0.3]) == 0
    assert math.isnan(statistics.p_value([1.0, 2.0]))  # two trials that agree prove nothing
    assert statistics.holm([math.nan, 0.03, 0.5])[1:] == pytest.approx([0.06, 0.5])


@given(NUMBERS)
def test_holm_rejects_what_the_procedure_rejects(values):
    """Against the definition: reject in order while p_(k) <= level / (m - k + 1)."""
    p = [abs(value) / 100 for value in values]
    adjusted = statistics.holm(p)
    for level in (0.01, 0.05, 0.2, 0.9):
        rejected = set()
        for rank, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
            if p[place] * (len(p) - rank) > level:
                break
            rejected.add(place)
        assert rejected == {place for place, value in enumerate(adjusted) if value <= level}


def test_the_margin_of_an_auc_is_that_of_random_outputs():
    """95 of 100 AUCs of random outputs lie within it."""
    rng, labels = np.random.default_rng(0), np.arange(100) < 20
    ranks = rng.random((2000, 100)).argsort(1).argsort(1) + 1
    auc = (ranks[:, labels].sum(1) - 20 * 21 / 2) / (20 * 80)
    assert 0.03 < np.mean(np.abs(auc - 0.5) > statistics.auc_margin([20, 80])) < 0.07


def test_the_margin_of_an_accuracy_is_wide_on_few_rows():
    """At a base rate of 0.5 on 25 rows chance reaches 0.5 + 1.96 * 0.1."""
    data = {"base": {"holdout": {"accuracy": 0.5}}, "eval_rows": {"holdout": 25}}
    for score, able in ((0.69, []), (0.7, ["a"])):
        assert compare([source(("a", {}, [trial([0.2, score])]), data=data)]).able == able


def test_measures_of_a_hand_made_trial():
    """The first evaluated round at or above the target; nothing is interpolated."""
    row = one(trial([0.1, 0.5, None, 0.9, 0.8])).trials.iloc[0]
    assert row["reached"] and (row["least_seconds"], row["least_rounds"], row["round_seconds_to"]) == (
        8,
        4,
        2,
    )
    assert row["round_seconds_sum"] == 2 and row["round_seconds_makespan"] == 0.5
    assert row["megabytes"] == 7.5 and row["steps"] == 50
    assert row["accuracy_holdout_c2"] == 0.75 and math.isnan(row["recall_holdout_1"] or math.nan)


@pytest.mark.parametrize(
    ("settings", "status", "least"),
    [
        ({}, "finished", (4, 2)),  # the time it ran
        ({}, "diverged", (100, 50)),  # all the time it was given
        ({"rounds": 5}, "diverged", (10, 5)),  # the others ended after five rounds as well
        ({"rounds": 5, "seconds": None}, "diverged", (10, 5)),
    ],
)
def test_a_target_not_reached_counts_as_what_a_trial_had(settings, status, least):
    row = one(trial([0.1, 0.5], status=status), **settings).trials.iloc[0]
    assert not row["reached"] and (row["least_seconds"], row["least_rounds"]) == least


def test_pairs_are_by_seed():
    ours = [trial([value], seed) for seed, value in ((1, 0.1), (2, 0.2), (5, 0.9))]
    theirs = [trial([value], seed) for seed, value in ((3, 0.1), (2, 0.15), (5, 0.8))]
    c = compare([source(("a", {}, ours), ("b", {}, theirs))], 0.9)
    assert c.tests.loc["b", "gain"] == pytest.approx(7.5) and c.tests["gain_p"].isna().all()


def test_a_curve_ends_with_the_mean_that_stands_in_the_table():
    """Trials end at 4 and at 6 s; at the end both count with their last scores, 0.2 and 0.9."""
    c = one(trial([0.1, 0.2]), trial([0.3, None, 0.9], seed=1))
    found = figures.curve(c, "a", "holdout")
    assert found.index.tolist() == [2, 4, 6]
    np.testing.assert_allclose(found["mean"], [0.2, 0.25, 0.55])
    assert found.iloc[-1][["low", "high"]].tolist() == [0.2, 0.9]  # few trials: all of them
    assert found["mean"].iloc[-1] == pytest.approx(c.mean("a", c.final))


def test_a_curve_starts_where_half_of_the_trials_do_and_keeps_its_end_when_thinned():
    late = [trial([None] * 9 + [0.5] * 600, seed=k) for k in range(1, 4)]
    found = figures.curve(one(trial([0.1] * 500), *late), "a", "holdout")
    assert found.index[0] == 20 and found.index[-1] == 1218 and len(found) <= figures.POINTS
    assert found["mean"].iloc[-1] == pytest.approx(0.4)


def test_steps_are_means_over_trials_by_client_and_round():
    two = [trial([0.5, 0.5], steps=[[1, 2], [3, 4]]), trial([0.5, 0.5], 1, steps=[[5, 6], [3, 4]])]
    c = compare([source(("a", {}, two), clients={"step_seconds": [0.2, 0.1]})])
    assert figures.step_map(c, "a").tolist() == [[4, 4], [3, 3]]  # the fast one on top


def test_clients_time_is_shared_out():
    """Two rounds of 2 s: client 0 worked 3 s of 4, client 1 one second, and one was for nothing."""
    first, second = one(trial([0.5, 0.9])).methods["a"].trials[0].rounds
    first = first._replace(plan={"client_seconds": [2.0, 1.0]})
    second = second._replace(cohort=[0], steps=[5], plan={"client_seconds": [1.0]}, dropped=[[1, 2.0, 3.0]])
    made = trial([0.5, 0.9])._replace(rounds=[first, second])
    c = compare([source(("a", {}, [made]))])
    frame = clients(c).frame
    assert frame["working"].tolist() == [75, 25] and frame["lost"].tolist() == [0, 25]
    table = next(table for table in tables(c) if table.name == "table3")
    assert table.frame["waiting"].tolist() == [37.5]


def test_under_five_trials_there_are_dots_and_no_second_figure():
    few, many = (compare([source(entry("a", [0.3, 0.9], n), entry("b", [0.2, 0.8], n))]) for n in (4, 5))
    assert figures.figure_b(few) is None and figures.figure_b(many) is not None
    for c, boxes in ((few, 0), (many, 2)):
        assert len(figures.figure_a(c)[3].axes[0].patches) == boxes
