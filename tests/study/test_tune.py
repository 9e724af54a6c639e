"""The search before a comparison; results that are kept are of the files that settings name."""

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import invoke, succeed

import amsfl
from amsfl import record
from amsfl.core import UserError
from amsfl.data import load
from amsfl.methods import Facts, Method
from amsfl.settings.parse import refuse_recorded_code
from amsfl.simulation import run_batch
from amsfl.study import tune
from amsfl.study.run import open_folder
from amsfl.study.settings import Study, study_of
from amsfl.study.tune import tune_study

SMALL = {"data": "digits", "model": "softmax", "seconds": 2.0, "clients": 3, "engine": "loop"}


def small(trials: int = 3, **methods: dict[str, object]) -> Study:
    return Study("small", "compare", trials, 0, "fedavg", SMALL, methods or {"fedavg": {}})


def test_only_who_needs_it_is_searched_for() -> None:
    plan = small(fedavg={}, amsfl={}, planned={"method": "fedavg", "policy": "price"})
    assert tune.keys_to_search(plan, "fedavg") == ["lr", "steps"]
    assert tune.keys_to_search(plan, "amsfl") == []
    assert tune.keys_to_search(plan, "planned") == ["lr"]


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
    done = succeed(*command)
    assert "steps for fedavg" in done.stderr and "steps for amsfl" not in done.stderr
    found = record.read_study(out)
    told = found.settings["searched"]
    assert list(told) == ["fedavg"] and told["fedavg"]["tried"][0]["lr"] == 1e-6
    best, tried = told["fedavg"]["found"], told["fedavg"]["tried"]
    assert [each["part"] for each in tried] == 7 * [0.125] + 4 * [0.25] + 2 * [0.5]
    assert found.settings["methods"]["fedavg"]["lr"] == best["lr"] > 1e-6
    assert best["lr"] == max(tried[-2:], key=lambda each: each["accuracy"])["lr"]
    scores = [trial.summary.accuracy for trial in found.trials["fedavg"]]
    assert np.mean(scores) > 0.3
    notes = json.loads((out / "summary.json").read_text())["notes"]
    assert any("Settings were searched before the trials" in note for note in notes)
    again = invoke(*command)  # on record: neither searched nor run again
    assert again.exit_code == 0 and "searching" not in again.stderr, again.output


def test_what_the_user_fixed_is_left_alone() -> None:
    plan = small(fedavg={"steps": 7})
    assert tune_study(plan, load("digits"), "none") == plan
    assert tune_study(plan, load("digits"), "quick", fixed=("lr", "steps")).methods == plan.methods
    with pytest.raises(UserError, match="'fast'"):
        tune_study(plan, load("digits"), "fast")


SETTINGS = {"data": "digits", "model": "softmax", "clients": 2, "rounds": 1, "steps": 1, "details": ""}
SETTINGS |= {"engine": "loop"}
CODE = "from amsfl.methods import Facts, Method\n\n\nclass mine(Method):\n    facts = Facts('mine')\n"


def speeds(file: Path, seconds: float) -> str:
    file.write_text("step_seconds,latency\n" + f"{seconds},0\n" * 2)
    return str(file)


def test_a_sweep_is_run_again_where_the_speeds_are_others(tmp_path: Path) -> None:
    table = tmp_path / "speeds.csv"

    def swept(seconds: float) -> float:
        over = amsfl.sweep(
            {"seed": [0]}, out=tmp_path / "out", method="fedavg", profile=speeds(table, seconds), **SETTINGS
        )
        return float(over["virtual_seconds"][0])

    assert swept(1.0) + 2 * 9.0 == pytest.approx(swept(10.0))  # the sum clock: one step each


def test_every_way_to_read_a_table_is_swept(tmp_path: Path) -> None:
    """A 9 that means a gap makes another table than a 9 that is a number."""
    table = tmp_path / "rows.csv"
    table.write_text("a,label\n" + "".join(f"{n % 10},{'yes' if n % 3 else 'no'}\n" for n in range(60)))
    fixed = SETTINGS | {"data": str(table), "label": "label", "method": "fedavg", "steps": 5}
    swept = amsfl.sweep({"missing": ["", "9"]}, **fixed)
    alone = [amsfl.run(missing=missing, **fixed).summary.metrics["holdout"]["loss"] for missing in ("", "9")]
    assert swept["holdout_loss"].tolist() == alone and alone[0] != alone[1]


def test_a_clock_with_another_round_end_is_a_batch_of_its_own() -> None:
    """By the clock `sum` FedBuff waits for all, by `makespan` it does not."""
    fixed = SETTINGS | {"clients": 4, "rounds": 3, "method": "fedbuff"}
    swept = amsfl.sweep({"clock": ["sum", "makespan"]}, **fixed)
    alone = [amsfl.run(clock=clock, **fixed).summary.virtual_seconds for clock in ("sum", "makespan")]
    assert swept["virtual_seconds"].tolist() == alone
    with pytest.raises(UserError, match="batches of their own"):
        run_batch([fixed | {"clock": clock} for clock in ("sum", "makespan")])


def test_two_objects_of_one_name_are_not_one_run() -> None:
    class Plain(Method):
        facts = Facts("mine")

    class Slow(Plain):
        def correct(self, grad, *_):
            return 0.01 * grad

    with pytest.raises(UserError, match="different names"):
        amsfl.sweep({"method": [Plain(), Slow()]}, **SETTINGS)


@pytest.mark.parametrize("changed", ["tmp_own_rule.py", "there.csv"])
def test_a_study_does_not_go_on_with_other_files(
    changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("tmp_own_rule.py").write_text(CODE)
    Path("there.csv").write_text("client,from,to\n0,0,9\n1,0,9\n")
    raw = {
        "run": SETTINGS | {"availability": "there.csv"},
        "methods": {"own": {"method": "tmp_own_rule:mine"}},
    }
    one, data = study_of(raw, Path("study.toml")), load("digits")
    for _ in range(2):
        with open_folder(tmp_path / "out", one, data):
            pass
    Path(changed).write_text(Path(changed).read_text().replace("9", "8") + "\n")
    with pytest.raises(UserError, match="other settings"):
        open_folder(tmp_path / "out", one, data)


@pytest.mark.parametrize("value", ["mine:rule", "mine:rule:0.5", "cap:0.1,mine:rule:0.5/2", "mine:inf"])
def test_a_record_chooses_no_code_with_numbers_behind_it(value: str) -> None:
    with pytest.raises(UserError, match="must not"):
        refuse_recorded_code({"robust": value})
    refuse_recorded_code({"robust": "cap:0.1,clip"})
