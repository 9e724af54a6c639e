"""Every file operation of a run, a study and a report as a crash point, and as one that the disk refuses."""

import errno
import os
import shutil

import pytest
from crashes import crash_at, everything, fail_at, operations
from record_small import resume, run, run_study

from amsfl import record
from amsfl.core import DiskError
from amsfl.record import folder


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """Flushing takes milliseconds and is counted all the same."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture
def whole(tmp_path):
    run(tmp_path / "whole")
    return everything(tmp_path / "whole")


def points(work, step=1):
    """The numbers of the operations to crash at: every few, and the last."""
    count = len(operations(work))
    return sorted({*range(0, count, step), count - 1})


@pytest.mark.parametrize("torn", [False, True])
def test_a_run_that_dies_anywhere_ends_with_the_same_bits(tmp_path, whole, torn):
    where = tmp_path / "run"
    chosen = points(lambda: run(tmp_path / "counted"))
    for number in chosen:
        crash_at(number, lambda: run(where), torn)
        if folder.holds_record(where):
            record.read_run(where)  # whatever was left, it can be read
            resume(where)
        else:  # it died before there was anything: the same command again
            run(where)
        assert everything(where) == whole, f"operation {number}"
        shutil.rmtree(where)


def test_force_leaves_the_old_run_or_the_new_one(tmp_path):
    """A run with other settings over a finished one, killed anywhere: nothing of both in one record."""
    run(tmp_path / "old")
    run(tmp_path / "new", lr=0.5)
    new, where, seen = everything(tmp_path / "new"), tmp_path / "run", set()
    shutil.copytree(tmp_path / "old", where)
    foreign = {"notes.txt": b"mine", "checkpoint-000099.safetensors": b"mine, too"}
    for number in points(lambda: run(where, force=True, lr=0.5)):
        shutil.rmtree(where)
        shutil.copytree(tmp_path / "old", where)
        for name, content in foreign.items():
            (where / name).write_bytes(content)
        crash_at(number, lambda: run(where, force=True, lr=0.5))
        try:
            found = record.read_run(where)
            lr = found.settings["lr"]
            assert all(line.lr == lr for line in found.rounds)
            seen.add(lr)
        except DiskError:
            seen.add("a sentence")  # files of the old run are gone, and the new one does not stand yet
        run(where, force=True, lr=0.5)
        assert everything(where) == new | foreign
    assert {0.1, 0.5} <= seen


def test_a_study_that_dies_anywhere_ends_with_the_same_bits(tmp_path):
    run_study(tmp_path / "whole")
    whole, where = everything(tmp_path / "whole"), tmp_path / "study"
    chosen = points(lambda: run_study(tmp_path / "counted"))
    for number in chosen:
        crash_at(number, lambda: run_study(where))
        run_study(where)
        assert everything(where) == whole, f"operation {number}"
        assert len(record.read_study(where).trials["two"]) == 3
        shutil.rmtree(where)


def test_a_disk_that_refuses_is_a_sentence_and_costs_nothing(tmp_path, whole):
    """Full, at every operation in turn."""
    where = tmp_path / "run"
    chosen = points(lambda: run(tmp_path / "counted"), 4)
    assert operations(lambda: run(tmp_path / "listed"))[-1] == ("unlink", ".amsfl-lock")
    for number in chosen[:-1]:  # the lock itself goes with the process, removed or not
        try:
            fail_at(number, errno.ENOSPC, lambda: run(where))
        except DiskError as said:
            assert "cannot be" in str(said) and said.code == 1
        else:
            raise AssertionError(f"operation {number} was refused, and nobody said so")
        assert not [path.name for path in where.glob(".*.new")], "temporary files are gone"
        if folder.holds_record(where):
            resume(where)
        else:
            run(where)
        assert everything(where) == whole, f"operation {number}"
        shutil.rmtree(where)


def test_rounds_are_on_the_disk_before_a_checkpoint_counts_on_them(tmp_path):
    """Rounds are flushed before the checkpoint is renamed, and the folder after it."""
    names = [f"{what} {name}" for what, name in operations(lambda: run(tmp_path / "run"))]
    renamed = next(i for i, name in enumerate(names) if name.startswith("replace .checkpoint.safetensors"))
    assert "fsync rounds.jsonl" in names[:renamed] and names[renamed + 1] == "fsync run"
    assert any(name.startswith("fsync .checkpoint.safetensors") for name in names[:renamed])
    assert len([name for name in names if name == "fsync rounds.jsonl"]) == 3, "not at every round"
