"""What evidence.py makes of tracks, by hand."""

import json

import evidence
import numpy as np
import pytest


def row(who, label, times, end):
    track = {"case": "mine", "who": who, "label": label, "seed": 0, "profile": "far", "clock": "sum"}
    return track | {"end": end, "held": end, "low": end, "times": times}


def test_a_ladder_says_when_each_level_was_first_reached():
    times = evidence.ladder(np.array([0.2, 0.6, 0.4, 0.8]), np.array([1.0, 2.0, 3.0, 4.0]))
    at = {level: times[round(level * evidence.LADDER)] for level in (0.1, 0.2, 0.5, 0.6, 0.8, 0.9)}
    assert at == {0.1: 1.0, 0.2: 1.0, 0.5: 2.0, 0.6: 2.0, 0.8: 4.0, 0.9: -4.0}


def test_the_best_setting_counts_and_a_miss_costs_twice_the_last_second(tmp_path, capsys):
    """From 0.2 to 0.8: 70% of the way is 0.62. Ours is there at 4; of theirs one at 8, one never by 10."""
    levels = np.arange(evidence.LADDER + 1) / evidence.LADDER
    ours = row("amsfl", "", np.where(levels <= 0.8, 4.0, -4.0).tolist(), 0.8)
    theirs = [
        row("fixed", "10 steps", np.where(levels <= 0.5, 5.0, -10.0).tolist(), 0.5),
        row("fixed", "5 steps", np.where(levels <= 0.7, 8.0, -10.0).tolist(), 0.7),
    ]
    whole = {"case": "mine", "majority": 0.2, "rows": [ours, *theirs]}
    (tmp_path / "mine--all.json").write_text(json.dumps(whole))
    table = evidence.Table(tmp_path)
    assert table.faster("mine", [ours], theirs, 0.70) == pytest.approx(2.0)
    assert table.faster("mine", [ours], theirs[:1], 0.70) == pytest.approx(20 / 4)
    assert table.best_end(theirs) == pytest.approx(70)
    evidence.show(tmp_path)
    assert "| ten fixed steps, all else equal | 5.00 / 5.00 / 5.00 | 1 of 1 |" in capsys.readouterr().out
