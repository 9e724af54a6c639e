"""What studies share: units that are run once, tables, and the command line of every script."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from federation_small import SMALL, own_data

from amsfl.core import UserError
from amsfl.record import Lock
from amsfl.simulation import make_config

import common
from common import Table, Unit

STUDIES = Path(common.__file__).parent
SCRIPTS = sorted(path for path in STUDIES.glob("*.py") if "common.main(" in path.read_text(encoding="utf-8"))


def accuracy(config, result):
    return {"seed": config.seed, "accuracy": result.summary.accuracy}


def unit(name, **changes) -> Unit:
    configs = [make_config(SMALL | {"rounds": 1, "seed": seed} | changes) for seed in (0, 1)]
    return Unit(name, {"name": name}, configs, own_data, accuracy)


def test_finished_units_are_not_run_again(tmp_path, capsys):
    """A study that was stopped after one unit goes on with the second; other settings run a unit again."""
    common.run_units(tmp_path, [unit("first")])
    common.run_units(tmp_path, [unit("first"), unit("second")])
    assert capsys.readouterr().err.splitlines() == ["1 of 1: first", "2 of 2: second"]
    common.run_units(tmp_path, [unit("first", steps=3)])
    assert capsys.readouterr().err.splitlines() == ["1 of 1: first"]
    first, second = common.read_units(tmp_path)
    assert (first["name"], second["name"]) == ("first", "second")
    assert [trial["seed"] for trial in second["trials"]] == [0, 1]


def test_a_unit_that_another_process_runs_is_left_to_it(tmp_path):
    path = common.unit_path(tmp_path, "first")
    with Lock(tmp_path, f".{path.stem}-lock"):
        common.run_units(tmp_path, [unit("first")])
    assert not path.exists()


def test_tables_take_templates_and_functions():
    rows = [{"name": "a", "value": 1.25}, {"name": "b", "value": None}]
    show = {"who": "{name}", "value": lambda row: "never" if row["value"] is None else f"{row['value']:.1f}"}
    text = Table(show, rows, "Above", "Below").markdown()
    assert text == "Above\n\n| who | value |\n| --- | --- |\n| a | 1.2 |\n| b | never |\n\nBelow\n"


def test_results_are_kept_and_shown(tmp_path, capsys):
    out = tmp_path / "mine"
    common.present(out, [Table({"who": "{name}"}, [{"name": "a"}])], rows=[{"name": "a", "value": 2}])
    assert json.loads((out / "mine.json").read_text()) == [{"name": "a", "value": 2}]
    assert "| a |" in (out / "mine.md").read_text() and "mine.md" in capsys.readouterr().out


def test_flags_are_fields():
    chosen = common.parse(common.StudySettings, ["--seeds", "5", "--only-report", "--out", "here"])
    assert (chosen.seeds, chosen.only_report) == (5, True)
    assert chosen.out == Path("here") and chosen.every_seed() == range(100, 105)
    with pytest.raises(SystemExit):
        common.parse(common.StudySettings, ["--seeds", "one"])


def test_a_mistake_is_a_sentence(capsys):
    def refuse(settings):
        raise UserError("No.")

    with pytest.raises(SystemExit) as end:
        common.main(common.StudySettings, refuse, [])
    assert end.value.code == 2 and capsys.readouterr().err.endswith(": No.\n")


@pytest.mark.parametrize("name", [*(path.stem for path in SCRIPTS), "suite.study"])
def test_every_script_explains_its_settings(name, capsys):
    with pytest.raises(SystemExit):
        common.parse(import_module(name).Settings, ["--help"])
    shown = capsys.readouterr().out
    assert "--only-report" in shown and "--out" in shown and "python studies/" in shown


@pytest.mark.slow
def test_a_script_and_the_suite_run_as_they_stand(tmp_path):
    for script in (STUDIES / "tables.py", STUDIES / "suite"):
        command = [sys.executable, script, "--only-report", "--out", tmp_path / script.stem]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0 and ".md" in done.stdout, done.stderr
