"""`amsfl deploy`: a whole federation on this machine, run to its end, and nothing left behind."""

import re
import shlex
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from amsfl import record
from amsfl.core import Remark, UserError
from amsfl.flower.deploy import certificates, leftovers, user_app
from amsfl.flower.deploy.builtin_app import checksum, deal, flat, rows_of, write_app
from amsfl.flower.deploy.processes import Federation, loopback
from amsfl.flower.deploy.recipe import (
    CLIENTS,
    DeploySettings,
    checked,
    forget_clients,
    protection,
    recall,
    remember,
)
from amsfl.flower.server.registration import LONGEST_NAME
from amsfl.planning.planner import policy_of
from amsfl.privacy.ledger import NOTHING
from amsfl.record import Summary
from amsfl.settings.privacy import check_public, mechanism_of, privacy_remarks, private_settings
from amsfl.settings.remarks import remarks
from amsfl.settings.round_ends import round_end_of
from amsfl.simulation import CustomParts
from amsfl.simulation.components import client_names, load_data, method_of

LOCK = ".amsfl-deploy-lock"  # one deployment a folder; the server in it holds the record's own
COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # Flower's levels have some
REFUSED = "  refused "
OURS = ("round ", REFUSED, '{"time"')  # how the lines begin that are passed on


class PreparedApp(NamedTuple):
    """What there is to start, beside a Flower app that says all settings."""

    nodes: list[dict[str, Any]]  # a node-config for every client
    dealt: str = ""


def deploy(
    settings: dict[str, Any],
    out: Path,
    slowdowns: Sequence[float] = (),
    step_seconds: float = 0.0,
    tls: bool = False,
    say: Callable[[str], None] = print,
) -> Summary:
    """Deal `settings`' data to SuperNodes on loopback, train our models there; the summary. See `launch`."""
    summary = launch(DeploySettings(settings, list(slowdowns), step_seconds, tls), out, say)
    assert summary is not None  # else the run has failed, and said so
    return summary


def launch(
    recipe: DeploySettings,
    out: Path,
    say: Callable[[str], None] = print,
    started: Callable[[Federation], None] | None = None,
) -> Summary | None:
    """Start a SuperLink and `clients` SuperNodes on loopback, run an app, and return the summary.

    The recipe's `settings` are those of server_app; `slowdowns[i]` and `step_seconds` make client i slow (see
    step_loop.Slowdown); with `tls`, certificates and keys are made and SuperNodes must prove who they are.
    `app` is the folder of the user's own app, whose server may keep no record of ours: then there is no
    summary. `started(federation)` is called when all are up. With `resume` in the settings everything but
    AGAIN is as it was when the folder's run began; with `force` a finished run in the folder is replaced.
    What a killed deployment of this folder left running is ended first.
    """
    with record.Lock(out, LOCK):
        for name in leftovers.end(out / leftovers.BOOK):
            say(f"Ended {name}, which a killed deployment had left running")
        if leftovers.remove_folder(out.resolve()):
            say("Removed the temporary folder that a killed deployment had left")
        return _launch(recall(out, recipe) if recipe.settings.get("resume") else recipe, out, say, started)


def _launch(
    recipe: DeploySettings,
    out: Path,
    say: Callable[[str], None],
    started: Callable[[Federation], None] | None,
) -> Summary | None:
    home = Path(tempfile.mkdtemp(prefix="amsfl-"))
    try:
        leftovers.note_folder(out.resolve(), home)
        prepared = (_own if recipe.app else _ready_made)(recipe, home, out.resolve())
        if recipe.dealt not in ("", prepared.dealt):
            raise UserError("The deployment began with other data or another partition; go on with those.")
        if recipe.settings.get("force"):
            forget_clients(out)
        remember(out, recipe._replace(dealt=prepared.dealt))
        clients = len(prepared.nodes)
        keys = certificates.make(home / "keys", clients) if recipe.tls else None
        with loopback(home / "flower", keys, out.resolve() / leftovers.BOOK) as running:
            say(f"SuperLink on {running.address}{' with TLS' if keys else ''}, {clients} SuperNodes")
            if not recipe.app:  # of a server of somebody else's nobody here knows
                say(protection(recipe))
            for place, node in enumerate(prepared.nodes):
                if keys:
                    register(running, keys.nodes[place])
                running.node(f"supernode-{place}", node, keys.nodes[place] if keys else None)
            if started:
                started(running)
            follow(running, home / "app", say, ("",) if recipe.app else OURS)
    finally:
        leftovers.remove_folder(out.resolve())
        shutil.rmtree(home, ignore_errors=True)
    return record.read_run(out).summary if record.holds_record(out) else None


def describe(settings: DeploySettings, out: Path) -> list[str]:
    """The commands that `launch` would start, and what the app and its nodes are told; nothing is started."""
    with tempfile.TemporaryDirectory(prefix="amsfl-") as folder:
        home = Path(folder)
        prepared = (_own if settings.app else _ready_made)(settings, home, out.resolve())
        tls = [f"{len(prepared.nodes)} SuperNode keys, an authority and a certificate would be made"]
        federation = Federation(home / "flower", 0)
        lines = [shlex.join(federation.link_command())]
        lines += [shlex.join(federation.node_command(node)) for node in prepared.nodes]
        lines.append(shlex.join(["flwr", "run", str(home / "app"), "local", "--stream"]))
        lines.append((home / "app" / "pyproject.toml").read_text().strip())
        plain = [line.replace(folder, "TEMPORARY").replace("127.0.0.1:0", "127.0.0.1:PORT") for line in lines]
        return [*(tls if settings.tls else []), *plain, f"The record would be in {out}."]


def _ready_made(recipe: DeploySettings, home: Path, out: Path) -> PreparedApp:
    """Our own app, with the data dealt to files."""
    settings = recipe.settings
    config = checked(settings)
    mechanism = mechanism_of(config)
    method = method_of(config, CustomParts(), mechanism)
    policy = policy_of(config, method)
    source = load_data(config)
    shards = deal(config, home / "shards", source)
    clients = len(shards)  # the data's own sites, where it has a column of them
    end = round_end_of(config, method, config.cohort or clients)  # refused before anything starts
    if mechanism is not None:
        mechanism.check(private_settings(config), method, policy, end)
        check_public(config, source.name)
    own = privacy_remarks(config, mechanism, method, NOTHING, rows_of(shards))
    for line in (*remarks(config, method, policy, clients, end), *own):
        warnings.warn(line, Remark, stacklevel=2)
    write_app(home / "app", {**settings, "clients": clients, "out": str(out), "shards": str(home / "shards")})
    names = _sayable(client_names(config, source))
    own_keys = [{"shard": str(shard)} for shard in shards]
    for keys, name in zip(own_keys, names, strict=False):  # of whom none may have one
        keys["client"] = name
    return PreparedApp(_node_configs(recipe, out, own_keys), checksum(home / "shards"))


def _sayable(names: Sequence[str]) -> Sequence[str]:
    """The sites' names, if a node-config's quotes can hold all of them; else clients go by number."""
    fit = all(
        name.isprintable() and 0 < len(name) <= LONGEST_NAME and not set("\"'\\") & set(name)
        for name in names
    )
    return names if fit and len(set(names)) == len(names) else ()


def _own(recipe: DeploySettings, home: Path, out: Path) -> PreparedApp:
    """The user's app, which finds its data itself: by `partition-id`, and by keys of its run-config."""
    app = user_app.read(Path(recipe.app))
    extra = user_app.parse(recipe.run_config, app)
    clients = user_app.clients(app, recipe.settings, extra)
    settings = {**recipe.settings, "clients": clients}
    checked(settings)
    user_app.copy(app, home / "app", flat({**settings, "out": str(out)}) | extra)
    return PreparedApp(_node_configs(recipe, out, [{}] * clients))


def _node_configs(recipe: DeploySettings, out: Path, own: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every client's: which one it is, how slow it is to be (step_loop.pace_of), what it spends, and keys of
    its own."""
    clients = len(own)
    if recipe.slowdowns and len(recipe.slowdowns) != clients:
        raise UserError(
            f"{len(recipe.slowdowns)} slowdowns for {clients} clients; give each its own: --slowdowns 1,2,4."
        )
    common = {"num-partitions": clients, "state-dir": str(out / CLIENTS)}
    common |= {"step-seconds": float(recipe.step_seconds)}
    slow = [float(each) for each in recipe.slowdowns] or [1.0] * clients
    spends = [flat(each) for each in recipe.spends] or [{}] * clients
    return [
        {"partition-id": place, **common, "slowdown": slowdown, **keys, **costs}
        for place, (slowdown, keys, costs) in enumerate(zip(slow, own, spends, strict=True))
    ]


def register(running: Federation, key: Path) -> None:
    """Tell the SuperLink a SuperNode's public key."""
    done = running.flwr("supernode", "register", str(key.with_suffix(".pub")), "local")
    if done.returncode:
        why = (done.stdout + done.stderr)[-500:]
        raise UserError(f"The SuperLink did not take the key {key.name}: {why}")


def follow(
    running: Federation, app: Path, say: Callable[[str], None], begins: tuple[str, ...] = OURS
) -> None:
    """`flwr run` to its end, passing on the lines that begin so: what the ServerApp says of its rounds."""
    process = running.start("run", ["flwr", "run", str(app), "local", "--stream"])
    with running.log("run").open(encoding="utf-8", errors="replace") as log:
        while True:
            ended = process.poll() is not None
            for line in log:
                if line.startswith(begins):
                    say(COLOUR.sub("", line.rstrip()))
            if ended:
                break
            time.sleep(0.2)
    text = COLOUR.sub("", running.log("run").read_text(errors="replace"))
    why = complaint(text, bool(process.returncode))
    if why:
        raise UserError(why)


def complaint(text: str, failed: bool) -> str | None:
    """Why a run failed, by its log; a sentence of ours, wherever the server raised it. What clients were
    refused for is no failure of the run."""
    lines = [line for line in text.splitlines() if not line.startswith(REFUSED)]
    sentences = [line.partition("UserError: ")[2] for line in lines if "UserError: " in line]
    if sentences:
        return sentences[-1]
    if failed or any(re.search(r"\bERROR *:", line) for line in lines):
        return f"The run failed: {text[-1500:]}"
    return None
