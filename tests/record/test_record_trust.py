"""A record's reader decides what is run; a model belongs to its run; a finished budget stays finished."""

from pathlib import Path
from typing import Any

import pytest
from command_line import invoke

import amsfl
from amsfl import portable
from amsfl.core import DiskError, UserError
from amsfl.portable.export import export
from amsfl.record import disk

SMALL: dict[str, Any] = {
    "data": "digits",
    "method": "fedavg",
    "model": "softmax",
    "engine": "loop",
    "clients": 2,
    "steps": 2,
    "progress": False,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("home")
    amsfl.run(out=where / "a", rounds=2, **SMALL)
    amsfl.run(out=where / "b", rounds=2, seed=1, **SMALL)
    return where


def copy(home: Path, name: str, to: Path) -> Path:
    to.mkdir()
    for file in (home / name).iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to


@pytest.mark.parametrize("name", ["model.safetensors", "model.json", "MODEL.md", "model-best.safetensors"])
def test_a_model_of_another_run_is_noticed(home: Path, tmp_path: Path, name: str) -> None:
    where = copy(home, "a", tmp_path / "run")
    for file in ("model.safetensors", "model.json", "model-best.safetensors", "MODEL.md"):
        (where / file).write_bytes((home / "b" / file).read_bytes())
    with pytest.raises(DiskError, match="another run's"):
        portable.load(where)
    where = copy(home, "a", tmp_path / "gone")
    (where / name).unlink()
    with pytest.raises(UserError, match=r"is gone|holds no model"):
        portable.load(where)
    where = copy(home, "a", tmp_path / "edited")
    (where / name).write_bytes((where / name).read_bytes() + b" ")
    with pytest.raises(DiskError, match="was changed"):
        portable.load(where)


def test_the_best_model_is_that_or_none(home: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'best' and the 'last'"):
        portable.load(home / "a", "first")
    export(portable.load(home / "a"), "sklearn", tmp_path / "export")
    with pytest.raises(UserError, match="holds no best model"):
        portable.load(tmp_path / "export", "best")


@pytest.mark.parametrize("ending", [{"megabytes": 0.011}, {"stop_after": 1, "lr": 1e-9}])
def test_resume_keeps_to_a_finished_budget(tmp_path: Path, ending: dict[str, Any]) -> None:
    first = amsfl.run(out=tmp_path / "run", rounds=30, **SMALL | ending)
    assert 0 < len(first.rounds) < 30
    before = (tmp_path / "run" / "rounds.jsonl").read_bytes()
    again = amsfl.resume(tmp_path / "run", progress=False)
    assert len(again.rounds) == len(first.rounds)
    assert (tmp_path / "run" / "rounds.jsonl").read_bytes() == before


def test_a_record_cannot_choose_what_is_run(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record with a method of a module in the current folder: no reader imports it."""
    where = copy(home, "a", tmp_path / "run")
    (tmp_path / "evilm.py").write_text("open('ran', 'w').close()\nevil = None\n")
    monkeypatch.chdir(tmp_path)
    manifest = disk.unseal((where / "record.json").read_bytes())
    manifest["settings"] |= {"method": "evilm:evil", "round_end": "evilm:evil"}
    (where / "record.json").write_bytes(disk.seal(manifest))
    for command in (["resume", "run"], ["explain", "run", "--leaves"], ["calibrate", "run"]):
        done = invoke(*command)
        assert done.exit_code != 0 or command[0] == "calibrate", command  # which asks for neither
        assert not (tmp_path / "ran").exists(), command
