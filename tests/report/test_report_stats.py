"""Statistics against scipy's and textbook examples; times to a target against curves made by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_example import series, source, trial
from scipy import stats as scipy_stats

from amsfl.core.scores import recorded_score
from amsfl.report.measure import base_rate, clients, curves, stats
from amsfl.report.measure.measures import MeasuredSeries, first_hit, measure, measures, pairs
from amsfl.report.tabulate.table import TableColumn, TableRow, cell_text
from amsfl.report.write.folder import compose

ACCURACY = recorded_score("accuracy")
NUMBERS = st.lists(st.floats(-100, 100), min_size=2, max_size=30)


@settings(deadline=None, max_examples=50)
@given(NUMBERS)
def test_interval_is_scipys(values):
    found = stats.estimate(values)
    spread = scipy_stats.sem(values)
    assert found.mean == pytest.approx(np.mean(values))
    if spread > 1e-9:
        low, high = scipy_stats.t.interval(0.95, len(values) - 1, np.mean(values), spread)
        assert (found.low, found.high) == pytest.approx((low, high))


def test_interval_is_cut_where_the_quantity_ends():
    found = stats.estimate([0.9, 1.0, 1.0], 0.0, 1.0)
    assert found.high == 1.0 and found.low > 0.5


def test_one_trial_has_no_interval():
    assert stats.estimate([0.5]) == stats.Estimate(0.5, None, None, None, 1)
    assert stats.estimate([]) is None


@given(NUMBERS)
def test_holm_rejects_what_the_procedure_rejects(values):
    """Against the definition: reject in order while p_(k) <= level / (m - k + 1)."""
    p = [abs(v) / 100 for v in values]
    adjusted = stats.holm(p)
    for level in (0.01, 0.05, 0.2, 0.9):
        rejected = set()
        for rank, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
            if p[place] * (len(p) - rank) > level:
                break
            rejected.add(place)
        assert rejected == {i for i, value in enumerate(adjusted) if value <= level}


def test_holm_example():
    # Holm 1979's procedure on p = .01, .04, .03, .005: times 4, 3, 2, 1 in order, never falling
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([None, 0.03, 0.5]) == pytest.approx([None, 0.06, 0.5])


@settings(deadline=None, max_examples=15)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=6, max_size=30))
def test_wilcoxon_is_scipys(rows):
    ours, theirs = zip(*rows, strict=True)
    expected = 1.0 if ours == theirs else scipy_stats.wilcoxon(np.subtract(ours, theirs)).pvalue
    assert stats.wilcoxon(ours, theirs) == pytest.approx(expected)


@pytest.mark.parametrize("n", [3, 5, 8])
def test_least_p_is_what_a_clean_sweep_gives(n):
    ours, theirs = [float(i) for i in range(n)], [2.0 * i + 1 for i in range(n)]
    assert stats.wilcoxon(ours, theirs) == pytest.approx(stats.least_p(n))


def test_ratio_of_a_constant_factor():
    found = stats.ratio([2.0, 8.0, 20.0], [1.0, 4.0, 10.0])
    assert found.mean == pytest.approx(2) and found.low == pytest.approx(2) == pytest.approx(found.high)


def test_first_hit_is_the_first_evaluated_round_at_or_above():
    one = trial([0.1, None, 0.89, 0.5, 0.95])
    hit = first_hit(one.rounds, ACCURACY, 0.89)
    assert (hit.round, hit.seconds) == (3, {"sum": 6, "makespan": 1.5})
    assert first_hit(one.rounds, ACCURACY, 0.96) is None


def test_measures_of_a_hand_made_trial():
    found = measures(trial([0.1, 0.5, 0.9, 0.8]), ACCURACY, 0.9)
    assert found["seconds_to_sum"] == found["least_sum"] == 6
    assert found["rounds_to"] == 3 and found["round_seconds_to"] == 2
    assert found["round_seconds_sum"] == 2 and found["round_seconds_makespan"] == 0.5
    assert found["megabytes"] == 6 and found["steps"] == 40
    assert found["accuracy_holdout_c2"] == 0.75 and found["recall_holdout_1"] is None


def test_a_target_not_reached_counts_as_the_time_it_ran():
    found = measures(trial([0.1, 0.5]), ACCURACY, 0.9)
    assert found["seconds_to_sum"] is None and found["least_sum"] == 4 and found["reached"] == 0


def test_a_diverged_trial_counts_as_all_the_time_it_was_given():
    found = measures(trial([0.1, 0.5], status="diverged"), ACCURACY, 0.9, seconds=100)
    assert found["least_sum"] == 100 and found["least_makespan"] == 25 and found["least_rounds"] == 50


def test_rounds_may_end_a_diverged_trial_before_its_seconds():
    """Two rounds of 2 s, of five and 100 s: the others of the study ended after five rounds as well."""
    one = trial([0.1, 0.5], status="diverged")
    found = measures(one, ACCURACY, 0.9, seconds=100, rounds_given=5)
    assert found["least_sum"] == 10 and found["least_makespan"] == 2.5 and found["least_rounds"] == 5
    assert measures(one, ACCURACY, 0.9, rounds_given=5)["least_sum"] == 10


def test_pairs_are_by_seed():
    def measured(values):
        trials = [trial([0.5])._replace(seed=seed) for seed in values]
        return MeasuredSeries(series("fedavg", trials), [{"x": value} for value in values.values()])

    ours, theirs = measured({1: 10.0, 2: 20.0, 3: None}), measured({3: 1.0, 2: 2.0, 9: 3.0})
    assert pairs(ours, theirs, "x") == ([20.0], [2.0])


def test_a_curve_ends_with_the_mean_that_stands_in_the_table():
    """Trials end at 4 and at 6 s; at the end both count with their last scores, 0.2 and 0.9."""
    both = series("a", [trial([0.1, 0.2]), trial([0.3, None, 0.9], seed=1)])
    found = curves.curve(both, ACCURACY, "holdout", "seconds", "sum")
    np.testing.assert_array_equal(found.x, [2, 4, 6])
    np.testing.assert_allclose(found.mean, [0.2, 0.25, 0.55])
    np.testing.assert_allclose([found.low[-1], found.high[-1]], [0.2, 0.9])  # few trials: all of them
    assert found.mean[-1] == pytest.approx(measure(both, ACCURACY, None).mean("accuracy_holdout").mean)


def test_a_curve_by_rounds_and_by_bytes_has_the_same_scores():
    one = series("a", [trial([0.1, 0.2, 0.4])])
    for axis, x in (("seconds", [2, 4, 6]), ("rounds", [1, 2, 3]), ("megabytes", [1.5, 3, 4.5])):
        found = curves.curve(one, ACCURACY, "holdout", axis, "sum")
        np.testing.assert_allclose(found.x, x)
        np.testing.assert_allclose(found.mean, [0.1, 0.2, 0.4])


def test_a_curve_starts_where_half_of_the_trials_do_and_keeps_its_end_when_thinned():
    late = [trial([None] * 9 + [0.5] * 600, seed=k) for k in range(3)]
    found = curves.curve(series("a", [trial([0.1] * 500), *late]), ACCURACY, "holdout", "seconds", "sum")
    assert found.x[0] == 20 and found.x[-1] == 1218 and len(found.x) <= curves.POINTS
    assert found.mean[-1] == pytest.approx(0.4)


def test_the_middle_half_is_shown_from_five_trials_on():
    rows = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])
    assert [float(end[0]) for end in curves.spread(rows)] == [1, 3]
    assert [float(end[0]) for end in curves.spread(rows[:4])] == [0, 3]


def test_drift_is_change_over_size():
    found = clients.drift(series("a", [trial([0.5, 0.5])]), "sum", np.array([0.0, 3.0, 6.0, 9.0]))
    np.testing.assert_array_equal(found, [[0.5, 0.5, math.nan], [1.5, 1.5, math.nan]])


def test_steps_are_means_over_trials_by_client_and_round():
    two = [trial([0.5, 0.5], steps=[[1, 2], [3, 4]]), trial([0.5], steps=[[5, 6]])]
    np.testing.assert_array_equal(clients.steps(two, 3), [[3, 3], [4, 4], [math.nan, math.nan]])
    assert clients.plans(series("a", two)) and not clients.plans(series("a", [trial([0.1, 0.2])]))


def test_a_small_p_is_not_printed_as_zero():
    column = TableColumn("speedup_p", "p", 4)
    assert cell_text(TableRow({"method": "a", "speedup_p": 3e-9}, None), column) == ("< 0.0001", "")
    assert cell_text(TableRow({"method": "a", "speedup_p": 0.0123}, None), column) == ("0.0123", "")


def test_the_last_round_is_part_of_the_drift():
    """Readings at the horizon belong to the last span; a single round fills it."""
    one = series("a", [trial([0.5, 0.6])])  # rounds end after 2 and 4 seconds, drift 1/2 and 3/2
    ratios = clients.drift(one, "sum", np.array([0.0, 2.0, 4.0]))
    np.testing.assert_allclose(ratios, [[0.5, 0.5], [1.5, 1.5]])
    single = series("a", [trial([0.5])])
    ratios = clients.drift(single, "sum", np.array([0.0, 1.0, 2.0]))
    np.testing.assert_allclose(ratios, [[np.nan, 0.5], [np.nan, 1.5]])


def test_one_round_has_a_report():
    assert b"<svg" in compose([source(series("a", [trial([0.5])]))])["drift.svg"]


def ended(accuracy, auc, counts):
    """A summary with a confusion matrix of these classes, all predicted as the first."""
    table = [[count, *[0] * (len(counts) - 1)] for count in counts]
    details = {"splits": {"holdout": {"confusion": table, "macro_auc": auc}}}
    return trial([accuracy]).summary._replace(details=details)


@pytest.mark.parametrize(
    ("accuracy", "auc", "words"),
    [
        (0.95, 0.9, []),
        (0.93, 0.754, ["Not better", "0.93", "AUC of 0.754", "--score auc", "--class-weights"]),
        (0.93, 0.5, ["Not better", "--lr"]),
    ],
)
def test_a_run_says_when_it_is_not_better_than_the_base_rate(accuracy, auc, words):
    summary = ended(accuracy, auc, [930, 70])
    text = base_rate.verdict(summary)
    assert all(word in text for word in words) and bool(text) == bool(words)
    beside = f"accuracy {accuracy:.4g} beside 0.93, AUC {auc:.4g} beside 0.5"
    assert base_rate.base_rates(summary) == f"{beside} of always predicting the commonest class"


def test_a_run_is_judged_by_the_score_that_was_chosen():
    """And is not told to do what it has done."""
    summary = ended(0.93, 0.9, [930, 70])
    weighed = base_rate.verdict(summary, {"class_weights": "balanced"})
    assert "--score auc" in weighed and "--class-weights" not in weighed
    assert "--score" not in base_rate.verdict(summary, {"score": "accuracy"})
    assert not base_rate.verdict(summary._replace(score="auc"), {"score": "auc"})
    data = {"classes": ["no", "yes"], "base": {"holdout": {"macro_f1": 0.48}}}
    for f1, words in ((0.6, ""), (0.485, "macro-F1")):
        scored = summary._replace(score="f1", metrics={"holdout": {"accuracy": 0.93, "macro_f1": f1}})
        text = base_rate.verdict(scored, {"score": "f1"}, data)
        assert words in text and bool(words) == bool(text)


def test_a_run_that_was_better_says_which_round_predicts():
    summary = ended(0.93, 0.9, [930, 70])._replace(best={"round": 2, "score": 0.97, "by": "accuracy"})
    text = base_rate.verdict(summary)
    assert text.startswith("The last round is not better") and "0.97" in text
    lucky = summary._replace(best={"round": 2, "score": 0.94, "by": "accuracy"})  # within the margin
    assert base_rate.verdict(lucky).startswith("Not better")


def test_the_margin_of_an_auc_is_that_of_random_outputs():
    """95 of 100 AUCs of random outputs lie within it."""
    rng, labels = np.random.default_rng(0), np.arange(100) < 20
    ranks = rng.random((2000, 100)).argsort(1).argsort(1) + 1
    auc = (ranks[:, labels].sum(1) - 20 * 21 / 2) / (20 * 80)
    outside = np.mean(np.abs(auc - 0.5) > base_rate.auc_margin([20, 80]))
    assert 0.03 < outside < 0.07


def test_regression_is_compared_with_the_mean():
    summary = trial([0.5]).summary._replace(metrics={"holdout": {"r2": -0.1}})
    assert "the mean" in base_rate.verdict(summary) and "R² -0.1 beside 0" in base_rate.base_rates(summary)
