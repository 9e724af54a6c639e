"""Virtual environments, and running one peer as a process tree whose time and memory are watched."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from roster import ROOT, VENVS


def prepare(venv: str, folder: Path) -> Path:
    """The environment's interpreter; made and filled if it is not there, or if its pins have changed."""
    home = folder / venv
    python, mark = home / "bin" / "python", home / "installed.txt"
    wanted = json.dumps(VENVS[venv])
    if venv == "ours":
        wanted += hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if mark.exists() and mark.read_text() == wanted:
        return python
    print(f"installing {venv} ...", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
    for packages in VENVS[venv]:
        done = subprocess.run(
            [str(python), "-m", "pip", "install", "-q", *packages], capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"installing: {last_line(done.stderr)}")
    mark.write_text(wanted)
    return python


def run(
    command: list[str], timeout: float, gpu: bool = False, more: tuple[tuple[str, str], ...] = ()
) -> dict[str, Any]:
    """Run one peer alone; its JSON line with `peak_mb` of the whole process tree, or `error`."""
    where = {"BENCH_DEVICE": "cuda"} if gpu else {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    token = f"BENCH_RUN={uuid.uuid4().hex}"
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    env = kept | {
        "BENCH_RUN": token.partition("=")[2],
        "BENCH_STARTED": str(time.time()),
        "PYTHONUNBUFFERED": "1",
        **where,
        **dict(more),
    }
    with (
        tempfile.TemporaryDirectory() as cwd,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        try:
            child = subprocess.Popen(
                command, cwd=cwd, env=env, stdout=out, stderr=err, start_new_session=True
            )
        except OSError as problem:
            return {"error": str(problem)}
        watch = Watch(token)
        try:
            code = child.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        peak = watch.finish()
        watch.sweep()
        out.seek(0)
        err.seek(0)
        stdout, stderr = out.read(), err.read()
    if code is None:
        return {"error": f"did not finish within {timeout:g} s"}
    result = json_line(stdout)
    if code or result is None:
        return {"error": last_line(stderr) or last_line(stdout) or f"exit code {code}"}
    return result | {"peak_mb": round(max(peak, float(result.get("peak_mb") or 0)))}


class Watch(threading.Thread):
    """Twice a second, adds up the peak resident memory of every process that carries the run's mark.

    Looking for the mark in the environment finds what Ray detaches from its parent. Pages that processes
    share are counted in each. On systems without /proc nothing is found and the peer's own figure stands.
    """

    def __init__(self, token: str) -> None:
        super().__init__(daemon=True)
        self.token, self.peak, self.stop = token.encode(), 0.0, threading.Event()
        self.mine: set[int] = set()
        self.others: set[int] = set()
        self.start()

    def run(self) -> None:
        while not self.stop.wait(0.5):
            self.look()

    def look(self) -> None:
        for pid in [int(p) for p in os.listdir("/proc") if p.isdigit()] if os.path.isdir("/proc") else []:
            if pid not in self.mine and pid not in self.others and (environ := read(pid, "environ")):
                (self.mine if self.token in environ else self.others).add(pid)
        total = 0
        for pid in list(self.mine):
            lines = [line for line in read(pid, "status").splitlines() if line.startswith(b"VmHWM:")]
            if lines:
                total += int(lines[0].split()[1])
            else:
                self.mine.discard(pid)  # gone
        self.peak = max(self.peak, total / 1024)

    def finish(self) -> float:
        self.stop.set()
        self.join()
        return self.peak

    def sweep(self) -> None:
        """End what the run left behind (Ray's daemons, or all of it after a timeout)."""
        self.look()
        for pid in self.mine:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue


def read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def json_line(text: str) -> dict[str, Any] | None:
    """The last JSON object with a result, on one line or over several; peers print other things around it."""
    starts = [0] if text.startswith("{") else []
    starts += [i + 1 for i in range(len(text)) if text.startswith("\n{", i)]
    for start in reversed(starts):
        try:
            found, _ = json.JSONDecoder().raw_decode(text[start:])
        except ValueError:
            continue
        if "client_steps_per_second" in found:
            return dict(found)
    return None


def last_line(text: str) -> str:
    """The last line that names an error, or else the last one: pip and Ray go on talking after theirs."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if "Error" in line or line.lower().startswith("error")]
    return (named or lines or [""])[-1][:300]
