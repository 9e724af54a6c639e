"""The page "Five machines" of docs/flower.md, followed to the letter on one machine.

The commands are taken from the page's fenced blocks. What a reader has to replace is replaced: the server's
name, its port, the folders; two sites instead of five, and digits for data. A minute of process starts, so it
is marked slow: `pytest --slow tests/flower/test_flower_page.py`.
"""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl.flower.deploy import leftovers
from amsfl.flower.deploy.certificates import Keys
from amsfl.flower.deploy.processes import answers, wait
from amsfl.flower.node.supernode import free_port
from amsfl.record import read_run

ROOT = Path(__file__).parents[2]
SITES = 2


def blocks() -> list[str]:
    """The fenced blocks of the chapter, in their order."""
    page = (ROOT / "docs" / "flower.md").read_text()
    chapter = page.partition("\n## Five machines\n")[2].partition("\n## ")[0]
    return [textwrap.dedent(text) for text in re.findall(r"^ *```\w*\n(.*?)^ *```$", chapter, re.M | re.S)]


def test_the_page_has_the_blocks_that_are_followed() -> None:
    begins = ["python deal.py", "flower-superlink", "[superlink]", "for i in", "amsfl supernode", "flwr run"]
    found = blocks()
    assert len(found) == len(begins)
    assert all(block.startswith(begin) for block, begin in zip(found, begins, strict=True))


def commands() -> list[list[str]]:
    """Every command of the page's blocks, split into words; a backslash joins lines."""
    page = (ROOT / "docs" / "flower.md").read_text()
    fenced = re.findall(r"^ *```(\w*)\n(.*?)^ *```$", page, re.M | re.S)
    texts = [text for language, text in fenced if not language]
    lines = [line for text in texts for line in textwrap.dedent(text).replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def test_every_command_of_the_page_is_one_that_works(tmp_path: Path) -> None:
    """Deployments by a dry run; of other programs, that they have these flags. Slow tests run the rest."""
    from command_line import CliRunner

    from amsfl.cli.app import app

    helped = dict[str, str]()
    for words in commands():
        program, flags = words[0], [word.partition("=")[0] for word in words if word.startswith("--")]
        if words[:2] == ["amsfl", "deploy"]:
            if words[2] == "my-app":
                words = [*words[:2], str(ROOT / "examples" / "flower-nslkdd"), *words[3:-2]]
            out = ["--dry-run", "--out", str(tmp_path / "out")]
            data = ["digits" if word == "nslkdd" else word for word in words[1:]]
            done = CliRunner().invoke(app, [*data, *out])
            assert done.exit_code == 0, (words, done.output)
        elif program in ("flower-superlink", "amsfl"):
            name = "flower-superlink" if program == "flower-superlink" else "flower-supernode"
            if name not in helped:
                command = [str(Path(sys.executable).with_name(name)), "--help"]
                helped[name] = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            assert [flag for flag in flags if flag not in helped[name]] == [], words
        elif program == "python":
            places = [ROOT / words[1], ROOT / "examples" / "flower-nslkdd" / words[1]]
            assert any(place.is_file() for place in places), words
        else:
            assert program in ("pip", "flwr", "for"), words


class Shell:
    """Runs the page's lines in folders of its own; what it starts, it ends."""

    def __init__(self, home: Path):
        self.home, self.started = home, list[subprocess.Popen[bytes]]()
        here = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        self.env = {key: value for key, value in os.environ.items() if not key.startswith("FLWR_")}
        self.env |= {"HOME": str(home), "PATH": here, "FLWR_TELEMETRY_ENABLED": "0", "JAX_PLATFORMS": "cpu"}

    def run(self, lines: str, folder: Path, seconds: float = 120) -> str:
        with self.start(lines, folder) as process:
            code = process.wait(seconds)
        said = self.log(process).read_text(errors="replace")
        assert code == 0, f"{lines}\n{said[-3000:]}\n{self.tails()}"
        return said

    def start(self, lines: str, folder: Path) -> "subprocess.Popen[bytes]":
        with (self.home / f"{len(self.started)}.log").open("wb") as log:
            process = subprocess.Popen(
                ["bash", "-ec", lines],
                cwd=folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def log(self, process: "subprocess.Popen[bytes]") -> Path:
        return self.home / f"{self.started.index(process)}.log"

    def tails(self) -> str:
        return "\n".join(f"== {log.name}\n{log.read_text()[-1500:]}" for log in self.home.glob("*.log"))

    def end(self) -> None:
        for process in self.started[::-1]:
            family = [process.pid, *leftovers.descendants(process.pid)] if process.poll() is None else []
            for pid in family:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait(10)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path / "home")
    shell.home.mkdir()
    try:
        yield shell
    finally:
        shell.end()


@pytest.mark.slow
def test_five_machines_as_the_page_says(shell: Shell, tmp_path: Path) -> None:
    server, port = tmp_path / "flower-nslkdd", free_port()
    shutil.copytree(ROOT / "examples" / "flower-nslkdd", server)
    replaced = {
        "superlink.example.org": "127.0.0.1",
        "0.0.0.0": "127.0.0.1",
        "8000": str(port),
        "/path/to/": f"{server}/",
        "/var/lib/amsfl": f"{tmp_path}/state",
        "--clients 5": f"--clients {SITES} --data digits",
        "--nodes 5": f"--nodes {SITES}",
        "0 1 2 3 4": " ".join(map(str, range(SITES))),
    }
    found = blocks()
    for old, new in replaced.items():
        assert any(old in block for block in found), f"the page no longer says {old}"
        found = [block.replace(old, new) for block in found]
    prepare, link, config, register, node, go = found

    shell.run(prepare, server)
    shell.start(link, server)
    keys = Keys(server / "keys/ca.pem", server / "keys/superlink.pem", server / "keys/superlink.key", ())
    wait(lambda: answers(f"127.0.0.1:{port}", keys), "The SuperLink did not start")
    (shell.home / ".flwr").mkdir(exist_ok=True)
    (shell.home / ".flwr" / "config.toml").write_text(config)
    unknown = server / "keys" / "supernode-0.key"
    early = f"amsfl supernode --check --superlink 127.0.0.1:{port} --root-certificates keys/ca.pem"
    said = shell.run(f"! {early} --auth-supernode-private-key {unknown}", server)
    assert "BAD registration" in said  # nobody has registered it yet
    shell.run(register, server)
    for place in range(SITES):
        site = tmp_path / f"site-{place}"
        (site / "data").mkdir(parents=True)
        shutil.copy(keys.ca, site)
        shutil.copy(server / "keys" / f"supernode-{place}.key", site)
        shutil.copy(shell.home / "amsfl-shards" / f"shard-{place}.npz", site / "data")
        mine = re.sub(r"\bI\b", str(place), node).replace("/data/", f"{site}/data/")
        if not place:
            shell.run(mine.replace("amsfl supernode", "amsfl supernode --check"), site)
        shell.start(mine, site)
    short = f'clients={SITES} cohort={SITES} rounds=1 model="softmax" data="digits" keyed=true'
    said = shell.run(f"{go.strip()} --run-config '{short}'", server, seconds=240)
    assert re.search(r"^round 1 ", said, re.M), said + shell.tails()
    assert [len(record.cohort) for record in read_run(shell.home / "amsfl-runs" / "nslkdd").rounds] == [SITES]
