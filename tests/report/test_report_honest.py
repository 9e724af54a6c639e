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


def test_one_trial_is_a_hint():
    study = describe([source(entry("fast", FAST, 1), entry("slow", SLOW, 1))], 0.9)
    text = advice(study)
    assert text.startswith("One trial is a hint, no result: fast leads") and "interval" not in text
    assert "Next: --trials 10" in text


def test_one_method_is_compared_with_nobody():
    study = describe([source(entry("only", FAST), data={"base_rate": {"holdout": 0.4}})], 0.9)
    assert "nothing to be held against" in advice(study) and "0.400" in advice(study)


def test_who_did_not_always_arrive_is_behind_who_did():
    luck = series("luck", [trial([0.95], 0), *(trial([0.1] * 4, seed) for seed in range(1, 5))])
    study = describe([source(luck, entry("sure", FAST))], 0.9)
    assert study.methods[0].value("least_sum") > 6 and rank(study).best.label == "sure"
    assert "which got there in 1 of 5 trials" in advice(study)


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


def test_who_learned_nothing_is_no_rival():
    """93 of 100 rows are of one class: 0.93 is nothing, and no speed-up over it means anything."""
    data = {"base_rate": {"holdout": 0.93}}
    good = entry("good", [0.93, 0.96, 0.98])
    study = describe([source(good, entry("idle", [0.93] * 3), data=data)], 0.95)
    assert [one.label for one in study.not_better] == ["idle"]
    assert any(note.startswith("Learned nothing: idle ends at 0.928") for note in study.notes)
    text = advice(study)
    assert "good is the only one that learned something" in text and "times as fast" not in text
    assert "not beaten yet" in text
    none = describe([source(entry("idle", [0.93] * 3), entry("too", [0.9] * 3), data=data)], 0.95)
    assert advice(none).startswith("No method learned anything here")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"data": {"name": "nslkdd"}}, "data: digits; nslkdd"),
        ({"data": {"eval_rows": {"holdout": 10}}}, "rows judged on: holdout 9; holdout 10"),
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
    assert study.differences == [] and "Not everything is the same for all: model: mlp; cnn." in study.notes


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
    said = "come to the same here, round by round: no two of their scores are more than 0.005 apart."
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
