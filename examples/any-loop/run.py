"""One of these clients in a real federation on this machine: `python run.py lora`.

A SuperLink and three SuperNodes, processes of their own; some rounds of AMSFL; then all of them are ended.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import tomli_w
from amsfl.flower.deploy.builtin_app import PROJECT
from amsfl.flower.deploy.processes import loopback
from amsfl.flower.deploy.run import follow

from amsfl.record import Summary, read_run

HERE = Path(__file__).parent
SERVER = """
from amsfl.flower import server_app

app = server_app(method="amsfl", clients=3, evaluate_clients=1)
"""
RATES = {
    "adam": 0.003,
    "mixed_precision": 0.02,
    "lora": 0.01,
}  # AMSFL finds its own where nobody brings an optimizer
NAMES = ("adam", "dictionaries", "mixed_precision", "lora", "scikit")


def federation(name: str, rounds: int, out: Path) -> Summary:
    """Run it to its end; the record is in `out`."""
    with tempfile.TemporaryDirectory(prefix="amsfl-") as home:
        package = Path(home) / "app" / "any_loop"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        (package / "server.py").write_text(SERVER)
        (package / "client.py").write_text((HERE / f"{name}.py").read_text())
        settings: dict[str, Any] = {"rounds": rounds, "out": str(out.resolve())}
        settings |= {"lr": RATES[name]} if name in RATES else {}
        parts = {"serverapp": "any_loop.server:app", "clientapp": "any_loop.client:app"}
        app = {"publisher": "local", "components": parts, "config": settings}
        (package.parent / "pyproject.toml").write_text(
            tomli_w.dumps(PROJECT | {"tool": {"flwr": {"app": app}}})
        )
        with loopback(Path(home) / "flower") as running:
            for site in range(3):
                running.node(f"site-{site}", {"partition-id": site})
            follow(running, package.parent, print)
    summary = read_run(out).summary
    assert summary is not None  # else the run has failed, and said so
    return summary


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("name", choices=NAMES)
    asked.add_argument("--rounds", type=int, default=5)
    asked.add_argument("--out", type=Path, default=None, help="a folder for the record; a new one by default")
    given = asked.parse_args()
    where = given.out or Path(tempfile.mkdtemp(prefix=f"amsfl-{given.name}-"))
    print(federation(given.name, given.rounds, where).metrics["clients"], "record:", where)
