"""Studies: settings, blocks of trials on disk, interruption, and the commands."""

import csv
import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from command_line import invoke, succeed
from study_example import settings

from amsfl.core import UserError
from amsfl.data import load
from amsfl.study import run as study_run
from amsfl.study.run import open_folder, pending
from amsfl.study.settings import read_study, with_changes


def outputs(folder):
    """Every output that holds numbers, byte by byte."""
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.suffix in (".csv", ".md", ".tex", ".json", ".svg", ".png", ".html")
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A study that nothing interrupted: three methods, two trials, each a unit of its own."""
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study_run, "CHUNK", 1)
        succeed("reproduce", "--config", settings(folder), "--out", folder / "out")
    return folder / "out"


def test_built_in_studies_are_sound():
    paper = read_study("reproduce")
    assert list(paper.methods) == ["fedavg", "scaffold", "fedprox", "fednova", "feddyn", "fedcsda", "amsfl"]
    assert paper.trials == 5 and paper.reference == "amsfl"
    for entry in paper.methods:
        config = paper.config(entry)
        assert (config.seconds, config.target, config.clients, config.stop_at_target) == (100, 0.89, 5, False)
    private = read_study("compare")._replace(run={"epsilon": 2.0})  # clients' own scores would leave then
    assert private.kind == "compare" and "models" not in private.config("amsfl").details
    same = read_study(Path("same-lr"))
    assert list(same.methods) == list(paper.methods) and paper.run.items() < same.run.items()


@pytest.mark.slow
def test_interrupted_and_continued_equals_uninterrupted(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(study_run, "CHUNK", 1)
    real, calls = study_run.run_batch, []

    def stopped(configs, dataset, watch):
        calls.append([config.seed for config in configs])
        if len(calls) != 4:
            return real(configs, dataset, watch)

        def interrupt(place, record):
            if record.round == 3:
                raise KeyboardInterrupt

        return real(configs, dataset, interrupt)

    monkeypatch.setattr(study_run, "run_batch", stopped)
    command = ("reproduce", "--config", settings(tmp_path), "--out", tmp_path / "out")
    first = invoke(*command)
    assert first.exit_code == 130 and "3 of 6 trials on record" in " ".join(first.output.split())
    assert invoke(*command).exit_code == 0
    # three units, one that was stopped, the same again, and two more: nothing finished is run twice
    assert calls == [[0], [0], [0], [1], [1], [1], [1]]
    ours, expected = outputs(tmp_path / "out"), outputs(whole)
    assert ours.keys() == expected.keys()
    assert [name for name in expected if ours[name] != expected[name]] == []


def test_trials_are_paired(whole):
    seeds, first = {}, {}
    for entry in ("fedavg", "fedcsda", "amsfl"):
        lines = [line for path in sorted((whole / "trials" / entry).iterdir()) for line in path.open()]
        trials = [json.loads(line) for line in lines]
        seeds[entry] = [trial["summary"]["seed"] for trial in trials]
        first[entry] = [trial["summary"]["local_accuracy"]["holdout"] for trial in trials]
    assert seeds["fedavg"] == seeds["fedcsda"] == seeds["amsfl"] == [0, 1]
    assert all(len(scores) == 5 for trial in first.values() for scores in trial)


@pytest.mark.usefixtures("without_figures")
def test_a_finished_study_is_not_run_again_but_grows(whole, tmp_path, monkeypatch):
    def never(*_):
        raise AssertionError("run again")

    plan = read_study(settings(tmp_path))
    with open_folder(whole, plan, load("digits")) as home:
        assert pending(home, plan) == []
        more = pending(home, plan._replace(trials=3))
    assert more == [(entry, (2,)) for entry in plan.methods]
    monkeypatch.setattr(study_run, "run_batch", never)
    assert invoke("reproduce", "--config", settings(tmp_path), "--out", whole).exit_code == 0


def test_another_study_is_not_written_over(whole, tmp_path):
    done = invoke("reproduce", "--config", settings(tmp_path, seconds=5), "--out", whole)
    assert done.exit_code == 2 and "seconds: 4.0, now 5.0" in done.output and "--force" in done.output


def test_the_record_has_the_settings_and_the_data(whole):
    resolved = tomllib.loads((whole / "study.toml").read_text(encoding="utf-8"))
    assert resolved["run"]["batch"] == 64 and resolved["data"]["name"] == "digits"


def test_times_in_the_table_are_those_of_the_curves(whole):
    """table2.csv from the records by an independent route."""
    rows = {row["method"]: row for row in csv.DictReader((whole / "table2.csv").open(encoding="utf-8"))}
    times = []
    for path in sorted((whole / "trials" / "fedavg").iterdir()):
        for line in path.open():
            trial = json.loads(line)
            times.append(trial["summary"]["seconds_to_target"] or trial["summary"]["virtual_seconds"])
    assert float(rows["FedAvg"]["seconds"]) == pytest.approx(np.mean(times), abs=0.005)


def test_a_method_of_the_users_own_goes_by_a_folders_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_for_study.py").write_text(
        'from amsfl.methods import Facts, Method\n\n\nclass thing(Method):\n    facts = Facts("thing")\n'
    )
    plan = with_changes(read_study("compare"), ["mine_for_study:thing", "fedavg"])
    assert list(plan.methods) == ["mine_for_study.thing", "fedavg"]
    assert plan.config("mine_for_study.thing").method == "mine_for_study:thing"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"methods": ["fedavgg"]}, "fedavg"),
        ({"trials": 0}, "trials is '0'"),
        ({"settings": {"seed": -1}}, "seed"),
        ({"settings": {"lr": -1.0}}, "lr"),
    ],
)
def test_mistakes_are_sentences(change, says):
    with pytest.raises(UserError, match=says):
        with_changes(read_study("compare"), **change)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[methods.fedavg]\n[run]\nseconds=1\nstepz=3", "steps"),
        ("trails = 3\n[methods.fedavg]", "trials"),
        ("[run]\nseconds=1", "names no method"),
        ("methods = ['fedavg']", "methods is"),
        ("[methods.fedavg]", "--seconds, --rounds"),
        ("title = ", "not valid TOML"),
        ("[run]\nseconds=1\nstop_at_target=true\n[methods.fedavg]", "same in every study"),
        ("[run]\nseconds=1\n[methods.fedavg]\nseed=3", "top of its file"),
        ("run = 3\n[methods.fedavg]", "run is '3'"),
        ('[run]\nseconds=1\n[methods."../../x"]\nmethod="fedavg"', "cannot name a folder"),
    ],
)
def test_mistakes_in_a_file_are_sentences(tmp_path, text, says):
    path = tmp_path / "wrong.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=says):
        read_study(path)
