"""Real SuperNodes on this machine that are started again when they die, for studies of long runs."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from amsfl.flower.deploy.processes import Federation, loopback

from amsfl.flower.deploy import leftovers

PAGE = os.sysconf("SC_PAGE_SIZE")
KINDS = {"worker": "amsfl.flower.node.worker", "node": "amsfl.flower.node.supernode", "server": "serverapp"}


class KeptFederation:
    """A SuperLink, SuperNodes in shell loops, and a run that can be resumed."""

    def __init__(self, running: Federation, record: Path):
        self.running, self.record, self.starts = running, record, 0

    def keep_node(self, name: str, config: Mapping[str, Any], poll: float = 0.2) -> None:
        """Start it, and start it again whenever it ends; its log has times."""
        command = self.running.node_command(dict(config))
        node = shlex.join([sys.executable, *command[1:], "--log", "json", "--poll", f"{poll:g}"])
        self.running.start(name, ["bash", "-c", f"while true; do {node}; sleep 1; done"])

    def start_run(self, app: Path) -> None:
        self.starts += 1
        self.running.start(f"run-{self.starts}", ["flwr", "run", str(app), "local", "--stream"])

    @property
    def run(self) -> "subprocess.Popen[bytes]":
        return self.running.running[f"run-{self.starts}"]

    def stop_run(self) -> None:
        """Flower's own way; the ServerApp ends, and nodes are free."""
        started = re.findall(r"started run (\d+)", self.running.log(f"run-{self.starts}").read_text())
        if started:
            self.running.flwr("stop", started[-1], "local")
        self.running.end(f"run-{self.starts}", grace=1.0)

    def rounds(self) -> int:
        path = self.record / "rounds.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def processes(self) -> dict[str, list[int]]:
        """Process ids by kind: link, server, node, worker."""
        every: dict[str, list[int]] = {"link": [], **{kind: [] for kind in KINDS}}
        for name, process in self.running.running.items():
            for pid in [process.pid, *leftovers.descendants(process.pid)]:
                command = _command(pid)
                kind = next((kind for kind, mark in KINDS.items() if mark in command), None)
                if kind == "node" and "while true" in command:
                    continue  # the loop around it
                if kind is not None:
                    every[kind].append(pid)
                elif name == "superlink":
                    every["link"].append(pid)
        return every

    def memory(self) -> dict[str, float]:
        """Resident megabytes by kind: the largest process of each."""
        return {
            kind: max((_resident(pid) for pid in pids), default=0.0)
            for kind, pids in self.processes().items()
        }

    def kill(self, pids: Sequence[int]) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def kept_federation(home: Path, record: Path, database: Path | None = None) -> Iterator[KeptFederation]:
    with loopback(home, database=database) as running:
        yield KeptFederation(running, record)


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def _resident(pid: int) -> float:
    with suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 2**20
    return 0.0
