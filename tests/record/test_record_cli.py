"""What a user sees of the record: runs that go further, folders that are taken, disks that refuse."""

import json
from pathlib import Path

import pytest
from command_line import refused
from crashes import everything
from federation_small import SMALL

import amsfl
from amsfl import record
from amsfl.core import UserError
from amsfl.data import load
from amsfl.record import disk
from amsfl.simulation import provenance
from amsfl.study.run import open_folder
from amsfl.study.settings import read_study

QUICK = ["--data", "digits", "--model", "softmax", "--method", "fedavg", "--engine", "loop", "--steps", "2"]


def rounds(where: str) -> list[dict[str, object]]:
    found = [json.loads(line) for line in Path(where, "rounds.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if key not in ("wall", "crc")} for row in found]


def test_a_run_goes_further(call):
    """Longer by rounds: as if it had been asked for at once, and the change is on record."""
    assert call("run", *QUICK, "--rounds", 3, "--out", "a").exit_code == 0
    done = call("resume", "a", "--rounds", 6, "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["rounds"] == 6
    assert call("run", *QUICK, "--rounds", 6, "--out", "b").exit_code == 0
    assert rounds("a") == rounds("b")
    kept = record.read_run(Path("a"))
    assert kept.manifest.changed == [{"round": 3, "rounds": [3, 6]}] and kept.settings["rounds"] == 6
    assert "rounds = 6" in Path("a/config.toml").read_text()


def test_a_run_does_not_get_shorter_than_it_is(call):
    assert call("run", *QUICK, "--rounds", 3, "--out", "a").exit_code == 0
    before = everything(Path("a"))
    refused(call("resume", "a", "--rounds", 2), "3 rounds on record")
    assert everything(Path("a")) == before
    assert call("resume", "a", "--rounds", 3).exit_code == 0


def test_a_report_that_broke_off_is_made_again(tmp_path, monkeypatch):
    """As on a full disk: the second file cannot be written."""
    with monkeypatch.context() as broken, pytest.raises(OSError, match="full"):
        write = disk.write_atomically

        def until_full(path, content, *mode):
            if path.name == "page":
                raise OSError("full")
            write(path, content, *mode)

        broken.setattr(disk, "write_atomically", until_full)
        record.publish(tmp_path, {"table": b"1", "page": b"2"})
    record.publish(tmp_path, {"table": b"1", "page": b"2"})
    assert (tmp_path / "page").read_bytes() == b"2"


def test_an_ended_run_that_is_resumed_keeps_its_summary(call):
    call("run", *QUICK, "--rounds", 2, "--out", "a")
    before = everything(Path("a"))
    assert call("resume", "a").exit_code == 0
    assert everything(Path("a")) == before, "also its times"


@pytest.mark.parametrize("name", ["x" * 300, "y" * 5000, "file/deeper"])
def test_an_impossible_folder_is_a_sentence(call, name):
    Path("file").write_text("")
    refused(call("run", *QUICK, "--rounds", 1, "--out", name), "cannot be", 1)


def test_another_layout_is_not_resumed_on_scrambled_weights(call, monkeypatch):
    """The same number of weights in another order, as an amsfl before this one stored them."""
    digits = load("digits")
    settings = SMALL | {"model": "mlp:8", "checkpoint_every": 1}

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        amsfl.run(dataset=digits, out="a", watch=stop, **settings)
    from amsfl.engines import models

    monkeypatch.setattr(models, "flips", lambda count: [False] * count)
    with pytest.raises(UserError, match=r"The run began with (layout|first model)"):
        amsfl.resume("a", dataset=digits)


def test_another_machine_is_said_and_goes_on_record(call, monkeypatch):
    """A jax of another version need not give the same bits: refused, unless the user says so."""
    settings = SMALL | {"checkpoint_every": 1}
    amsfl.run(data="digits", out="a", **settings)
    was = provenance.versions()
    monkeypatch.setattr(provenance, "versions", lambda: was | {"jax": "9.9"})
    refused(
        call("resume", "a", "--rounds", 6),
        r"began with jax '[\d.]+' and would continue with '9\.9'.*--anyway",
    )
    assert call("resume", "a", "--rounds", 6, "--anyway").exit_code == 0
    changed = record.read_run(Path("a")).manifest.changed
    assert changed == [{"round": 4, "jax": [was["jax"], "9.9"], "rounds": [4, 6]}]


def test_one_study_at_a_time(call, tmp_path):
    Path("s.toml").write_text('[run]\ndata = "digits"\nrounds = 1\n[methods.fedavg]\n')
    plan, digits = read_study(Path("s.toml")), load("digits")
    busy = pytest.raises(UserError, match=r"'out' is being written by process \d+ on")
    with open_folder(Path("out"), plan, digits), busy:
        open_folder(Path("out"), plan, digits)
    left = [
        Path("out/.study.toml.4711-0a0b0c0d.new"),
        Path("out/.study.toml.mine.new"),
        Path("out/.record.json.1-b2b2b2b2.new"),
    ]
    for path in left:
        path.write_text("half")
    open_folder(Path("out"), plan, digits).lock.release()
    assert [path.exists() for path in left] == [False, True, False], "of a killed process, and nobody else's"
    changed = digits._replace(y=digits.y[::-1].copy())
    with pytest.raises(UserError, match=r"holds a study with other settings .*labels"):
        open_folder(Path("out"), plan, changed)
    refused(call("run", *QUICK, "--out", "out"), "holds a study; continue it with the command that began it")
