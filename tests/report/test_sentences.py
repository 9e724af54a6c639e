"""What a report says, and what it must not: who is soonest, who ends highest, what to do, base rates."""

import pytest
from report_example import entry, source, trial

from amsfl.core import UserError
from amsfl.report.comparison import compare
from amsfl.report.sentences import answer, brackets, notes

FAST = [0.3, 0.7, 0.92, 0.93, 0.93, 0.93]
SLOW = [0.2, 0.4, 0.5, 0.7, 0.85, 0.92]
HIGH = [0.2, 0.4, 0.5, 0.7, 0.91, 0.97]


def study(*entries, target=0.9, **more):
    return compare([source(*entries, **more)], target)


def says(*entries, target=0.9, **more):
    soonest, highest, what = answer(study(*entries, target=target, **more))
    return soonest, highest, what


def test_three_things_where_the_default_is_surely_ahead():
    """0.9 after round 3 (6 s) and round 6 (12 s) in every trial: twice as fast, without spread."""
    soonest, highest, what = says(entry("amsfl", FAST), entry("slow", SLOW))
    assert soonest.startswith("amsfl is soonest at 90%, after 6.0 virtual seconds on average over 5 trials")
    assert "surely before slow (2.00 times as fast as slow [2.00, 2.00])" in soonest
    assert (
        highest.startswith("amsfl ends highest, at an accuracy of 0.928") and "surely above slow" in highest
    )
    assert "1.0 points [1.0, 1.0] above slow" in highest
    assert what.startswith("What to do: keep the default, amsfl;") and "--trials" not in what


def test_no_sure_difference_means_keep_the_default():
    """Means differ by less than trials do: nobody is surely anything, whoever leads."""
    even = [trial([0.2, 0.9 + d, 0.9], k) for k, d in enumerate((0, -0.1, 0, -0.1, 0))]
    odd = [trial([0.2, 0.9 + d, 0.9 - d / 9], k) for k, d in enumerate((-0.1, 0, -0.1, 0, 0.01))]
    soonest, _, what = says(("amsfl", {}, even), ("b", {}, odd))
    assert "not surely before b" in soonest and "keep the default, amsfl; no other is surely" in what


def test_sure_is_after_correction_for_how_many_are_compared():
    """A gain of 1, 2, 3, 2 and 1 points: p is 0.0086, which is sure of 5 comparisons, and not of 6."""
    ours = [trial([0.5, 0.9 + gain / 100], seed) for seed, gain in enumerate((1, 2, 3, 2, 1))]
    flat = [trial([0.5, 0.9], seed) for seed in range(5)]
    for many, sure in ((5, True), (6, False)):
        c = study(("amsfl", {}, ours), *((f"m{k}", {}, flat) for k in range(many)), target=0.89)
        assert all((c.sure(f"m{k}", "gain") == 1) is sure for k in range(many))
        assert f"Holm's correction for {many} comparisons" in brackets(c)
        assert c.tests["gain_p"].iloc[0] == pytest.approx(0.00857 * many, rel=0.01)


def test_another_method_is_recommended_only_where_it_is_surely_better():
    soonest, highest, what = says(entry("amsfl", SLOW), entry("fast", FAST))
    assert soonest.startswith("fast is soonest") and "2.00 times as fast as amsfl" in soonest
    assert soonest.endswith("surely.") and "use fast here" in what and "above amsfl" in highest


def test_where_another_leads_the_default_stands_beside_all_the_rest():
    soonest, highest, what = says(entry("amsfl", FAST), entry("high", HIGH), entry("slow", SLOW))
    assert "use high where the score at the end counts; keep the default, amsfl where time does" in what
    assert "amsfl is soonest" in soonest and "surely before high and slow" in soonest
    assert highest.startswith("high ends highest") and "; amsfl is surely above slow." in highest
    soonest, *_ = says(entry("amsfl", SLOW), entry("fast", FAST), entry("late", HIGH[:4] + SLOW[3:]))
    assert soonest.startswith("fast is soonest") and "; amsfl is surely before late." in soonest
    soonest, *_ = says(entry("amsfl", HIGH[:4] + SLOW[3:]), entry("fast", FAST), entry("soon", SLOW))
    assert soonest.endswith("; amsfl is surely after soon.")


def test_one_trial_is_sure_of_nothing():
    soonest, highest, what = says(entry("amsfl", FAST, 1), entry("slow", SLOW, 1))
    assert "not surely before slow" in soonest and "[" not in soonest + highest
    assert "keep the default" in what and "--trials 5" in what


def test_a_level_is_found_where_no_target_is_set():
    """95% of the way from 0.1 to 0.928 is 0.8866: rounded down, and times are to it."""
    base = {"base": {"holdout": {"accuracy": 0.1}}}
    c = study(entry("amsfl", FAST), entry("slow", SLOW), target=None, data=base)
    assert c.target == 0.886 and c.in_hindsight and "88.6%" in answer(c)[0]
    assert any(note.startswith("No target was set: times are to 88.6%") for note in notes(c))


def test_a_target_out_of_reach():
    soonest, highest, what = says(entry("amsfl", FAST), entry("slow", SLOW), target=0.99)
    assert soonest == "No method reached 99% in all its trials, so none is soonest."
    assert highest.startswith("amsfl ends highest") and "keep" in what


def test_who_did_not_always_arrive_is_not_soonest():
    """`luck` arrives after 2 s in one trial of five; who missed it counts with at least the time it ran."""
    luck = ("luck", {}, [trial([0.95], 0), *(trial([0.1] * 4, seed) for seed in range(1, 5))])
    soonest, *_ = says(entry("amsfl", FAST), luck)
    assert soonest.startswith("amsfl is soonest") and "at least" in soonest


def test_of_two_that_never_arrive_none_is_faster():
    c = study(entry("short", FAST[:2]), entry("long", [*SLOW[:5], 0.85]))
    assert c.tests["speedup"].isna().all() and c.tests["speedup_p"].isna().all()


def test_one_method_is_compared_with_nobody():
    (text,) = answer(study(entry("only", FAST), data={"base": {"holdout": {"accuracy": 0.4}}}))
    assert "amsfl compare" in text and "0.400" in text and "it reached 90% after 6.0" in text


UNEVEN = {"base": {"holdout": {"accuracy": 0.93}}, "eval_rows": {"holdout": 1000}}


def test_a_method_at_the_base_rate_is_no_rival():
    """93 of 100 rows are of one class: 0.93 is nothing, and no speed-up over it means anything."""
    c = study(entry("good", [0.93, 0.96, 0.98]), entry("idle", [0.93] * 3), target=0.95, data=UNEVEN)
    assert c.able == ["good"]
    assert any(note.startswith("Not better than the base rate: idle ends at 0.928") for note in notes(c))
    assert "the only one better than the base rate" in answer(c)[0] and "Not beaten yet" in answer(c)[-1]
    (text,) = answer(study(entry("idle", [0.93] * 3), entry("too", [0.9] * 3), target=0.95, data=UNEVEN))
    assert text.startswith("No method is better than always predicting the commonest class")
    assert "--class-weights balanced" in text and "--lr" in text


def test_one_score_and_advice_where_it_cannot_tell_methods_apart():
    """An accuracy at the base rate beside an AUC of 0.754: the methods rank rows, and the page says so."""

    def ranked(key, auc, **settings):
        splits = {
            "holdout": {"confusion": [[930, 0], [70, 0]], "auc": [auc] * 2, "macro_auc": auc, "ece": 0.0}
        }
        trials = [trial([0.5, 0.93, 0.93], seed) for seed in range(2)]
        ended = [one._replace(summary=one.summary._replace(details={"splits": splits})) for one in trials]
        return key, settings, ended

    (text,) = answer(study(ranked("a", 0.754), ranked("b", 0.7), data=UNEVEN))
    assert "accuracy of 0.930" in text and "a 0.754 and b 0.700" in text and "--score auc" in text
    search = {"searched": {"a": {"found": {"lr": 0.1}, "tried": [{"lr": 0.1}]}}}
    (text,) = answer(study(ranked("a", 0.5), ranked("b", 0.5), data=UNEVEN, **search))
    assert "--lr" not in text and "more --rounds" in text  # not what was done already


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"data": {"name": "nslkdd"}}, "data: digits; nslkdd"),
        ({"data": {"eval_rows": {"holdout": 10}}}, "rows judged on: {'holdout': 900}; {'holdout': 10}"),
        ({"run": {"partition": "dirichlet:0.1"}}, "partition: iid; dirichlet:0.1"),
        ({"run": {"target": 0.8}}, "target: none; 0.8"),
        ({"run": {"seconds": 50}}, "virtual seconds: 100; 50"),
        ({"seeds": True}, "seeds: no trial"),
    ],
)
def test_records_that_differ_have_no_winner(change, text):
    key, settings, trials = entry("slow", SLOW)
    if change.pop("seeds", False):
        trials = [one._replace(summary=one.summary._replace(seed=one.seed + 50)) for one in trials]
    c = compare([source(entry("fast", FAST)), source((key, settings, trials), folder="b", **change)])
    assert len(c.differences) == 1 and c.differences[0].startswith(text) and not len(c.tests)
    (said,) = answer(c)
    assert said.startswith("No method is named the best") and text in said and "ighest" not in said


def test_records_of_one_setting_are_compared_across_folders():
    c = compare([source(entry("fast", FAST)), source(entry("slow", SLOW, model="cnn"), folder="b")], 0.9)
    assert not c.differences and answer(c)[0].startswith("fast is soonest")
    assert list(c.methods) == ["fast@study", "slow@b"] and "keep fast;" in answer(c)[2]


def test_a_target_is_a_share_and_of_a_score_on_record():
    with pytest.raises(UserError, match=r"for 95% write 0\.95"):
        study(entry("a", FAST), target=95)
    with pytest.raises(UserError, match="on record"):
        compare([source(entry("a", FAST))], 3, "mae")
