"""`amsfl deploy`: a whole federation on this machine, run to its end, and nothing left behind."""

import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tomli_w

from amsfl import record
from amsfl.core import Remark, UserError
from amsfl.federation import Own, serve_config
from amsfl.federation.planner import policy_of
from amsfl.federation.remarks import remarks
from amsfl.federation.setup import method_of
from amsfl.flower.deploy import certificates, orphans
from amsfl.flower.deploy.processes import Federation, loopback
from amsfl.flower.deploy.shards import checksum, deal
from amsfl.flower.deploy.speeds import RUN
from amsfl.flower.server.app import LENGTH
from amsfl.record import Summary

PROJECT: dict[str, Any] = {
    "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
    "project": {"name": "amsfl-deploy", "version": "1.0.0", "description": "A local federation"},
}
MODULE = """from amsfl.flower.deploy.ready_made import client, server

__all__ = ["client", "server"]
"""


RECIPE = "deploy.json"  # in the record folder: how the deployment was started, for --resume
LOCK = ".amsfl-deploy-lock"  # one deployment a folder; the server in it holds the record's own
AGAIN = (*LENGTH, "deadline")  # what may change when it goes on


class Recipe(NamedTuple):
    settings: dict[str, Any]
    slowdowns: list[float]
    step_seconds: float
    tls: bool
    dealt: str = ""  # checksum of the rows that were dealt


def deploy(
    settings: dict[str, Any],
    out: Path,
    slowdowns: Sequence[float] = (),
    step_seconds: float = 0.0,
    tls: bool = False,
    say: Callable[[str], None] = print,
    started: Callable[[Federation], None] | None = None,
) -> Summary:
    """Start a SuperLink and `clients` SuperNodes on loopback, run, and return the summary.

    `settings` are those of server_app; `slowdowns[i]` and `step_seconds` make client i slow (see
    local.Pace); with `tls`, certificates and keys are made and SuperNodes must prove who they are;
    `started(federation)` is called when all are up. With `resume` in the settings everything but AGAIN is
    as it was when the folder's run began; with `force` a finished run in the folder is replaced. What a
    killed deployment of this folder left running is ended first.
    """
    with record.locked(out, LOCK):
        for name in orphans.end(out / orphans.BOOK):
            say(f"Ended {name}, which a killed deployment had left running")
        if orphans.remove_folder(out.resolve()):
            say("Removed the temporary folder that a killed deployment had left")
        return _deploy(settings, out, slowdowns, step_seconds, tls, say, started)


def _deploy(
    settings: dict[str, Any],
    out: Path,
    slowdowns: Sequence[float],
    step_seconds: float,
    tls: bool,
    say: Callable[[str], None],
    started: Callable[[Federation], None] | None,
) -> Summary:
    recipe = Recipe(settings, list(slowdowns), step_seconds, tls)
    recipe = recall(out, recipe) if settings.get("resume") else recipe
    settings, slowdowns, step_seconds, tls, before = recipe
    config = serve_config({key: value for key, value in settings.items() if key not in RUN})
    method = method_of(config, Own())
    for line in remarks(config, method, policy_of(config, method), config.clients):
        warnings.warn(line, Remark, stacklevel=2)
    if slowdowns and len(slowdowns) != config.clients:
        raise UserError(
            f"{len(slowdowns)} slowdowns for {config.clients} clients; give each its own: --slowdowns 1,2,4."
        )
    home = Path(tempfile.mkdtemp(prefix="amsfl-"))
    try:
        orphans.note_folder(out.resolve(), home)
        shards = deal(config, home / "shards")
        dealt = checksum(home / "shards")
        if before not in ("", dealt):
            raise UserError("The deployment began with other data or another partition; go on with those.")
        remember(out, recipe._replace(dealt=dealt))
        keys = certificates.make(home / "keys", config.clients) if tls else None
        write_app(home / "app", {**settings, "out": str(out.resolve()), "shards": str(home / "shards")})
        with loopback(home / "flower", keys, out.resolve() / orphans.BOOK) as running:
            say(f"SuperLink on {running.address}{' with TLS' if tls else ''}, {config.clients} SuperNodes")
            for place, shard in enumerate(shards):
                slow = float(slowdowns[place]) if slowdowns else 1.0
                node = {"partition-id": place, "shard": str(shard), "slowdown": slow}
                node |= {"step-seconds": float(step_seconds), "state-dir": str(out.resolve() / "clients")}
                if keys:
                    register(running, keys.nodes[place])
                running.node(f"supernode-{place}", node, keys.nodes[place] if keys else None)
            if started:
                started(running)
            follow(running, home / "app", say)
    finally:
        orphans.remove_folder(out.resolve())
        shutil.rmtree(home, ignore_errors=True)
    summary = record.read_run(out).summary
    assert summary is not None  # else the run has failed, and said so
    return summary


def remember(out: Path, recipe: Recipe) -> None:
    """Keep how it was started; a folder that holds a run keeps what it has, and the server refuses it."""
    if recipe.settings.get("force") or not record.holds_record(out):
        if (out / RECIPE).exists():
            _recipe(out)  # ours, or it stays as it is
        out.mkdir(parents=True, exist_ok=True)
        record.write_sealed(out / RECIPE, recipe._asdict())


def recall(out: Path, asked: Recipe) -> Recipe:
    """How the folder's deployment was started, with what the user changes now."""
    if not (out / RECIPE).exists():
        raise UserError(
            f"The folder {str(out)!r} holds no deployment to go on with; name one with --out, or start "
            "a new one without --resume."
        )
    kept = _recipe(out)
    changed = {key: asked.settings[key] for key in AGAIN if asked.settings.get(key) is not None}
    return kept._replace(settings={**kept.settings, **changed, "resume": True})


def _recipe(out: Path) -> Recipe:
    return record.typed(Recipe, record.read_sealed(out / RECIPE, "choose another --out, or move it away."))


def write_app(where: Path, settings: dict[str, Any]) -> None:
    """A Flower app that only names ours, with the settings as its run-config."""
    (where / "amsfl_deploy").mkdir(parents=True)
    (where / "amsfl_deploy" / "__init__.py").write_text("")
    (where / "amsfl_deploy" / "app.py").write_text(MODULE)
    flat = {key.replace("_", "-"): value for key, value in settings.items() if value is not None}
    app = {
        "publisher": "local",
        "components": {"serverapp": "amsfl_deploy.app:server", "clientapp": "amsfl_deploy.app:client"},
        "config": flat,
    }
    project = PROJECT | {"tool": {"flwr": {"app": app}}}
    (where / "pyproject.toml").write_text(tomli_w.dumps(project))


def register(running: Federation, key: Path) -> None:
    """Tell the SuperLink a SuperNode's public key."""
    done = running.flwr("supernode", "register", str(key.with_suffix(".pub")), "local")
    if done.returncode:
        why = (done.stdout + done.stderr)[-500:]
        raise UserError(f"The SuperLink did not take the key {key.name}: {why}")


def follow(running: Federation, app: Path, say: Callable[[str], None]) -> None:
    """`flwr run` to its end, passing on what the ServerApp says of its rounds."""
    process = running.start("run", ["flwr", "run", str(app), "local", "--stream"])
    with running.log("run").open(encoding="utf-8", errors="replace") as log:
        while True:
            ended = process.poll() is not None
            for line in log:
                if line.startswith(("round ", "  refused ")):
                    say(line.rstrip())
            if ended:
                break
            time.sleep(0.2)
    text = running.log("run").read_text(errors="replace")
    said = re.findall(r"UserError: (.+)", text)
    if said:  # a sentence of ours, wherever it was raised
        raise UserError(said[-1])
    if process.returncode or "ERROR" in text:
        raise UserError(f"The run failed: {text[-1500:]}")
