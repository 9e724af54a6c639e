"""A Flower federation on this machine: one SuperLink, SuperNodes beside it, all on loopback.

Every process is started here, kept by its own id, and ended by it. Flower's commands start children
of their own (a SuperExec, and one app process a message) that watch their parent; each command
therefore leads a process group, and the group is ended as one.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from amsfl.core import UserError
from amsfl.flower.deploy import leftovers
from amsfl.flower.deploy.certificates import Keys
from amsfl.flower.node import health
from amsfl.flower.node.supernode import free_port

SUPERNODE = [Path(sys.executable).name, "-m", "amsfl.flower.node.supernode"]  # ours keeps clients warm
STARTUP_SECONDS = 120.0  # importing Flower takes seconds, and on a busy machine many


@dataclass
class Federation:
    """A running federation. `home` holds Flower's own files and every process's log, `book` who runs."""

    home: Path
    port: int
    keys: Keys | None = None
    book: Path | None = None
    database: Path | None = None  # where the SuperLink keeps what it knows; None: it forgets when it ends
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def link(self) -> None:
        """Start the SuperLink and wait until it answers."""
        self.start("superlink", self.link_command())
        process = self.running["superlink"]
        wait(
            lambda: process.poll() is None and answers(self.address, self.keys),
            "The SuperLink did not start",
            self.log("superlink"),
        )

    def node(self, name: str, config: dict[str, Any], key: Path | None = None) -> None:
        """Start a SuperNode; `config` is its node-config, `key` its private key where nodes are checked."""
        self.start(name, self.node_command(config, key))

    def link_command(self) -> list[str]:
        tls = ["--insecure"]
        if self.keys:
            tls = ["--ssl-ca-certfile", str(self.keys.ca), "--ssl-certfile", str(self.keys.certificate)]
            tls += ["--ssl-keyfile", str(self.keys.key), "--enable-supernode-auth"]
        command = ["flower-superlink", *tls, "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--database", str(self.database)] if self.database else []
        return [*command, "--disable-runtime-dependency-installation"]

    def node_command(self, config: dict[str, Any], key: Path | None = None) -> list[str]:
        tls = ["--root-certificates", str(self.keys.ca)] if self.keys else ["--insecure"]
        if key:
            tls += ["--auth-supernode-private-key", str(key)]
        pairs = " ".join(f'{k}="{v}"' if isinstance(v, str) else f"{k}={v}" for k, v in config.items())
        return [*SUPERNODE, *tls, "--superlink", self.address, "--node-config", pairs]

    def flwr(self, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        """A `flwr` command against this federation, finished."""
        command = [executable("flwr"), *arguments]
        return subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, check=False, **options
        )

    def start(self, name: str, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        with self.log(name).open("ab") as log, undisturbed():
            self.running[name] = subprocess.Popen(
                [executable(command[0]), *command[1:]],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # its own group, and Ctrl-C is ours to handle
            )
            if self.book:
                leftovers.note(self.book, {who: process.pid for who, process in self.running.items()})
        return self.running[name]

    def environment(self) -> dict[str, str]:
        quiet = {
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.5",
        }
        # five clients on a few cores: one thread each, or they trample on each other
        threads = {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
        # Flower starts a client process a message: what one has compiled, the next finds
        threads |= {"JAX_COMPILATION_CACHE_DIR": str(self.home / "jax"), "JAX_PLATFORMS": "cpu"}
        threads |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        here = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        return threads | dict(os.environ) | quiet | {"PATH": here}

    def log(self, name: str) -> Path:
        return self.home / f"{name}.log"

    def send(self, name: str, number: int) -> None:
        """Signal a process and all its children, by their group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.running[name].pid, number)

    def end(self, name: str, number: int = signal.SIGTERM, grace: float = 5.0) -> None:
        """End one process with its children: asked first, then made to."""
        process = self.running.pop(name)
        children = leftovers.descendants(process.pid)
        for sign in (number, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGCONT)
                os.killpg(process.pid, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace)
        # the SuperLink's SuperExec leads a group of its own and only looks now and then for its parent
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    def close(self) -> None:
        for name in sorted(self.running, key=lambda name: name == "superlink"):  # it ends last
            self.end(name, grace=1.0)


@contextlib.contextmanager
def loopback(
    home: Path, keys: Keys | None = None, book: Path | None = None, database: Path | None = None
) -> Iterator[Federation]:
    """A federation whose SuperLink is up, and of which nothing is left afterwards, also on Ctrl-C.

    If it is killed, `book` says what is left.
    """
    home.mkdir(parents=True, exist_ok=True)
    running = Federation(home.resolve(), free_port(), keys, book, database)
    link: dict[str, Any] = {"address": running.address}
    link |= {"root-certificates": str(keys.ca)} if keys else {"insecure": True}
    (home / "config.toml").write_text(tomli_w.dumps({"superlink": {"default": "local", "local": link}}))
    with handled(leave, signal.SIGTERM):
        try:
            running.link()
            yield running
        finally:
            with undisturbed():  # a second Ctrl-C must not leave half of it running
                running.close()
                if book:
                    book.unlink(missing_ok=True)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Ctrl-C between a process's start and our note of its id would lose it: signals wait until after."""
    signals: list[int] = []
    try:
        with handled(signals.append, signal.SIGINT, signal.SIGTERM):
            yield
    finally:
        for number in signals[:1]:
            signal.raise_signal(number)


@contextlib.contextmanager
def handled(handle: Callable[[int], Any], *signs: int) -> Iterator[None]:
    """Signals are given to `handle`, where this is the main thread: no other may say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [signal.signal(sign, lambda number, frame: handle(number)) for sign in signs]
    try:
        yield
    finally:
        for sign, handler in zip(signs, before, strict=True):
            signal.signal(sign, handler)


def leave(number: int) -> None:
    """A SIGTERM unwinds like Ctrl-C, so that what was started is ended."""
    raise SystemExit(128 + number)


def wait(
    done: Callable[[], bool], what: str, log: Path | None = None, seconds: float = STARTUP_SECONDS
) -> None:
    """Poll until `done`; a UserError with the end of a log if it takes too long."""
    until = time.monotonic() + seconds
    while not done():
        if time.monotonic() > until:
            tail = log.read_text(errors="replace")[-2000:] if log and log.exists() else ""
            raise UserError(f"{what} within {seconds:.0f} seconds. {tail}".strip())
        time.sleep(0.1)


def answers(address: str, keys: Keys | None) -> bool:
    """Whether the SuperLink there is up."""
    scheme = "https" if keys else "http"
    return health.answers(f"{scheme}://{address}/health", str(keys.ca) if keys else None)


def executable(name: str) -> str:
    """Flower's commands live beside this Python, or on the path."""
    beside = Path(sys.executable).with_name(name)
    path = str(beside) if beside.exists() else shutil.which(name)
    if not path:
        raise UserError(f"The command {name!r} is not there; install it: pip install 'amsfl[flower]'.")
    return path
