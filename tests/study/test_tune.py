"""The search before a comparison: for whom, on which rows, at what cost, and that it is on record."""

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import CliRunner

from amsfl import study
from amsfl.cli.app import app
from amsfl.core import UserError
from amsfl.data import load
from amsfl.record import read_study
from amsfl.study import tune
from amsfl.study.settings import Study

SMALL = {"data": "digits", "model": "softmax", "seconds": 2.0, "clients": 3, "engine": "loop"}


def small(trials: int = 3, **methods: dict[str, object]) -> Study:
    return Study("small", "compare", trials, 0, "fedavg", SMALL, methods or {"fedavg": {}})


def test_only_who_needs_it_is_searched_for() -> None:
    plan = small(fedavg={}, amsfl={}, planned={"method": "fedavg", "policy": "price"})
    assert tune.keys_to_search(plan, "fedavg") == ["lr", "steps"]
    assert tune.keys_to_search(plan, "amsfl") == []
    assert tune.keys_to_search(plan, "planned") == ["lr"]


@pytest.mark.parametrize("trials", [1, 2, 3, 5, 50])
def test_a_quick_search_costs_less_than_twice_the_trials(trials: int) -> None:
    """Searching and trials together stay under three times the trials alone."""
    assert study.search_cost(small(trials), "quick") < 2 * trials
    assert study.search_cost(small(trials), "none") == 0
    assert study.search_cost(small(trials), "quick", fixed=("lr", "steps")) == 0


def test_the_search_never_sees_what_trials_are_judged_by() -> None:
    data = load("digits")
    apart = tune._apart(data, 0)
    pool = set(map(bytes, data.x))
    held = set(map(bytes, data.evals["holdout"][0])) - pool
    rows, kept_back = set(map(bytes, apart.x)), set(map(bytes, apart.evals["holdout"][0]))
    assert rows | kept_back == pool and not (rows | kept_back) & held
    assert len(apart.y) + len(apart.evals["holdout"][1]) == len(data.y)
    assert tune.APART > 3


@pytest.mark.usefixtures("without_figures")
def test_the_best_candidate_wins_and_is_on_record(tmp_path: Path) -> None:
    """A rate of 1e-6 learns nothing; whatever the search finds is better, and is what the trials run with."""
    flags = [f for key, value in SMALL.items() for f in (f"--{key}", str(value))]
    file = tmp_path / "s.toml"
    file.write_text("[run]\nlr = 1e-6\nseconds = 2.0\n[methods.fedavg]\nsteps = 5\n[methods.amsfl]\n")
    out = tmp_path / "out"
    command = ["compare", "--config", str(file), "--trials", "1", "--out", str(out), *flags]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "searching for fedavg" in done.stderr and "searching for amsfl" not in done.stderr
    found = read_study(out)
    told = found.settings["searched"]
    assert list(told) == ["fedavg"] and told["fedavg"]["tried"][0]["lr"] == 1e-6
    best = told["fedavg"]["found"]
    assert found.settings["methods"]["fedavg"]["lr"] == best["lr"] > 1e-6
    finals = [each for each in told["fedavg"]["tried"] if each["part"] == told["fedavg"]["tried"][-1]["part"]]
    assert best["lr"] == max(finals, key=lambda each: each["accuracy"])["lr"]
    scores = [trial.summary.accuracy for trial in found.trials["fedavg"]]
    assert np.mean(scores) > 0.3
    notes = json.loads((out / "summary.json").read_text())["notes"]
    assert any("Settings were searched before the trials" in note for note in notes)
    again = CliRunner().invoke(app, command)  # on record: neither searched nor run again
    assert again.exit_code == 0 and "searching for" not in again.stderr, again.output


def test_what_the_user_fixed_is_left_alone() -> None:
    plan = small(fedavg={"steps": 7})
    assert study.tune_study(plan, load("digits"), "none") == plan
    assert study.tune_study(plan, load("digits"), "quick", fixed=("lr", "steps")).methods == plan.methods
    with pytest.raises(UserError, match="'fast'"):
        study.tune_study(plan, load("digits"), "fast")


def test_a_tuned_file_is_a_study(tmp_path: Path) -> None:
    import tomli_w

    plan = small()._replace(searched={"fedavg": {"level": "quick", "found": {"lr": 0.2}, "tried": []}})
    (tmp_path / "t.toml").write_text(tomli_w.dumps(study.to_settings_file(plan)))
    assert study.read_study(tmp_path / "t.toml") == plan
