"""The record folder: written as the run goes, readable when killed, continued to the same bits."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from federation_small import SMALL, own_data
from safetensors.numpy import load_file

import amsfl
from amsfl.core import Remark, UserError
from amsfl.record import dumps, read_run
from amsfl.simulation import make_config


class Stop(Exception):
    pass


def stop_after(number):
    def watch(record):
        if record.round == number:
            raise Stop

    return watch


SPEED = ("wall", "crc")  # a line's checksum covers its times


def content(where: Path) -> dict[str, object]:
    """All that a folder holds, less what depends on the machine's speed."""
    found: dict[str, object] = {path.name: path.read_bytes() for path in where.glob("checkpoint*")}
    found |= {name: (where / name).read_bytes() for name in ("config.toml", "record.json")}
    for name in ("rounds.jsonl", "summary.json"):
        text = (where / name).read_text()
        whole = [text] if name == "summary.json" else text.splitlines()
        found[name] = [{k: v for k, v in json.loads(part).items() if k not in SPEED} for part in whole]
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
    model = {"model.safetensors", "model-best.safetensors", "model.json", "MODEL.md"}
    record = {"record.json", "config.toml", "rounds.jsonl", "checkpoint.safetensors", "summary.json"}
    assert names == record | model
    config = tomllib.loads((whole / "config.toml").read_text())
    assert config["method"] == "scaffold" and config["partition"] == "auto"
    assert make_config(config) == make_config(STATEFUL | {"data": "digits"})
    rounds = [json.loads(line) for line in (whole / "rounds.jsonl").read_text().splitlines()]
    assert [line["round"] for line in rounds] == list(range(1, 8))
    for line in rounds:
        assert {"seconds", "metrics", "cohort", "steps", "lr", "plan", "wall"} <= set(line)
    tensors = load_file(whole / "checkpoint.safetensors")
    assert tensors["anchor"].shape == (650,) and tensors["client"].shape == (5, 650)
    assert json.loads((whole / "summary.json").read_text())["rounds"] == 7


@pytest.mark.parametrize("number", [1, 2, 3, 6, 7])
def test_stopped_anywhere_and_resumed(digits, whole, tmp_path, number):
    """Before the first checkpoint, at one, between two, at the last round."""
    where = tmp_path / "run"
    with pytest.raises(Stop):
        amsfl.run(dataset=digits, out=where, watch=stop_after(number), **STATEFUL)
    assert len(read_run(where).rounds) == number
    amsfl.resume(where, dataset=digits)
    assert content(where) == content(whole)


# no lr and no steps: clients find the one, and the other are planned
PLANNED = {name: value for name, value in SMALL.items() if name not in ("lr", "steps")}
PLANNED |= {"method": "amsfl", "profile": "wild", "cohort": 4, "clients": 5, "checkpoint_every": 2}


def test_amsfl_stopped_half_way_and_resumed(digits, tmp_path):
    """Server state, the planner's memory, the judge's, the rate and clients' last gradients all come back."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    amsfl.run(dataset=digits, out=whole, **PLANNED | {"rounds": 8})
    with pytest.raises(Stop):
        amsfl.run(dataset=digits, out=parts, watch=stop_after(4), **PLANNED | {"rounds": 8})
    amsfl.resume(parts, dataset=digits)
    assert content(parts) == content(whole)


WAITING = {"profile": "wild", "clock": "makespan", "clients": 5, "checkpoint_every": 3}
PART = {"cohort": 4, "clients": 9}
CHAIN = {"robust": "cap:0.2,voices,trust:1,median", "attack": "mimic:1"}


@pytest.mark.parametrize(
    "changes",
    [
        {"availability": "chain:2,1", "jitter": 0.3, "failure": 0.2, "steps": 5},
        {"availability": "chain:3,1", "jitter": 0.3, "round_end": "buffer:2", "steps": 5, **PART},
        {"method": "fedcompass", "availability": "chain:3,1", "failure": 0.1, "steps": 10},
        {"round_end": "quorum:3"},
        {"round_end": "quorum:2,drop", **PART},
        {"round_end": "deadline:0.2", "method": "amsfl-steps"},  # AMSFL cools by the end that it knows of
        {"round_end": "buffer:2", "transmit": "topk:0.5", **PART},
        pytest.param({"round_end": "buffer:2", "engine": "jax"}, marks=pytest.mark.slow),
        {"clock": "sum", **CHAIN},
        {"round_end": "buffer:2", **CHAIN},
    ],
)
def test_a_run_made_longer_has_the_same_bits(tmp_path, changes):
    """Four rounds, then nine, are nine: models, plans, who was away, what a rule or a buffer remembers."""
    settings = {"dataset": own_data(120), **SMALL, **WAITING, **changes}
    whole = amsfl.run(**settings | {"rounds": 9}, out=tmp_path / "whole")
    amsfl.run(**settings | {"rounds": 4}, out=tmp_path / "parts")
    again = amsfl.resume(tmp_path / "parts", dataset=own_data(120), rounds=9)
    np.testing.assert_array_equal(again.params, whole.params)
    assert [r._replace(wall={}) for r in again.rounds] == [r._replace(wall={}) for r in whole.rounds]


def test_what_the_target_took_is_kept_by_a_resumed_run(digits, tmp_path):
    """Joules and megabytes, too."""
    settings = {"method": "fedavg", "clients": 5, "profile": "battery", "rounds": 6, "engine": "loop"}
    shared = {"dataset": digits, "target": 0.2, **settings}
    once = amsfl.run(**shared).summary
    amsfl.run(**shared | {"rounds": 5}, out=tmp_path / "short")
    again = amsfl.resume(tmp_path / "short", dataset=digits, rounds=6).summary
    named = ("rounds_to_target", "joules_to_target", "megabytes_to_target", "seconds_to_target")
    assert once.rounds_to_target <= 5 and once.joules_to_target > 0
    assert all(getattr(again, name) == getattr(once, name) for name in named)


@pytest.fixture
def half(digits, tmp_path):
    """A run stopped after round 3, its checkpoint at round 2."""
    with pytest.raises(Stop):
        amsfl.run(dataset=digits, out=tmp_path / "half", watch=stop_after(3), **STATEFUL)
    return tmp_path / "half"


def test_a_resumed_run_wants_what_it_began_with(half, digits):
    """Rows, labels, what it is judged by, who owns what, how fast clients are: all of it, by its checksum."""

    def changed(**parts):
        return digits._replace(**parts)

    x = digits.x.copy()
    x[5, 5] += 1
    holdout, labels = digits.evals["holdout"]
    others = {
        "training rows": changed(x=x),
        "labels": changed(y=np.where(digits.y < 2, 1 - digits.y, digits.y).astype(digits.y.dtype)),
        "evaluation rows": changed(evals={"holdout": (-holdout, labels)}),
        "data 'digits'": changed(name="other"),
        "classes": changed(classes=digits.classes[::-1]),
    }
    for what, data in others.items():
        with pytest.raises(
            UserError, match=f"The run began with {what} .*(would continue with|cannot go on with)"
        ):
            amsfl.resume(half, dataset=data)


def test_settings_that_were_edited_are_noticed(half, digits):
    """A run keeps those that it began with, says so, and writes them again."""
    config = half / "config.toml"
    was = config.read_text()
    assert "steps = " in was
    config.write_text(was.replace("steps = ", "steps = 1"))
    with pytest.warns(Remark, match="was edited: a record keeps the settings it began with"):
        assert amsfl.resume(half, dataset=digits).summary.rounds == 7
    assert config.read_text() == was


def test_a_profile_that_changed_is_noticed(tmp_path, digits):
    table = "step_seconds,latency,up_mbps,down_mbps\n" + "0.01,0.05,20,20\n" * 5
    (tmp_path / "fast.csv").write_text(table)
    settings = SMALL | {"profile": str(tmp_path / "fast.csv")}
    with pytest.raises(Stop):
        amsfl.run(dataset=digits, out=tmp_path / "run", watch=stop_after(2), **settings)
    (tmp_path / "fast.csv").write_text(table.replace("0.01", "0.9"))
    with pytest.raises(UserError, match=r"The run began with .*fast\.csv"):
        amsfl.resume(tmp_path / "run", dataset=digits)


def test_your_own_data_must_be_given_again(tmp_path):
    """The folder does not hold it; without it, resume says so instead of taking other data."""
    where = tmp_path / "run"
    with pytest.raises(Stop):
        amsfl.run(dataset=own_data(), out=where, watch=stop_after(2), **SMALL)
    with pytest.raises(UserError, match="Unknown data 'mine'"):
        amsfl.resume(where)
    assert amsfl.resume(where, dataset=own_data()).summary.rounds == 4


def test_strict_json():
    """Not-a-numbers become null at any depth; everything else stays."""
    value = {"a": [1.5, float("nan"), (float("inf"), "x", None, True)], "b": {"c": -float("inf"), "d": 2}}
    assert json.loads(dumps(value)) == {"a": [1.5, None, [None, "x", None, True]], "b": {"c": None, "d": 2}}
