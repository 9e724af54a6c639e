"""The record folder: written as the run goes, readable when killed, continued to the same bits."""

import json
import signal
import tomllib
from pathlib import Path

import numpy as np
import pytest
from federation_small import SMALL, own_data, python
from safetensors.numpy import load_file

import amsfl
from amsfl.core import UserError
from amsfl.data import load
from amsfl.federation import folder, make_config


@pytest.fixture(scope="module")
def digits():
    return load("digits")


class Stop(Exception):
    pass


def stop_after(number):
    def watch(record):
        if record.round == number:
            raise Stop

    return watch


def content(where: Path) -> dict[str, object]:
    """All that a folder holds, less what depends on the machine's speed."""
    found: dict[str, object] = {path.name: path.read_bytes() for path in where.glob("checkpoint*")}
    found["config"] = (where / "config.toml").read_bytes()
    for name in ("rounds.jsonl", "summary.json"):
        text = (where / name).read_text()
        whole = [text] if name == "summary.json" else text.splitlines()
        found[name] = [{k: v for k, v in json.loads(part).items() if k != "wall"} for part in whole]
    return found


STATEFUL = SMALL | {"method": "scaffold", "cohort": 3, "rounds": 7, "checkpoint_every": 2}


@pytest.fixture(scope="module")
def whole(digits, tmp_path_factory):
    where = tmp_path_factory.mktemp("whole") / "run"
    amsfl.run(dataset=digits, out=where, **STATEFUL)
    return where


def test_what_is_in_the_folder(whole):
    """Plain formats, each readable by its own library, and nothing else."""
    names = {path.name for path in whole.iterdir()}
    arrays = "checkpoint-000007.safetensors"
    assert names == {"config.toml", "rounds.jsonl", "checkpoint.json", arrays, "summary.json"}
    config = tomllib.loads((whole / "config.toml").read_text())
    assert config["method"] == "scaffold" and config["partition"] == "auto"
    assert make_config(config) == make_config(STATEFUL | {"data": "digits"})
    rounds = [json.loads(line) for line in (whole / "rounds.jsonl").read_text().splitlines()]
    assert [line["round"] for line in rounds] == list(range(1, 8))
    for line in rounds:
        assert {"seconds", "metrics", "cohort", "steps", "lr", "plan", "wall"} <= set(line)
    tensors = load_file(whole / arrays)
    assert tensors["anchor"].shape == (1, 650) and tensors["client"].shape == (1, 5, 650)
    assert json.loads((whole / "summary.json").read_text())["rounds"] == 7


@pytest.mark.parametrize("number", [1, 2, 3, 6, 7])
def test_stopped_anywhere_and_resumed(digits, whole, tmp_path, number):
    """Before the first checkpoint, at one, between two, at the last round."""
    where = tmp_path / "run"
    with pytest.raises(Stop):
        amsfl.run(dataset=digits, out=where, watch=stop_after(number), **STATEFUL)
    assert len(list(folder.read_rounds(where))) == number
    amsfl.resume(where, dataset=digits)
    assert content(where) == content(whole)


def test_resuming_what_has_ended_changes_nothing(digits, whole):
    before = content(whole)
    result = amsfl.resume(whole, dataset=digits)
    assert content(whole) == before and len(result.rounds) == 7


def test_a_half_written_line_is_passed_over(digits, whole, tmp_path):
    where = tmp_path / "run"
    with pytest.raises(Stop):
        amsfl.run(dataset=digits, out=where, watch=stop_after(5), **STATEFUL)
    lines = (where / "rounds.jsonl").read_bytes()
    (where / "rounds.jsonl").write_bytes(lines[:-40])
    assert [record.round for record in folder.read_rounds(where)] == [1, 2, 3, 4]
    amsfl.resume(where, dataset=digits)
    assert content(where) == content(whole)


@pytest.fixture
def half(digits, tmp_path):
    """A run stopped after round 3, its checkpoint at round 2."""
    with pytest.raises(Stop):
        amsfl.run(dataset=digits, out=tmp_path / "half", watch=stop_after(3), **STATEFUL)
    return tmp_path / "half"


def test_damage_is_a_sentence(half, digits):
    """Each in turn: a line, missing rounds, the pointer, the arrays. Nothing is resumed from any of them."""
    lines, pointer, arrays = (
        half / name for name in ("rounds.jsonl", "checkpoint.json", "checkpoint-000002.safetensors")
    )
    good = {path: path.read_bytes() for path in (lines, pointer, arrays)}
    damage = [
        (
            lines,
            b"\n".join([good[lines].split(b"\n")[0][:-9], *good[lines].split(b"\n")[1:]]),
            "line 1, is damaged",
        ),
        (lines, good[lines].split(b"\n")[0] + b"\n", "a checkpoint of round 2 but 1 rounds on record"),
        (pointer, good[pointer][:-30], "is damaged"),
        (pointer, b"[]", "is damaged"),
        (
            arrays,
            good[arrays][:-1] + b"\x00",
            "checkpoint-000002.safetensors in .* is damaged: start again with",
        ),
        (arrays, good[arrays][:100], "is damaged: start again with 'amsfl run --config .* --force'"),
        (arrays, None, "is damaged .*No such file"),
    ]
    for path, spoiled, sentence in damage:
        path.unlink() if spoiled is None else path.write_bytes(spoiled)
        with pytest.raises(UserError, match=sentence):
            amsfl.resume(half, dataset=digits)
        path.write_bytes(good[path])
    amsfl.resume(half, dataset=digits)


def test_a_run_is_never_overwritten_without_force(half, digits):
    before = {path.name: path.read_bytes() for path in half.iterdir()}
    with pytest.raises(UserError, match="already holds a run; choose another --out, continue it with"):
        amsfl.run(dataset=digits, out=half, **SMALL)
    assert {path.name: path.read_bytes() for path in half.iterdir()} == before
    (half / "config.toml").unlink()  # rounds alone are a run, too
    with pytest.raises(UserError, match="already holds a run"):
        amsfl.run(dataset=digits, out=half, **SMALL)
    amsfl.run(dataset=digits, out=half, force=True, **SMALL)
    assert {path.name for path in half.glob("checkpoint-*")} == {"checkpoint-000004.safetensors"}
    assert [record.round for record in folder.read_rounds(half)] == [1, 2, 3, 4]


def test_a_resumed_run_wants_what_it_began_with(half, digits):
    changed = digits._replace(x=digits.x.copy())
    changed.x[5, 5] += 1
    with pytest.raises(UserError, match=r"The run began with checksum .* give it the same data and model"):
        amsfl.resume(half, dataset=changed)
    with pytest.raises(UserError, match="began with data 'digits' and would continue with 'other'"):
        amsfl.resume(half, dataset=digits._replace(name="other"))
    settings = (half / "config.toml").read_text()
    (half / "config.toml").write_text(settings.replace('model = "softmax"', 'model = "mlp:4"'))
    with pytest.raises(UserError, match="began with model 'softmax' and would continue with 'mlp:4'"):
        amsfl.resume(half, dataset=digits)


def test_your_own_data_must_be_given_again(tmp_path):
    """The folder does not hold it; without it, resume says so instead of taking other data."""
    where = tmp_path / "run"
    with pytest.raises(Stop):
        amsfl.run(dataset=own_data(), out=where, watch=stop_after(2), **SMALL)
    with pytest.raises(UserError, match="Unknown data 'mine'"):
        amsfl.resume(where)
    assert amsfl.resume(where, dataset=own_data()).summary["rounds"] == 4


def test_no_run_there(tmp_path):
    with pytest.raises(UserError, match=r"holds no run: it has no config\.toml"):
        amsfl.resume(tmp_path)


def test_strict_json():
    """Not-a-numbers become null at any depth; everything else stays."""
    value = {"a": [1.5, float("nan"), (float("inf"), "x", None, True)], "b": {"c": -float("inf"), "d": 2}}
    assert json.loads(folder.as_json(value)) == {
        "a": [1.5, None, [None, "x", None, True]],
        "b": {"c": None, "d": 2},
    }


KILLED = """
import os, signal, sys
import amsfl

def watch(record):
    if record.round == 7:
        os.kill(os.getpid(), signal.SIGKILL)

amsfl.run(out=sys.argv[1], watch=watch if sys.argv[2] == "kill" else None, method="amsfl", data="digits",
          model="softmax", clients=5, cohort=4, rounds=12, batch=16, checkpoint_every=3, profile="wild")
"""


def test_kill_minus_nine_then_resume(tmp_path):
    """A process that dies by SIGKILL in round 8 of 12, its last checkpoint at round 6: the record is
    readable, and `amsfl resume` ends with the bits of a run that was left alone."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert python("-c", KILLED, str(whole), "live").returncode == 0
    assert python("-c", KILLED, str(killed), "kill").returncode == -signal.SIGKILL
    assert [record.round for record in folder.read_rounds(killed)] == list(range(1, 8))
    assert folder.load_checkpoint(killed).round == 6 and not (killed / "summary.json").exists()
    done = python("-c", "from amsfl.cli import main; main()", "resume", str(killed), "--json")
    assert done.returncode == 0, done.stderr
    assert content(killed) == content(whole)
    printed, kept = json.loads(done.stdout), json.loads((whole / "summary.json").read_text())
    assert {k: v for k, v in printed.items() if k != "wall"} == {k: v for k, v in kept.items() if k != "wall"}
    arrays = load_file(whole / "checkpoint-000012.safetensors")
    assert np.isfinite(arrays["anchor"]).all() and arrays["server"].shape == (1, 650)
