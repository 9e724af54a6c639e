"""The command line itself: help by topic, a version, suggestions, names in any case, a table as argument."""

import json
import tomllib
from pathlib import Path

import pytest
import typer
from federation_small import SMALL
from typer.testing import CliRunner

import amsfl
from amsfl.cli import flags
from amsfl.cli.app import app
from amsfl.settings.definitions import Serving, Simulation, Training

QUICK = [f"--{name}={value}" for name, value in SMALL.items() if name != "method"]


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words], prog_name="amsfl")


def test_every_setting_has_one_place_in_help():
    listed = [name for names in flags.PANELS.values() for name in names.split()]
    settings = {name for group in (Training, Simulation, Serving) for name in group.model_fields}
    assert len(listed) == len(set(listed)) and set(listed) == settings


def test_the_first_panel_has_the_ten_that_people_use_first():
    run = typer.main.get_command(app).commands["run"]
    first = [each.name for each in run.params if getattr(each, "rich_help_panel", None) == flags.FIRST]
    assert len(first) == 10 and {"data", "method", "rounds", "target", "out"} <= set(first)


def test_every_argument_says_what_it_is():
    for name, command in typer.main.get_command(app).commands.items():
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        assert all(each.help for each in arguments), name
        assert "\n" not in (command.help or "").replace("\n\n", ""), f"{name}: a paragraph is one line"


def test_version(call):
    shown = call("--version")
    assert shown.exit_code == 0 and shown.stdout == f"amsfl {amsfl.__version__}\n"


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (["run", "--learning-rate", "0.1"], "--lr"),
        (["run", "--local-epochs", "3"], "--epochs"),
        (["run", "--batch-size", "3"], "--batch"),
        (["run", "--round", "3"], "--rounds"),
        (["compare", "--num-clients", "3"], "--clients"),
        (["deploy", "--output", "here"], "--out"),
        (["reproduc"], "reproduce"),
        (["run", "--rounds", "many"], "amsfl run --help"),
        (["plan"], "amsfl plan --help"),
    ],
)
def test_a_wrong_word_suggests_the_right_one(call, words, suggestion):
    result = call(*words)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith("amsfl: ") and result.stderr.count("\n") == 1
    assert suggestion in result.stderr


def test_other_names_are_of_flags_that_exist():
    from amsfl.cli.errors import OTHER_NAMES

    commands = typer.main.get_command(app).commands
    known = {flag for name in ("run", "compare") for each in commands[name].params for flag in each.opts}
    assert set(OTHER_NAMES.values()) <= known and not set(OTHER_NAMES) & known


def test_methods_in_any_case(call):
    done = call("run", "--data", "digits", *QUICK, "--method", "FedAvg", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["method"] == "fedavg" and Path("runs/digits-fedavg-0").exists()


def test_a_table_without_data_before_it(call):
    rows = "".join(f"{row},{row % 3},{row % 2}\n" for row in range(40))
    Path("rows.csv").write_text("a,b,label\n" + rows, encoding="utf-8")
    done = call("run", "rows.csv", *QUICK, "--method=fedavg", "--rounds=1", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["data"] == "csv:rows.csv"
    twice = call("run", "rows.csv", "--data", "digits")
    assert twice.exit_code == 2 and "rows.csv" in twice.stderr and "digits" in twice.stderr


def test_a_sweep_is_a_table_and_goes_on(call, tmp_path):
    words = ["lr=0.05,0.5", "--out=kept", "--json", *(word for word in QUICK if word[:5] != "--lr=")]
    first = call("sweep", "seed=0", *words)
    rows = json.loads(first.stdout)
    assert first.exit_code == 0, first.output
    assert [(row["lr"], row["seed"]) for row in rows] == [(0.05, 0), (0.5, 0)]
    again = call("sweep", "seed=0,1", *words)
    assert json.loads(again.stdout)[0] == rows[0] and "4 of 4 runs" in again.stderr
    assert len((tmp_path / "kept" / "sweep.csv").read_text().splitlines()) == 5
    best = call("sweep", "method=fedavg,fedprox", "seed=0,1", "--out=best", *words[0:1], *words[3:])
    assert "best of fedavg: lr 0." in best.stdout and "mean of 2" in best.stdout, best.output
    study = tomllib.loads((tmp_path / "best" / "best.toml").read_text())
    assert set(study["methods"]) == {"fedavg", "fedprox"} and study["seed"] == 2
    chains = call("sweep", 'transmit="topk:0.1,q8","q8"', "seed=0", "--out=chains", *words[2:], "--lr=0.1")
    assert [row["transmit"] for row in json.loads(chains.stdout)] == ["topk:0.1,q8", "q8"]
    for wrong in (["lr"], ["lr=0.1", "lr=0.2"], ["lrr=0.1"], ["lr=fast"], ["transmit=topk:0.1,q8"]):
        assert call("sweep", *wrong).exit_code == 2
