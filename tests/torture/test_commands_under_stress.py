"""Full disks, kills and too little memory, during every command that writes; the result after is the same."""

import errno
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from federation_small import python
from study_example import settings as study_file
from torture import crash_at, everything, fail_at, operations
from typer.testing import CliRunner

from amsfl.cli.app import app

TABLE = "age,city,label\n" + "".join(
    f"{20 + n % 50}{'.5' if n % 3 else ''},{'ab'[n % 2]},{'yn'[n % 5 % 2]}\n" for n in range(80)
)
RUN = ["--engine", "loop", "--model", "softmax", "--method", "fedavg", "--rounds", "2", "--steps", "2"]
COMMANDS = {
    "predict": ["predict", "run", "table.csv", "--out", "out/predictions.csv"],
    "sklearn": ["export", "run", "--to", "sklearn", "--out", "out/export"],
    "torch": ["export", "run", "--to", "torch", "--out", "out/export"],
    "onnx": ["export", "run", "--to", "onnx", "--out", "out/export"],
    "report": ["report", "run", "--out", "out/report"],
    "compare": ["compare", "--config", "small.toml", "--tune", "none", "--out", "out/compare", "--quiet"],
}
QUICK = ("predict", "torch")
LONG, POINTS = ("report", "compare"), 8  # operations that are tried where each costs seconds


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("stress")
    (where / "table.csv").write_text(TABLE)
    study_file(where, trials=1, seconds=1, kind="compare")
    done = CliRunner().invoke(app, ["run", str(where / "table.csv"), *RUN, "--out", str(where / "run")])
    assert done.exit_code == 0, done.output
    return where


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[None]:
    monkeypatch.setattr(os, "fsync", lambda file: None)
    monkeypatch.chdir(home)
    (home / "out").mkdir()
    yield
    shutil.rmtree(home / "out")


def call(name: str) -> None:
    done = CliRunner().invoke(app, COMMANDS[name])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    if done.exit_code == 1:
        assert done.stderr.count("\n") == 1 and "cannot be" in done.stderr, done.stderr
        raise Refused
    assert done.exit_code == 0, done.output


class Refused(Exception):
    """In one sentence."""


def emptied(home: Path) -> None:
    shutil.rmtree(home / "out")
    (home / "out").mkdir()


def visible(home: Path) -> dict[str, bytes]:
    """What a command made, but for what a run says of this machine's speed and what a kill may leave."""
    files = everything(home / "out")
    ours = (".", "report.json")  # locks, and the list of files that is written before them
    return {name: part for name, part in files.items() if not Path(name).name.startswith(ours)}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_and_a_crash_at_every_operation(name: str, home: Path, torture: bool) -> None:
    if name == "onnx":
        pytest.importorskip("onnx")
    if not torture and name not in QUICK:
        pytest.skip("one in a few; all with --torture")
    call(name)
    whole = visible(home)
    emptied(home)
    count = len(operations(lambda: call(name)))
    chosen = range(0, count, count // POINTS | 1 if name in LONG else 1 if torture else 5)
    for number in chosen:
        emptied(home)
        with suppress(Refused):  # else: removing a lock may fail, which costs nothing
            fail_at(number, errno.ENOSPC, lambda: call(name))
        left = [path.name for path in (home / "out").rglob("*.new")]
        assert not left, f"operation {number}"
        if not name.startswith(("compare", "report")):  # those go on where they were
            for path, content in visible(home).items():
                assert content == whole[path], f"operation {number}: {path} is half done"
        crash_at(number, lambda: call(name))
        call(name)
        assert set(visible(home)) == set(whole), f"operation {number}"
        if name not in ("compare", "report"):  # whose files have the seconds that they took
            assert visible(home) == whole, f"operation {number}"
    print(f"{name}: {len(chosen)} of {count} operations, refused and crashed at")


@pytest.mark.torture
@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_any_moment(name: str, home: Path) -> None:
    call(name)
    whole = visible(home)
    rng = random.Random(name)
    kills = 3 if name == "compare" else 8
    for kill in range(kills):
        process = subprocess.Popen(
            [sys.executable, "-m", "amsfl", *COMMANDS[name]], cwd=home, stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        time.sleep(rng.uniform(0, 6))
        process.kill()
        process.wait()
        call(name)
        assert set(visible(home)) == set(whole), f"kill {kill}"
    print(f"{name}: {kills} kills")


LIMITED = """
import contextlib, resource, sys
from amsfl.cli.app import app
import amsfl.portable, amsfl.data, amsfl.report.write.folder, matplotlib.figure, sklearn.metrics
import amsfl.study.run, amsfl.simulation.batch
with contextlib.suppress(ImportError):
    import onnx
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + int(sys.argv[1]), now + int(sys.argv[1])))
app(sys.argv[2:])
"""
MEGABYTES = (8, 30, 60, 100, 300)  # with 1 Python has none for a sentence


LIBRARIES = r"OpenBLAS error: Memory allocation|Thread tf_\w+ creation|std::bad_alloc"  # they end a process


def limited(home: Path, megabytes: int, command: list[str]) -> str:
    """How it ends with so much memory left: well, with a sentence, or by a library that aborts."""
    done = python("-c", LIMITED, str(megabytes * 1_000_000), *command, cwd=home)
    last = (done.stderr.splitlines() or [""])[-1]
    if done.returncode == 0:
        return "well"
    if re.search(LIBRARIES, done.stderr):
        return "aborted"
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr, (megabytes, done.stderr[-2000:])
    assert last.startswith("amsfl: ") and last.endswith("."), (megabytes, done.stderr[-2000:])
    assert re.search("memory|thread|allocat|map segment", last), (megabytes, last)
    return "sentence"


@pytest.mark.torture
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_too_little_memory_to_predict(home: Path) -> None:
    """A table of 40 MB where less than 300 MB are left: one sentence, no traceback, nothing half-written."""
    rows = TABLE.splitlines(keepends=True)
    (home / "large.csv").write_text(rows[0] + "".join(rows[1:]) * 50_000)
    for megabytes in (30, 60, 100):
        assert limited(home, megabytes, ["predict", "run", "large.csv", "--out", "out/p.csv"]) == "sentence"
        assert not list((home / "out").iterdir())
    (home / "large.csv").unlink()


@pytest.mark.torture
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
@pytest.mark.parametrize("name", COMMANDS)
def test_too_little_memory(name: str, home: Path) -> None:
    """Whatever is left, nothing half-written is in the way: with memory again, all files are made."""
    if name == "onnx":
        pytest.importorskip("onnx")
    call(name)
    whole = set(visible(home))
    ended = {}
    for megabytes in MEGABYTES:
        emptied(home)
        ended[megabytes] = limited(home, megabytes, COMMANDS[name])
        call(name)
        assert set(visible(home)) == whole, megabytes
    print(f"{name}: MB left, and how it ended: {ended}")
