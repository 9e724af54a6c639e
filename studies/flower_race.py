"""Is planning worth it on real nodes? Five SuperNodes, 1 to 16 times slow, run examples/flower-app.

    python studies/flower_race.py                     # three seeds of the race, then all that may break
    python studies/flower_race.py --seeds 0 --arms amsfl,fedavg-20 --seconds 20 --faults ""
    python studies/flower_race.py --seeds ""          # only the tables of the rows that are there
A SuperLink and five `amsfl supernode` stay up for the whole study. Each run appends a row of JSON to
results/flower_race/rows.jsonl, and what is there is not run again. Seconds are those since `strategy.start`.
"""

import argparse
import itertools
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from flwr.app import ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg, FedAvgM, Strategy

from amsfl.flower import AMSFL, RoundGrid
from amsfl.planning.problem import Policy, as_plan

LINK = "127.0.0.1:8790"
APP = Path(__file__).resolve().parent.parent / "examples" / "flower-app"
STEP_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16)  # of the sites
LR, TARGETS, ROUNDS = 0.3, (0.65, 0.7, 0.75), 1000
FIVE = {"min_available_nodes": 5, "fraction_evaluate": 0.0}
THREE = FIVE | {"min_available_nodes": 3, "min_train_nodes": 3}  # others may be gone
STRIKE, AWAY = 5, 30.0  # the round after which something happens; seconds that it lasts

equal = Policy("1.28 s", lambda task, _: as_plan(task, np.clip(1.28 // task.step_seconds, 1, 64).astype(int)))
ARMS: dict[str, tuple[Callable[..., Strategy], dict[str, Any]]] = {
    "amsfl": (lambda: AMSFL(lr=LR, **FIVE), {}),
    "amsfl, stock replies": (lambda: AMSFL(lr=LR, **FIVE), {"tell": False}),
    "amsfl, 1.28 s for all": (lambda: AMSFL(lr=LR, policy=equal, **FIVE), {}),
}
for count in (5, 20, 50):
    stock = {"tell": False, "local-steps": count, "lr": LR}
    ARMS[f"fedavg-{count}"] = (lambda: FedAvg(**FIVE), stock)
    ARMS[f"fedavgm-{count}"] = (lambda: FedAvgM(**FIVE, server_momentum=0.9), stock)
STOP, CONTINUE, KILL = signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL
FAULTS: dict[str, tuple[dict[str, Any], int | None, list[int]]] = {  # the grid; signals, to which node
    "deadline of 3 s": ({"deadline": 3.0}, None, []),
    "quorum of three": ({"quorum": 3}, None, []),
    "a node stopped for 30 s": ({"quorum": 3}, 2, [STOP, CONTINUE]),
    "a node killed, another after 30 s": ({"quorum": 3}, 1, [KILL]),
    "the server killed and resumed": ({}, None, [KILL]),
}

# -- the server ----------------------------------------------------------------------------------------------

app = ServerApp()


class Enough(Exception):
    """The best target is reached, or the seconds are over."""


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs of one seed that have no row yet, one after another."""
    about: dict[str, Any] = json.loads(Path(str(context.run_config["about"])).read_text())
    FedAvg(**FIVE).start(RoundGrid(grid), first_model(), 1, train_config=ConfigRecord(ARMS["fedavg-5"][1]))
    for name in left(about):
        row = {"seed": about["seed"], "run": name, **run(grid, name, about)}
        with Path(about["rows"]).open("a") as file:
            file.write(json.dumps(row) + "\n")


def first_model() -> ArrayRecord:
    import task
    import torch

    torch.manual_seed(1)
    return ArrayRecord(task.Net().state_dict())


def run(grid: Grid, name: str, about: dict[str, Any]) -> dict[str, Any]:
    """One run; seconds, round and accuracy after each of its rounds."""
    import task

    home = Path(about["home"])
    make, config = ARMS.get(name, ARMS["amsfl"])
    settings, node, signals = FAULTS.get(name, ({}, None, []))
    strategy, record, path = make(), home / f"record-{name}", home / f"trace-{name}-{about['seed']}.json"
    if name in FAULTS:
        strategy = AMSFL(lr=LR, out=record, resume=record.exists(), **THREE)
    held = json.loads(path.read_text()) if path.exists() else {"began": time.time(), "trace": []}
    trace: list[Any] = held["trace"]  # also that of a server that was killed

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        seconds, net = time.time() - held["began"], task.Net()
        net.load_state_dict(arrays.to_torch_state_dict())
        loss, accuracy = task.test(net, *task.load_test(about["seed"]))
        again = any(line[1] == STRIKE for line in trace)
        trace.append((seconds, number, accuracy))
        path.write_text(json.dumps(held))
        if signals and number == STRIKE and not again:
            strike(home, node, *signals)
        if seconds >= about["seconds"] or (accuracy >= TARGETS[-1] and name in ARMS):
            raise Enough
        return MetricRecord({"loss": loss, "accuracy": accuracy})

    start, train = first_model(), ConfigRecord(config)
    with suppress(Enough):
        strategy.start(RoundGrid(grid, **settings), start, ROUNDS, train_config=train, evaluate_fn=evaluate)
    refused = sum(len(each["refused"]) for each in getattr(strategy, "log", []))
    return {"trace": trace, "refused": refused, "bytes": 10 * sum(len(each.data) for each in start.values())}


def strike(home: Path, node: int | None, now: int, later: int | None = None) -> None:
    if node is None:
        (home / "killed").touch()
        os.kill(os.getpid(), now)
    group = json.loads((home / "nodes.json").read_text())[node]
    os.killpg(group, now)
    if later is not None:
        threading.Timer(AWAY, os.killpg, (group, later)).start()


# -- the machines --------------------------------------------------------------------------------------------


class Federation:
    """A SuperLink and five SuperNodes here; a node that was killed is replaced after AWAY seconds."""

    def __init__(self, home: Path):
        self.home, self.bin = home, Path(sys.executable).parent
        self.env = os.environ | {"FLWR_HOME": str(home / "flwr"), "FLWR_TELEMETRY_ENABLED": "0"}
        self.env["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] = "1"
        (home / "flwr").mkdir(parents=True)
        where = f'[superlink.race]\naddress = "{LINK}"\ninsecure = true\n'
        (home / "flwr" / "config.toml").write_text(where)
        shutil.copytree(APP, home / "app")
        shutil.copy(__file__, home / "app" / "flower_race.py")
        text = (APP / "pyproject.toml").read_text().replace("server_app:app", "flower_race:app")
        (home / "app" / "pyproject.toml").write_text(text.replace('out = ""', 'about = ""\nout = ""'))
        self.link = self.start("superlink", "flower-superlink", "--insecure", "--port", LINK[-4:])
        while subprocess.run([self.bin / "flwr", "ls", "race"], env=self.env, capture_output=True).returncode:
            time.sleep(1)
        self.nodes = [self.node(place) for place in range(len(STEP_SECONDS))]
        self.gone: dict[int, float] = {}

    def start(self, name: str, *command: str) -> "subprocess.Popen[bytes]":
        log = (self.home / f"{name}.log").open("ab")
        whole = [str(self.bin / command[0]), *command[1:]]
        return subprocess.Popen(whole, env=self.env, stdout=log, stderr=log, start_new_session=True)

    def node(self, place: int) -> "subprocess.Popen[bytes]":
        about = ["--node-config", f"partition-id={place} step-seconds={STEP_SECONDS[place]}"]
        return self.start(f"node-{place}", "amsfl", "supernode", "--insecure", "--superlink", LINK, *about)

    def look(self) -> None:
        for place, node in enumerate(self.nodes):
            if node.poll() is not None and time.time() - self.gone.setdefault(place, time.time()) > AWAY:
                self.nodes[place] = self.node(place)
                del self.gone[place]
        (self.home / "nodes.json").write_text(json.dumps([node.pid for node in self.nodes]))

    def end(self) -> None:
        for process in (*self.nodes, self.link):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def race(federation: Federation, about: dict[str, Any]) -> None:
    """Flower runs until everything of this seed has its row: a second one after the server was killed."""
    home = federation.home
    (home / "about.json").write_text(json.dumps(about | {"home": str(home)}))
    while left(about):
        config = f'about="{home / "about.json"}" seed={about["seed"]}'
        command = "flwr", "run", str(home / "app"), "race", "--stream", "--run-config", config
        run = federation.start("run", *command)
        while run.poll() is None and left(about) and not (home / "killed").exists():
            federation.look()
            time.sleep(1)
        if (home / "killed").exists():
            (home / "killed").unlink()
            number = re.findall(r"run (\d+)", (home / "run.log").read_text())[-1]
            federation.start("stop", "flwr", "stop", number, "race").wait()
        elif left(about):
            raise SystemExit(f"The run ended early; {home} has the logs.")
        run.terminate()
        run.wait()


def left(about: dict[str, Any]) -> list[str]:
    """Runs of this seed that have no row yet."""
    have = {each["run"] for each in rows_of(Path(about["rows"])) if each["seed"] == about["seed"]}
    return [name for name in about["names"] if name not in have]


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


# -- the tables ----------------------------------------------------------------------------------------------


def show(path: Path) -> None:
    """Seconds, rounds and megabytes to each target, and how many times as fast as the others AMSFL is."""
    every = []
    for row in rows_of(path):
        gaps = [after[0] - before[0] for before, after in itertools.pairwise(row["trace"])]
        end = {"longest": max(gaps), "end": row["trace"][-1][2], "refused": row["refused"]}
        for target in TARGETS:
            line = next((line for line in row["trace"] if line[2] >= target), (math.nan, math.nan, 0.0))
            at = {"seed": row["seed"], "run": row["run"], "to": target, "seconds": line[0], "rounds": line[1]}
            every.append(at | {"MB": line[1] * row["bytes"] / 1e6, **end})
    frame = pandas.DataFrame(every)
    print(frame.to_string(index=False, na_rep="never", float_format="{:.3g}".format))
    for (target, seed), part in frame[frame["run"].isin(ARMS)].groupby(["to", "seed"]):
        seconds = part.set_index("run")["seconds"]
        others = seconds[~seconds.index.str.contains("amsfl")].fillna(math.inf)
        if "amsfl" in seconds and len(others):
            inner = others.sort_values().iloc[(len(others) - 1) // 2 : len(others) // 2 + 1].mean()
            best, middle = others.min() / seconds["amsfl"], inner / seconds["amsfl"]
            print(f"to {target}, seed {seed}: rivals / amsfl: {best:.2f} (best), {middle:.2f} (middle)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="0,1,2", help="of the race; what breaks is run with the first one")
    parser.add_argument("--arms", default=";".join(ARMS), help="names with ; between them")
    parser.add_argument("--faults", default=";".join(FAULTS), help="the same")
    parser.add_argument("--seconds", type=float, default=45.0, help="of a run at most")
    parser.add_argument("--out", type=Path, default=Path("results/flower_race"))
    asked = parser.parse_args()
    rows, seeds = asked.out.resolve() / "rows.jsonl", [int(each) for each in asked.seeds.split(",") if each]
    arms, faults = ([each for each in text.split(";") if each] for text in (asked.arms, asked.faults))
    rows.parent.mkdir(parents=True, exist_ok=True)
    federation = Federation(Path(tempfile.mkdtemp(prefix="flower-race-"))) if seeds else None
    try:
        for place, seed in enumerate(seeds):
            turn = place * len(arms) // len(seeds)  # another order for every seed
            names = arms[turn:] + arms[:turn] + (faults if not place else [])
            race(federation, {"seed": seed, "names": names, "seconds": asked.seconds, "rows": str(rows)})
    finally:
        if federation:
            federation.end()
    show(rows)
