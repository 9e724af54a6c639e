"""What a report says, and what it must not: winners, ties, base rates, differences, targets."""

import csv
import io
import json

import pytest
from report_example import series, source, trial

from amsfl.core import UserError
from amsfl.report.draw import spread_figures
from amsfl.report.measure.describe import describe
from amsfl.report.measure.ranking import rank
from amsfl.report.tabulate.contents import tables
from amsfl.report.tabulate.table import best
from amsfl.report.write.advice import advice, scope
from amsfl.report.write.folder import compose

FAST = [0.3, 0.7, 0.92, 0.93, 0.93, 0.93]
SLOW = [0.2, 0.4, 0.5, 0.7, 0.85, 0.92]


def entry(key, scores, seeds=5, **settings):
    """Trials that differ a little from seed to seed."""
    return series(key, [trial([s - seed / 1000 for s in scores], seed) for seed in range(seeds)], **settings)


def test_a_clear_winner_is_named_with_its_margin():
    study = describe([source(entry("fast", FAST), entry("slow", SLOW))], 0.9)
    assert rank(study).ties == []
    text = advice(study)
    # 0.9 after round 3 (6 s) and round 6 (12 s) in every trial: twice as fast, without spread
    assert text.startswith("Use fast in this setting: it is first to 90%, after 6.0 virtual seconds")
    assert "2.00 times as fast as slow (95% interval 2.00 to 2.00)" in text
    assert "ends with the highest accuracy" in text and "Next: another --partition" in text


def test_a_tie_is_a_tie():
    even = [trial([0.2, 0.9 + d, 0.9], k) for k, d in enumerate((0, -0.1, 0, -0.1, 0))]
    odd = [trial([0.2, 0.9 + d, 0.9], k) for k, d in enumerate((-0.1, 0, -0.1, 0, -0.1))]
    study = describe([source(series("a", even), series("b", odd))], 0.9)
    text = advice(study)
    assert text.startswith("a leads, and is not surely ahead of b") and "Use a" not in text
    assert "Next: more --trials" in text


def test_level_is_level():
    text = advice(describe([source(entry("a", FAST), entry("b", FAST), entry("c", SLOW))], 0.9))
    assert text.startswith("a and b are level here, at 6.0 virtual seconds.")


def test_a_method_that_stopped_before_the_target_is_not_level_with_one_that_reached_it():
    """The second ran 4 s and missed the target that the first reached after 6 s: it counts with 6 s."""
    text = advice(describe([source(entry("a", FAST), entry("short", FAST[:2]))], 0.9))
    assert "level" not in text and "short reached it in 0 of" in text and "times as fast" not in text


def test_a_score_that_is_not_on_record_is_refused():
    with pytest.raises(UserError, match="on record"):
        describe([source(entry("a", FAST))], 3, "mae")


def test_one_trial_is_a_hint():
    study = describe([source(entry("fast", FAST, 1), entry("slow", SLOW, 1))], 0.9)
    text = advice(study)
    assert text.startswith("One trial is a hint, no result: fast leads") and "interval" not in text
    assert "Next: --trials 10" in text


def test_one_method_is_compared_with_nobody():
    study = describe([source(entry("only", FAST), data={"base_rate": {"holdout": 0.4}})], 0.9)
    assert "amsfl compare" in advice(study) and "0.400" in advice(study)


def speedup(study):
    """The row of the paired tests of a study of two."""
    table = next(table for table in tables(study) if table.name == "tests")
    return table.rows[0]


def test_of_two_that_never_arrive_none_is_faster():
    """Both miss 0.9; one ends after 4 s, one after 12 s, which says nothing about a time to the target."""
    study = describe([source(entry("short", FAST[:2]), entry("long", [*SLOW[:5], 0.85]))], 0.9)
    row = speedup(study)
    assert row.values["speedup"] is None and row.values["speedup_p"] is None


def test_who_stopped_early_is_not_faster_than_who_arrived():
    """`quick` ends after 2 s without the target that `sure` reaches after 6 s: at least as long, no less."""
    quick, sure = entry("quick", [0.85]), entry("sure", FAST)
    study = describe([source(quick, sure)], 0.9)
    assert rank(study).best.label == "sure" and rank(study).margins[0].mean == 1
    assert speedup(study).values["speedup"].mean == 1 and not speedup(study).least
    ours_arrived = describe([source(sure, quick)], 0.9)
    assert speedup(ours_arrived).values["speedup"].mean == 1 and speedup(ours_arrived).least == {"speedup"}


def test_who_did_not_always_arrive_is_behind_who_did():
    luck = series("luck", [trial([0.95], 0), *(trial([0.1] * 4, seed) for seed in range(1, 5))])
    study = describe([source(luck, entry("sure", FAST))], 0.9)
    assert study.methods[0].value("least_sum") > 6 and rank(study).best.label == "sure"
    assert "which reached it in 1 of 5 trials" in advice(study)


def test_a_target_out_of_reach_is_decided_by_accuracy():
    text = advice(describe([source(entry("fast", FAST), entry("slow", SLOW))], 0.99))
    assert text.startswith("No method reached 99% in all its trials; by accuracy at the end: Use fast")
    assert "1.0 points above slow" in text


def test_a_faster_method_that_ends_lower_says_so():
    early = [0.91, 0.91, 0.91, 0.91, 0.91, 0.91]
    text = advice(
        describe([source(entry("early", early), entry("good", [0.5, 0.8, 0.85, 0.9, 0.93, 0.97]))], 0.9)
    )
    assert "If accuracy at the end counts more: good ends 6.0 points higher." in text


def test_the_base_rate_stands_in_the_table_and_wins_nothing():
    data = {"base_rate": {"holdout": 0.931}}
    study = describe([source(entry("fast", FAST), entry("idle", [0.93] * 6, 5), data=data)])
    table = tables(study)[0]
    assert table.rows[-1].aside and table.rows[-1].values["acc_global"] == 0.931
    assert not [place for place, _ in best(table) if place == len(table.rows) - 1]
    rows = list(
        csv.DictReader(io.StringIO(compose([source(entry("a", FAST, 2), data=data)])["table1.csv"].decode()))
    )
    assert rows[-1]["method"] == "Commonest class" and rows[-1]["acc_global"] == "0.9310"


def test_a_method_at_the_base_rate_is_no_rival():
    """93 of 100 rows are of one class: 0.93 is nothing, and no speed-up over it means anything."""
    data = {"base_rate": {"holdout": 0.93}}
    good = entry("good", [0.93, 0.96, 0.98])
    study = describe([source(good, entry("idle", [0.93] * 3), data=data)], 0.95)
    assert [one.label for one in study.not_better] == ["idle"]
    assert any(note.startswith("Not better than the base rate: idle ends at 0.928") for note in study.notes)
    text = advice(study)
    assert "good is the only one better than the base rate" in text and "times as fast" not in text
    assert "not beaten yet" in text
    none = describe([source(entry("idle", [0.93] * 3), entry("too", [0.9] * 3), data=data)], 0.95)
    assert advice(none).startswith("No method is better than always predicting the commonest class")
    assert "--class-weights balanced" in advice(none) and "--lr" in advice(none)


def ranked(key, accuracy, auc, **settings):
    """Trials that end at that accuracy and AUC; 930 of 1,000 rows are of one class."""
    details = {"splits": {"holdout": {"confusion": [[930, 0], [70, 0]], "auc": [auc] * 2, "macro_auc": auc}}}
    details["splits"]["holdout"]["ece"] = 0.0
    trials = [trial([0.5, accuracy, accuracy], seed) for seed in range(2)]
    ended = [one._replace(summary=one.summary._replace(details=details)) for one in trials]
    return series(key, ended, **settings)


UNEVEN = {"base_rate": {"holdout": 0.93}, "eval_rows": {"holdout": 1000}}


def test_uneven_classes_are_judged_by_auc():
    """An accuracy at the base rate beside an AUC of 0.754: the methods learned something."""
    subject = describe([source(ranked("a", 0.93, 0.754), ranked("b", 0.93, 0.7), data=UNEVEN)])
    assert subject.fitting_score.name == "auc" and not subject.not_better
    text = advice(subject)
    assert "Use a" in text and "AUC of 0.754" in text and "No method" not in text
    assert not any("the same results" in note for note in subject.notes)
    note = next(note for note in subject.notes if note.startswith("Judged by AUC"))
    assert "93% of the rows" in note and "--score auc" in note and "--class-weights" in note
    chosen = describe([source(ranked("a", 0.93, 0.754, score="accuracy"), data=UNEVEN)])
    assert chosen.fitting_score.name == "accuracy" and len(chosen.not_better) == 1


def test_an_auc_within_chance_is_not_better():
    """70 of 1,000 rows: the AUC of random outputs has a standard deviation of 0.036."""
    subject = describe([source(ranked("a", 0.93, 0.56), ranked("b", 0.93, 0.62), data=UNEVEN)])
    assert [one.label for one in subject.not_better] == ["a"]


def test_searched_learning_rates_are_not_advised_again():
    search = {"searched": {"level": "quick", "found": {"lr": 0.1}, "tried": [{"lr": 0.1}]}}
    for second in (search, {}):  # a method that sets its own rate has no search
        both = [ranked("a", 0.93, 0.5, **search), ranked("b", 0.93, 0.51, **second)]
        text = advice(describe([source(*both, data=UNEVEN)]))
        assert text.startswith("No method is better") and "--lr" not in text and "more --rounds" in text


def test_an_accuracy_within_chance_is_not_called_below():
    """Half of 1,000 rows: chance reaches 0.5 + 1.96 * 0.0158, and 0.52 is above the base rate."""
    even = {"base_rate": {"holdout": 0.5}, "eval_rows": {"holdout": 1000}}
    notes = " ".join(describe([source(ranked("a", 0.52, 0.5), data=even)]).notes)
    assert "chance" in notes and "± 0.031" in notes and "beats" not in notes
    assert "an AUC" in notes and "a AUC" not in notes


def test_few_rows_leave_a_wide_margin():
    """At a base rate of 0.5 on 25 rows chance reaches 0.5 + 1.96 * 0.1."""
    for score, better in ((0.69, False), (0.7, True)):
        entry_ = series("a", [trial([0.2, score])])
        data = {"base_rate": {"holdout": 0.5}, "eval_rows": {"holdout": 25}}
        assert bool(describe([source(entry_, data=data)]).not_better) is not better


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"data": {"name": "nslkdd"}}, "data: digits; nslkdd"),
        ({"data": {"eval_rows": {"holdout": 10}}}, "rows judged on: holdout 900; holdout 10"),
        ({"run": {"partition": "dirichlet:0.1"}}, "partition: iid; dirichlet:0.1"),
        ({"settings": {"target": 0.8}}, "target: 0.9; 0.8"),
        ({"settings": {"profile": "wild"}}, "client speeds: mild; wild"),
        ({"settings": {"seconds": 50}}, "when they end: after 100 virtual seconds; after 50"),
        (
            {"settings": {"seconds": None, "rounds": 9}},
            "when they end: after 100 virtual seconds; after 9 rounds",
        ),
        (
            {"settings": {"stop_at_target": True}},
            "when they end: after 100 virtual seconds; after 100 virtual",
        ),
        ({"seeds": True}, "seeds: no trial"),
    ],
)
def test_records_that_differ_have_no_winner(change, says):
    other = entry("slow", SLOW, **{"target": 0.9} | change.pop("settings", {}))
    if change.pop("seeds", False):
        other = other._replace(trials=[one._replace(seed=one.seed + 50) for one in other.trials])
    pair = [source(entry("fast", FAST, target=0.9)), source(other, folder="b", **change)]
    study = describe(pair)
    assert len(study.differences) == 1 and study.differences[0].startswith(says)
    assert rank(study) is None
    for text in (advice(study), scope(study)):
        assert "ighest" not in text and "irst to" not in text and "Use" not in text
    made = tables(study)
    assert "tests" not in [table.name for table in made]
    assert all(not best(table) for table in made)
    assert all(any(note.startswith("No comparison") for note in table.shared) for table in made)


def test_records_of_one_setting_are_compared_across_folders():
    pair = [source(entry("fast", FAST)), source(entry("slow", SLOW), folder="b")]
    study = describe(pair, 0.9)
    assert study.differences == [] and advice(study).startswith("Use fast")


def test_another_model_is_said_and_compared():
    study = describe(
        [source(entry("a", FAST, model="mlp")), source(entry("b", SLOW, model="cnn"), folder="b")]
    )
    assert study.differences == [] and "Settings that differ: model: mlp; cnn." in study.notes


def real(metrics):
    """A federation of real clients: scores as its record has them."""
    one = trial([0.5, 0.6, 0.7])
    rounds = [each._replace(metrics=metrics, readings={}) for each in one.rounds]
    end = one.summary._replace(metrics=metrics, local_accuracy=None)
    return series("a", [one._replace(rounds=rounds, summary=end)])


def test_real_clients_are_judged_by_their_own_rows():
    files = compose([source(real({"clients": {"accuracy": 0.7}}), data={"classes": [], "eval_rows": {}})])
    page = files["report.html"].decode()
    assert "ends at 0.700 on the clients&#39; own rows" in page and "Accuracy on the clients" in page
    assert b"0.7000" in files["table1.csv"] and "recall.csv" not in files


def test_a_record_without_accuracy_says_so():
    files = compose([source(real({"clients": {"mae": 0.7}}))])
    assert "No accuracy is on record" in files["report.html"].decode() and "accuracy_time.svg" not in files


def test_names_for_one_thing_are_pointed_out():
    study = describe([source(entry("a", FAST), entry("b", FAST), entry("c", SLOW))])
    said = "have the same results here: in no round are their scores more than 0.005 apart."
    assert [note for note in study.notes if "the same" in note] == [f"a and b {said}"]
    three = describe([source(entry("a", FAST), entry("b", FAST), entry("c", SLOW), entry("d", FAST))])
    assert [note for note in three.notes if "the same" in note] == [f"a, b and d {said}"]


def test_a_target_is_a_share():
    one = [source(entry("a", FAST))]
    assert describe(one, 0.9).target == 0.9 and describe(one, 0.9).goal == "90%"
    with pytest.raises(UserError, match=r"for 95% write 0\.95"):
        describe(one, 95)
    for wrong in (0, -1, 101, float("nan"), float("inf")):
        with pytest.raises(UserError, match="The target is"):
            describe(one, wrong)
    assert describe(one, 0.5, "f1").goal == "Macro-F1 0.5"


def test_under_five_trials_there_are_dots_and_no_second_figure():
    few, many = (describe([source(entry("a", FAST, n), entry("b", SLOW, n))]) for n in (4, 5))
    assert spread_figures.figure_b(few) is None and spread_figures.figure_b(many) is not None
    for study, boxes in ((few, 0), (many, 2)):
        axes = spread_figures.figure_a(study).figure.axes[0]
        assert len(axes.patches) == boxes


def test_notes_stand_once_on_the_page_and_with_every_file():
    noted = entry("a", FAST, 2)._replace(note="† A note of a.")
    data = {"synthetic": True, "note": "Made up."}
    files = compose([source(noted, entry("b", SLOW, 2), data=data)], 0.9)
    page = files["report.html"].decode()
    assert page.count("† A note of a.") == page.count("Made up.</p>") == 1
    for name in ("table1.md", "table2.tex", "recall.md", "tests.tex"):
        text = files[name].decode()
        assert "A note of a." in text and "Made up." in text
    assert json.loads(files["summary.json"])["notes"][0] == "Made up."


def test_fifty_clients_are_a_map():
    steps = [[1 + (who * (k + 1)) % 30 for who in range(50)] for k in range(4)]
    planned = series("a", [trial([0.1, 0.2, 0.3, 0.4], clients=50, steps=steps)])
    files = compose([source(planned, clients={"step_seconds": [0.05 - who / 1000 for who in range(50)]})])
    assert b"<image" in files["steps.svg"] and "50 clients" in files["report.html"].decode()


def test_a_method_of_ones_own_and_twenty_of_them_are_drawn():
    entries = [entry(f"mine-{k}", [s - k / 99 for s in FAST], 1) for k in range(20)]
    study = describe([source(*entries)._replace(reference="mine-7")])
    assert study.reference.label == "mine-7" and study.reference.place == 0
    assert sorted(one.place for one in study.methods) == list(range(20))
    assert spread_figures.figure_a(study).figure.axes
