"""What `amsfl run` says at its end: four lines on the model that predicts."""

from pathlib import Path
from typing import Any

import pytest
from report_example import trial

from amsfl.cli.progress import lines
from amsfl.record import Manifest, RoundRecord

DATA = {"base": {"holdout": {"accuracy": 0.93}}, "eval_rows": {"holdout": 1000}, "note": "made up"}


def ended(
    accuracy: float, auc: float = 0.9, settings: Any = None, remarks: int = 0, **changes: Any
) -> list[str]:
    """The lines of a run whose last round has this score; all rows are predicted as the first class."""
    splits = {"holdout": {"confusion": [[930, 0], [70, 0]], "macro_auc": auc}}
    summary = trial([accuracy]).summary._replace(details={"splits": splits}, **changes)
    rounds = [RoundRecord(n, {}, metrics={"holdout": {"accuracy": n / 10}}) for n in range(1, 10)]
    made = Manifest("run", settings or {}, {}, {}, {}, {"data": DATA})
    return list(lines(summary, rounds, Path("here"), made, remarks))


@pytest.mark.parametrize(
    ("accuracy", "auc", "words"),
    [
        (0.95, 0.9, []),
        (0.93, 0.754, ["AUC of 0.754", "--score auc", "--class-weights"]),
        (0.93, 0.55, ["not surely better", "--lr"]),
    ],
)
def test_a_run_beside_the_base_rate(accuracy, auc, words):
    score, record, after, *wrong = ended(accuracy, auc)
    assert score.startswith(f"Accuracy {accuracy} (95% interval") and "beside 0.93 of" in score
    assert record == "Record: here" and after == "Next: amsfl report here"
    assert len(wrong) == bool(words) and all(word in wrong[0] for word in words)


def test_the_interval_is_wilsons():
    """0.95 of 1,000: (0.95 + z^2 / 2000 -+ z sqrt(0.95 x 0.05 / 1000 + (z / 2000)^2)) / (1 + z^2 / 1000)."""
    assert "95% interval 0.935 to 0.962" in ended(0.95)[0]


def test_the_model_that_predicts_is_that_of_the_best_round():
    best = {"round": 9, "score": 0.1, "by": "loss"}
    assert ended(0.93, best=best)[0].startswith("Accuracy 0.9 ")


def test_a_run_that_gave_up_says_so():
    early = {"settings": {"rounds": 2000, "stop_after": 100}, "rounds": 102, "best": {"round": 2}}
    assert ended(0.95, **early)[0].endswith("It ended early: the last 100 of 102 rounds were no better.")
    assert "early" not in ended(0.95, **early | {"settings": {"rounds": 102, "stop_after": 100}})[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"synthetic": True}, "made up"),
        ({"settings": {"class_weights": "balanced"}, "accuracy": 0.93}, "--score auc"),
        ({"target": 0.99}, "The target 0.99 was not reached"),
        ({"remarks": 2}, "2 remarks on how the table was read"),
    ],
)
def test_one_thing_that_is_wrong(changes, words):
    *_, wrong = said = ended(**{"accuracy": 0.96, "target": None} | changes)
    assert len(said) == 4 and words in wrong
