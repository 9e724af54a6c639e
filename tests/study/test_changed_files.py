"""Results that are kept are of the files that settings name: speeds, traces, code of the user's own."""

from pathlib import Path

import pytest

import amsfl
from amsfl.core import UserError
from amsfl.data import load
from amsfl.methods import Facts, Method
from amsfl.settings.parse import refuse_recorded_code
from amsfl.simulation import run_batch
from amsfl.study import store
from amsfl.study.settings import study_of

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
        with store.open_folder(tmp_path / "out", one, data):
            pass
    Path(changed).write_text(Path(changed).read_text().replace("9", "8") + "\n")
    with pytest.raises(UserError, match="other settings"):
        store.open_folder(tmp_path / "out", one, data)


@pytest.mark.parametrize("value", ["mine:rule", "mine:rule:0.5", "cap:0.1,mine:rule:0.5/2", "mine:inf"])
def test_a_record_chooses_no_code_with_numbers_behind_it(value: str) -> None:
    with pytest.raises(UserError, match="must not"):
        refuse_recorded_code({"robust": value})
    refuse_recorded_code({"robust": "cap:0.1,clip"})
