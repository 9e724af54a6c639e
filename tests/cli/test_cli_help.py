"""The command line itself: help by topic, a version, suggestions, names in any case, a table as argument."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from federation_small import SMALL, python

import amsfl
from amsfl.cli.app import NAMES, parameters

QUICK = [f"--{name}={value}" for name, value in SMALL.items() if name != "method"]


def test_the_first_page_of_a_command_has_the_ten_that_people_use_first(call):
    def shown(page):
        return set(re.findall(r"│ [* ]*(--[\w-]+)", page))

    for name in ("run", "compare", "sweep", "forecast", "deploy"):
        first = call(name, "--help").stdout
        few = shown(first)
        assert len(few) == 10 and {"--rounds", "--data"} < few and "--help-all" in first, (name, few)
    everything = shown(call("deploy", "--help-all").stdout)
    assert few < everything and all(
        everything & set(names) for names, _, flag in parameters("deploy") if flag
    )


def test_every_argument_says_what_it_is():
    for name in NAMES:
        assert all(says for _, says, _ in parameters(name)), name


LIGHT = ("numpy", "pyarrow", "pandas", "scipy", "sklearn", "jax", "matplotlib")


@pytest.mark.parametrize(
    ("words", "heavy"),
    [([], LIGHT), (["run", "--data", "digits", "--rounds", "2"], LIGHT[1:])],
)
def test_commands_import_what_they_use(words, heavy, tmp_path):
    """The first page, as the package: no numbers, tables, frameworks. A small run: nothing that compiles."""
    code = f"import sys, amsfl; dir(amsfl); from amsfl.cli.app import call; call({words}); "
    code += f"print(set({heavy}) & set(sys.modules))"
    done = python("-c", code, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.endswith("set()\n"), done.stdout[-200:]


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
    from amsfl.cli.output import OTHER_NAMES

    known = {flag for name in ("run", "compare") for flags, _, _ in parameters(name) for flag in flags}
    assert set(OTHER_NAMES.values()) <= known and not set(OTHER_NAMES) & known


def test_a_table_without_data_before_it(call):
    rows = "".join(f"{row},{row % 3},{row % 2}\n" for row in range(40))
    Path("rows.csv").write_text("a,b,label\n" + rows, encoding="utf-8")
    done = call("run", "rows.csv", *QUICK, "--method=fedavg", "--rounds=1", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["data"] == "csv:rows.csv"
    twice = call("run", "rows.csv", "--data", "digits")
    assert twice.exit_code == 2 and "rows.csv" in twice.stderr and "digits" in twice.stderr


def test_a_sweep_is_a_table_and_goes_on(call, tmp_path):
    quick = ["--data=digits", *(word for word in QUICK if word[:5] != "--lr=")]
    words = ["lr=0.05,0.5", "--out=kept", "--json", *quick]
    first = call("sweep", "seed=0", *words)
    rows = json.loads(first.stdout)
    assert first.exit_code == 0, first.output
    assert [(row["lr"], row["seed"]) for row in rows] == [(0.05, 0), (0.5, 0)]
    again = call("sweep", "seed=0,1", *words)
    assert json.loads(again.stdout)[0] == rows[0] and "4 of 4 runs" in again.stderr
    assert len((tmp_path / "kept" / "sweep.csv").read_text().splitlines()) == 5
    best = call("sweep", "method=fedavg,fedprox", "seed=0,1", "--out=best", words[0], *quick)
    assert "best of fedavg: lr 0." in best.stdout and "mean of 2" in best.stdout, best.output
    study = tomllib.loads((tmp_path / "best" / "best.toml").read_text())
    assert set(study["methods"]) == {"fedavg", "fedprox"} and study["seed"] == 2
    given = ('transmit="topk:0.1,q8","q8"', "seed=0", "--json", "--lr=0.1", *quick)
    chains = call("sweep", *given, "--out=chains")
    assert [row["transmit"] for row in json.loads(chains.stdout)] == ["topk:0.1,q8", "q8"]
    for wrong in (["lr"], ["lr=0.1", "lr=0.2"], ["lrr=0.1"], ["lr=fast"], ["transmit=topk:0.1,q8"]):
        assert call("sweep", *wrong).exit_code == 2
