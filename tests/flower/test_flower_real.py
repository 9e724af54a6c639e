"""A real SuperLink and three real SuperNodes on loopback, and everything that may go wrong with them.

One federation serves all tests of this file but the last; each test is one `flwr run` on it. The app
under test is written into a folder below. Everything is ended by its own process id.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flower_project import project

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl import data, methods, sampling
from amsfl.engines import Orders, models, task
from amsfl.engines.loop_engine import LoopEngine
from amsfl.flower.deploy import certificates
from amsfl.flower.deploy import run as deploying
from amsfl.flower.deploy.processes import Federation, loopback
from amsfl.record import holds_record, read_run
from amsfl.record.run import load_checkpoint

BATCH, LR = 16, 0.1
STEPS = [[3, 1, 5], [2, 4, 1]]
# every kind of state and of step; test_flower_in_process.py has all methods
NAMES = ("fedavg", "fedprox", "fednova", "scaffold", "feddyn", "fedcsda", "amsfl", "delta-sgd")
TWICE = ("scaffold",)  # its client state must have come back by the second round

CONFIG = """\
scene = "methods"
folder = ""
out = ""
resume = false
rounds = 1
give-up = 60.0
"""
PROJECT = project("trial", "app:server", "app:client", CONFIG)

APP = '''
"""Clients of softmax regression in numpy, on minibatches that the test has drawn; two methods through jax."""
import json, os, threading
from pathlib import Path

import numpy as np
from flwr.app import ConfigRecord, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from amsfl.flower import messages
from amsfl.flower.client.app import client_app
from amsfl.flower.client.numpy_client import NumpyTrainer

BATCH, LR, STEPS = 16, 0.1, [[3, 1, 5], [2, 4, 1]]


def load(context):
    with np.load(context.run_config["folder"] + f"/shard-{context.node_config['partition-id']}.npz") as file:
        return {key: file[key] for key in file.files}


def plain(context):
    held = load(context)

    def gradient(x, step, order):
        rows = held["picks"][order.round % len(held["picks"]), step]
        a, y = held["x"][rows], held["y"][rows]
        z = a @ x[:640].reshape(10, 64).T + x[640:]
        z = z - z.max(1, keepdims=True)
        p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        loss = -np.log(p[np.arange(len(y)), y]).mean()
        p[np.arange(len(y)), y] -= 1
        return loss, np.concatenate([(p.T @ a / len(y)).ravel(), p.mean(0)])

    return NumpyTrainer(len(held["y"]), np.zeros(650, np.float32), gradient)


def through_jax(context):
    from amsfl.flower.client.jax_client import JaxTrainer, Shard

    held = load(context)
    return JaxTrainer(Shard(held["x"], held["y"], 10, "softmax"))


def poison(reply, context):
    """Client 1 of scene `faults` lies in another way every round."""
    number, content = int(reply.content["echo"]["round"]), reply.content
    delta = messages.arrays(content, "upload")["delta"]
    if number == 1:
        content["upload"] = messages.pack_arrays({"delta": delta * np.float32("nan"), "extra": delta[:0]})
    elif number == 2:
        content["upload"] = messages.pack_arrays({"delta": delta[1:], "extra": delta[:0]})
    elif number == 3:
        content["echo"] = ConfigRecord({**dict(content["echo"]), "round": 0})


client = ClientApp()
numbers, jaxed = client_app(plain), client_app(through_jax)


@client.query()
def query(message, context):
    return numbers(message, context)


@client.train()
def train(message, context):
    if message.content["order"]["method"] in ("fedcsda", "amsfl"):
        return jaxed(message, context)
    reply = numbers(message, context)
    if context.run_config["scene"] == "faults" and context.node_config["partition-id"] == 1:
        poison(reply, context)
    return reply


class Locked:
    """One grid for several servers in threads, one call at a time."""

    def __init__(self, grid):
        self.grid, self.lock = grid, threading.Lock()

    def __getattr__(self, name):
        def call(*arguments):
            with self.lock:
                return getattr(self.grid, name)(*arguments)

        return call


server = ServerApp()


@server.main()
def main(grid, context):
    from amsfl import drift, methods
    from amsfl.simulation import serve_config
    from amsfl.planning.planner import Decision, Planner, PlannerMemory
    from amsfl.flower.server.app import merged, serve
    from amsfl.flower.server.options import ServerOptions
    from amsfl.flower.server.server import FlowerServer

    folder = Path(context.run_config["folder"])
    (folder / "server.pid").write_text(str(os.getpid()))
    start = np.load(folder / "start.npy")

    def planner(weights):
        def decide(memory, number, cohort, costs):
            return Decision(np.array(STEPS[number % 2])[cohort], LR, 1.0, {})

        nothing = PlannerMemory(drift.Rate(), drift.start(0))
        return Planner(lambda: nothing, decide, lambda memory, *rest: memory)

    if context.run_config["scene"] == "faults":
        settings = merged({"method": "fedavg", "clients": 3, "batch": BATCH}, context.run_config)
        serve(grid, settings, None, start, planner)
        return
    shared, servers = Locked(grid), {}
    for name in METHOD_NAMES:
        rounds = 2 if name == "scaffold" else 1
        settings = {"method": name, "clients": 3, "rounds": rounds, "batch": BATCH, "give_up": 300.0}
        settings |= {"round_end": "all", "held_back": 0.0}
        out = Path(context.run_config["out"]) / name
        options = ServerOptions(None, start, planner, out)
        servers[name] = FlowerServer(shared, serve_config(settings), options)
    seats = servers["fedavg"].registration.gather()
    for one in servers.values():
        one.registration.gather = lambda: list(seats)
    threads = [threading.Thread(target=one.run) for one in servers.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
'''


def digits_task() -> Any:
    source = data.load("digits")
    parts = data.partition("dirichlet:0.5", source.y, 3, 0)
    return task.make(source, models.make("softmax", 64, 10), [parts], [0]), source, parts


def write_app(where: Path) -> Path:
    (where / "app" / "trial").mkdir(parents=True)
    (where / "app" / "pyproject.toml").write_text(PROJECT)
    (where / "app" / "trial" / "__init__.py").write_text("")
    (where / "app" / "trial" / "app.py").write_text(textwrap.dedent(APP).replace("METHOD_NAMES", repr(NAMES)))
    job, source, parts = digits_task()
    np.save(where / "start.npy", job.start()[0])
    places = np.arange(BATCH, dtype=np.uint32)
    for client, rows in enumerate(parts):
        with np.errstate(over="ignore"):
            keys = [sampling.stream(*map(sampling.words, (0, number, client))) for number in range(2)]
            picks = [
                [sampling.draw(key, sampling.words(step), places, np.int32(len(rows))) for step in range(5)]
                for key in keys
            ]
        shard = {"x": source.x[rows], "y": source.y[rows], "picks": np.array(picks)}
        np.savez(where / f"shard-{client}.npz", **shard)
    return where / "app"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Federation, Path]]:
    where = tmp_path_factory.mktemp("stage")
    write_app(where)
    with loopback(where / "flower") as running:
        for place in range(3):
            running.node(f"node-{place}", {"partition-id": place, "state-dir": str(where / "clients")})
        yield running, where


def launch(running: Federation, where: Path, name: str, **settings: Any) -> "subprocess.Popen[bytes]":
    pairs = {"folder": str(where), "out": str(where / name), **settings}
    config = " ".join(f"{key}={json.dumps(value)}" for key, value in pairs.items())
    command = ["flwr", "run", str(where / "app"), "local", "--stream", "--run-config", config]
    return running.start(f"run-{name}-{time.monotonic_ns()}", command)


def records(out: Path) -> list[Any]:
    return read_run(out).rounds if holds_record(out) else []


def logs(running: Federation) -> str:
    parts = sorted(running.home.glob("*.log"))
    return "\n".join(f"== {path.name}\n{path.read_text(errors='replace')[-3000:]}" for path in parts)


def finished(running: Federation, process: "subprocess.Popen[bytes]", seconds: float = 240) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        pytest.fail(f"the run did not end within {seconds} s\n{logs(running)}")


def until(running: Federation, done: Any, what: str, run: Any = None, seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not done():
        over = run is not None and run.poll() is not None
        if over or time.monotonic() > end:
            pytest.fail(f"{what}: {'the run ended' if over else 'not in time'}\n{logs(running)}")
        time.sleep(0.1)


def reasons(out: Path) -> list[str]:
    return [f"{item['client']}: {item['reason']}" for r in records(out) for item in r.plan["refused"]]


def test_first_rounds_equal_the_loop_engine(stage: tuple[Federation, Path]) -> None:
    running, where = stage
    finished(running, launch(running, where, "methods"))
    job, _, _ = digits_task()
    for name in NAMES:
        method = methods.make(name)
        engine = LoopEngine(job, method, BATCH, method.facts.readings)
        state = engine.start()
        rounds = 2 if name in TWICE else 1
        for number in range(rounds):
            orders = Orders(np.arange(3)[None], np.array([STEPS[number]]), np.array([LR]), job.shards.weights)
            state, outcome = engine.round(state, orders, number)
        out = where / "methods" / name
        found, point = records(out), load_checkpoint(out)
        assert point is not None and len(found) == rounds, f"{name}\n{logs(running)}"
        assert [record.steps for record in found] == STEPS[:rounds], name
        assert not reasons(out), name
        np.testing.assert_allclose(point.arrays["anchor"], state.anchor, rtol=1e-4, atol=1e-5, err_msg=name)
        if method.facts.readings:
            for field, column in outcome.readings._asdict().items():
                read = np.array(found[-1].readings[field], float)  # None: NaN
                np.testing.assert_allclose(read, column[0], rtol=1e-3, atol=1e-5, err_msg=field)
        for record in found:
            assert record.round_seconds["makespan"] >= max(record.plan["compute_seconds"])
            assert all(seconds > 0 for seconds in record.plan["step_seconds"])


def test_poison_a_stopped_node_a_dead_node_and_a_killed_server(stage: tuple[Federation, Path]) -> None:
    """One run through all of it, in the order in which it happens."""
    running, where = stage
    out = where / "faults"
    # every method had a round or two, one after another at every node: what one takes here, now
    done = [record for name in NAMES for record in records(where / "methods" / name)]
    usual = max(record.seconds["makespan"] for record in done) / len(done)
    deadline = float(np.clip(6 + 3 * usual, 8, 60))
    settings = {"scene": "faults", "give-up": deadline}
    run = launch(running, where, "faults", **settings, rounds=100)  # ended long before

    # rounds 2 to 4: client 1 sends NaN, a wrong shape, an old round. Meanwhile node 2 stops.
    until(running, lambda: len(records(out)) >= 1, "the first round", run)
    running.send("node-2", signal.SIGSTOP)
    # where rounds are so slow that Flower misses the node's heartbeat before the deadline, it says so first
    left_out = ("2: late: no reply", "2: gone")
    until(running, lambda: any(r.startswith(left_out) for r in reasons(out)), "node 2 left out", run)
    running.send("node-2", signal.SIGCONT)
    came = [record.round for record in records(out)][-1]

    def back() -> bool:
        return any(2 in record.cohort for record in records(out) if record.round > came)

    until(running, back, "node 2 back", run)
    if any(reason.startswith("2: late: no reply") for reason in reasons(out)):
        assert any(reason.startswith("2: late reply: ") for reason in reasons(out)), reasons(out)

    # the server is killed; a new one goes on from the last round on record
    os.kill(int((where / "server.pid").read_text()), signal.SIGKILL)
    before = [record.round for record in records(out)]
    name = next(name for name in running.running if running.running[name] is run)
    number = re.findall(r"started run (\d+)", running.log(name).read_text())[-1]
    running.end(name, grace=1)
    # nodes in the middle of a message would wait a minute until Flower misses the server's heartbeat
    running.flwr("stop", number, "local")
    last = len(before) + 3
    again = launch(running, where, "faults", **settings, rounds=last, resume=True)
    until(running, lambda: len(records(out)) > len(before), "a round after resuming", again)

    # node 0 dies for good; the others finish
    running.end("node-0", signal.SIGKILL)
    finished(running, again)
    found = records(out)
    assert [record.round for record in found] == list(range(1, last + 1)), logs(running)
    told = reasons(out)
    for wanted in ("1: not finite: delta", "1: shape: delta is (649,)", "1: replayed round"):
        assert any(reason.startswith(wanted) for reason in told), (wanted, told)
    assert any(reason.startswith(("0: late", "0: gone")) for reason in told), told
    assert found[-1].cohort == [1, 2]
    for record in found:
        assert record.steps == [STEPS[(record.round - 1) % 2][who] for who in record.cohort]
        assert not (1 in record.cohort and record.round in (2, 3, 4)), record
    summary = read_run(out).summary
    assert summary.status == "finished" and summary.refused == len(told)


def test_deploy_with_tls_turns_a_wrong_key_away_and_leaves_nothing(tmp_path: Path) -> None:
    """`amsfl deploy --tls`: two SuperNodes with registered keys, and an intruder whose key nobody knows."""
    seen: dict[str, Any] = {}

    def started(running: Federation) -> None:
        key = certificates.node_key(tmp_path / "intruder.key")
        running.node("intruder", {"partition-id": 0, "shard": "/nowhere"}, key)
        seen["running"] = running

    def say(line: str) -> None:
        if line.startswith("round 1"):  # the others have long been let in
            running = seen["running"]
            intruder = running.running["intruder"]
            until(running, lambda: intruder.poll() is not None, "the intruder turned away", seconds=90)
            seen["code"], seen["log"] = intruder.returncode, running.log("intruder").read_text()
            seen["groups"] = [process.pid for process in running.running.values()]

    settings = {"method": "fedavg", "data": "digits", "model": "softmax", "clients": 2, "rounds": 1}
    out = tmp_path / "run"
    recipe = deploying.DeploySettings(settings, [1, 2], 0.01, True)
    summary = deploying.launch(recipe, out, say, started)
    assert summary.status == "finished" and summary.rounds == 1
    (record,) = records(out)
    assert record.cohort == [0, 1] and record.plan["step_seconds"][1] >= 0.02 > 0.01
    assert seen["code"] != 0 and "SuperNode ID" not in seen["log"], seen["log"]
    assert not seen["running"].home.exists()
    assert not living(seen["groups"])


def test_ctrl_c_ends_a_deployment(tmp_path: Path) -> None:
    """SIGINT to `amsfl deploy` while it starts: nothing it started is left."""
    code = (
        "from pathlib import Path; from amsfl.flower.deploy.run import deploy; "
        "deploy(dict(method='fedavg', data='digits', model='softmax', clients=2, rounds=1), "
        f"Path({str(tmp_path / 'run')!r}), say=print)"
    )
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", code]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("SuperLink on")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) != 0
    assert not list(tmp_path.glob("amsfl-*")), "its folder is gone, and with it every log of a process"
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # Flower's home was in there, and its children inherit it
            assert f"FLWR_HOME={tmp_path}".encode() not in path.read_bytes(), path


def living(groups: list[int]) -> list[str]:
    """Processes of these groups that still run; the dead whom nobody has buried yet do not count."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, group = path.read_text().rsplit(")", 1)[1].split()[:3]
            found += [path.read_text()] if int(group) in groups and state != "Z" else []
    return found
