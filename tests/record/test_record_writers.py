"""One writer a folder, by a lock that survives crashes; kills at any moment; limits of a real system."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from crashes import everything
from federation_small import python
from record_small import resume, run

from amsfl import record
from amsfl.core import UserError
from amsfl.record.folder import LOCK
from amsfl.record.run import load_checkpoint

HERE = str(Path(__file__).parents[1] / "helpers")
HOLD = """
import sys, time
from pathlib import Path
from record_small import manifest
from amsfl import record
with record.create(Path(sys.argv[1]), manifest()) as writer:
    print("held", flush=True)
    time.sleep(60)
"""
RACE = """
import sys, time
from pathlib import Path
from record_small import manifest, go
from amsfl import record
from amsfl.core import UserError
time.sleep(max(0, float(sys.argv[2]) - time.time()))
try:
    with record.create(Path(sys.argv[1]), manifest()) as writer:
        time.sleep(0.5)
        go(writer, 0)
    print("won")
except UserError as said:
    print(said)
"""
LONG = """
import sys
from pathlib import Path
from record_small import manifest, resume, run
where = Path(sys.argv[1])
print("begun", flush=True)
resume(where) if (where / "record.json").exists() else run(where, rounds=400)
"""


def start(code: str, *arguments: object) -> "subprocess.Popen[str]":
    path = os.pathsep.join([HERE, str(Path(record.__file__).parents[2])])
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path})


def test_a_second_writer_is_told_who_the_first_is(tmp_path):
    where = tmp_path / "run"
    first = start(HOLD, where)
    try:
        assert first.stdout.readline() == "held\n"
        for second in (lambda: record.reopen(where, "run"), lambda: run(where, force=True)):
            with pytest.raises(UserError, match=rf"is being written by process {first.pid} on \S+ since"):
                second()
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert (where / LOCK).exists(), "a killed process leaves its text behind"
    resume(where)  # and it is no obstacle
    assert not (where / LOCK).exists()


def test_writers_replace_neither_devices_nor_what_a_link_leads_to(tmp_path):
    """A pipe and a device are written into; a link becomes a file, and the file that it named stays."""
    own, pipe, link = tmp_path / "own", tmp_path / "pipe", tmp_path / "link"
    own.write_bytes(b"mine")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    record.write_atomically(pipe, b"through")
    assert os.read(reader, 100) == b"through" and pipe.is_fifo()
    os.close(reader)
    link.symlink_to(own)
    record.write_atomically(link, b"other")
    assert link.read_bytes() == b"other" and own.read_bytes() == b"mine"
    record.write_atomically(Path(os.devnull), b"gone")
    assert Path(os.devnull).is_char_device()


def test_of_many_that_begin_at_once_one_wins(tmp_path):
    many = [start(RACE, tmp_path / "run", time.time() + 2) for _ in range(3)]
    said = [process.communicate(timeout=60)[0] for process in many]
    assert sorted(said)[-1] == "won\n" and said.count("won\n") == 1
    others = [line for line in said if line != "won\n"]
    # who asks while the winner says its name is told of "another process"
    assert all("is being written by" in line or "already holds a run" in line for line in others), others
    run(tmp_path / "alone")
    assert everything(tmp_path / "run") == everything(tmp_path / "alone")


def test_killed_at_any_moment(tmp_path):
    """kill -9 wherever it is by then, twice, and on to the end: the bits of one that was left alone."""
    run(tmp_path / "whole", rounds=400)
    where = tmp_path / "run"
    for seconds in (0.02, 0.1):
        process = start(LONG, where)
        process.stdout.readline()
        time.sleep(seconds)
        process.kill()
        process.wait()
        if (where / "record.json").exists():
            record.read_run(where)
    if (where / "record.json").exists():
        resume(where)
    else:
        run(where, rounds=400)
    assert everything(where) == everything(tmp_path / "whole")


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
from pathlib import Path
from record_small import run
from amsfl.core import DiskError
try:
    run(Path(sys.argv[1]), rounds=40)
except DiskError as said:
    print(said)
"""


def test_a_limit_on_file_sizes(tmp_path):
    """The real thing, by the system: one sentence, nothing half-written, and it goes on where it may."""
    said = start(LIMITED, tmp_path / "run").communicate(timeout=60)[0]
    assert "rounds.jsonl' cannot be written: File too large; raise the limit" in said
    assert "go on with 'amsfl resume" in said and said.count("\n") == 1
    lines = (tmp_path / "run" / "rounds.jsonl").read_bytes()
    assert len(lines) <= 3000 and not list((tmp_path / "run").glob(".*.new"))
    resume(tmp_path / "run")
    run(tmp_path / "whole", rounds=40)
    assert everything(tmp_path / "run") == everything(tmp_path / "whole")


INTERRUPTED = """
import os, signal, sys
from amsfl.cli.app import app

import amsfl.simulation.api as drive
real = drive.together

def together(*arguments):
    for number, step in enumerate(real(*arguments), start=1):
        if number == 5:
            os.kill(os.getpid(), signal.SIGINT)  # in the middle of the loop, as Ctrl-C is
        yield step

drive.together = together
app(["run", "--data", "digits", "--model", "softmax", "--method", "fedavg", "--engine", "loop", "--rounds",
     "12", "--steps", "2", "--checkpoint-every", "100", "--out", sys.argv[1]])
"""


@pytest.mark.slow
def test_one_ctrl_c_is_enough_and_writes_a_checkpoint(tmp_path):
    """No checkpoint was due, and none of the five rounds is lost; it ends with the bits of one left alone."""
    where = tmp_path / "run"
    stopped = python("-c", INTERRUPTED, str(where))
    assert stopped.returncode == 130, stopped.stderr
    assert f"stopped; continue with 'amsfl resume {where}'" in stopped.stderr
    found = record.read_run(where)
    assert len(found.rounds) == 5 and load_checkpoint(where).round == 5
    command = ("from amsfl.cli import main; main()", "resume", str(where), "--json")
    done = python("-c", *command)
    assert done.returncode == 0, done.stderr
    shorter = INTERRUPTED.replace("number == 5", "False")
    assert python("-c", shorter, str(tmp_path / "alone")).returncode == 0
    ours, alone = load_checkpoint(where), load_checkpoint(tmp_path / "alone")
    assert ours.host == alone.host and ours.arrays.keys() == alone.arrays.keys()
    assert all(part.tobytes() == alone.arrays[name].tobytes() for name, part in ours.arrays.items())
    assert json.loads(done.stdout)["accuracy"] == record.read_run(tmp_path / "alone").summary.accuracy
