"""Thousands of false replies of more than a hundred kinds, from real nodes, in one run: does it end well?

Eleven `amsfl supernode`s train AMSFL on digits. Five of them answer every order with another false reply
(false_kinds.py). At the end the model is held against one that the
same clients make when all of them are honest.

    python studies/false_replies.py --rounds 600

The same command goes on where it stopped.
"""

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

from false_kinds import kinds
from real_federation import kept_federation

from amsfl.flower.deploy import builtin_app
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.server.app import serve
from amsfl.record import read_run
from amsfl.simulation import serve_config

SETTINGS = {"method": "amsfl", "data": "digits", "model": "softmax", "give_up": 60.0, "eval_every": 10}
APP = """
import sys

from flwr.clientapp import ClientApp

from amsfl.flower.deploy.builtin_app import client as honest
from amsfl.flower.deploy.builtin_app import server

sys.path.insert(0, {studies!r})
from false_kinds import kinds

EVERY = list(kinds().values())
client = ClientApp()


@client.query()
def query(message, context):
    return honest(message, context)


@client.train()
def train(message, context):
    reply = honest(message, context)
    liars, place = int(context.node_config["liars"]), int(context.node_config["partition-id"])
    if place < liars:
        EVERY[(int(message.content["order"]["round"]) * liars + place) % len(EVERY)](reply.content)
    return reply


__all__ = ["client", "server"]
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=600)
    parser.add_argument("--nodes", type=int, default=11)
    parser.add_argument("--liars", type=int, default=5, help="of them, fewer than half")
    parser.add_argument("--seconds", type=float, default=86400.0, help="stop after so long, to go on later")
    parser.add_argument("--out", type=Path, default=Path("results/false-replies"))
    return parser.parse_args()


def run(given: argparse.Namespace) -> bool:
    """On real nodes; whether it ended by itself."""
    out, folder = given.out.resolve(), given.out.resolve() / "run"
    settings = {**SETTINGS, "clients": given.nodes, "rounds": given.rounds}
    shards = builtin_app.deal(serve_config(settings), out / "shards")
    with tempfile.TemporaryDirectory(prefix="amsfl-false-") as home:
        resume = {"resume": True} if (folder / "rounds.jsonl").exists() else {}
        app, studies = Path(home) / "app", str(Path(__file__).parent)
        builtin_app.write_app(app, {**settings, **resume, "out": str(folder), "shards": str(out / "shards")})
        (app / "amsfl_deploy" / "app.py").write_text(APP.format(studies=studies))
        with kept_federation(Path(home) / "flower", folder, Path(home) / "superlink.db") as federation:
            for place, shard in enumerate(shards):
                node = {"partition-id": place, "shard": str(shard), "liars": given.liars}
                federation.keep_node(f"node-{place}", node)
            federation.start_run(app)
            until = time.monotonic() + given.seconds
            while federation.run.poll() is None and time.monotonic() < until:
                time.sleep(1)
            ended = federation.run.poll() is not None
            if ended and federation.rounds() < given.rounds:
                print(federation.running.log("run-1").read_text(errors="replace")[-3000:])
            return ended


def report(given: argparse.Namespace) -> None:
    record = read_run(given.out / "run")
    refused = [item for each in record.rounds for item in each.plan["refused"]]
    false = given.liars * len(record.rounds)
    honest = [item for item in refused if (item["client"] or 0) >= given.liars]
    heard = min(sum(who >= given.liars for who in each.cohort) for each in record.rounds)
    scores = [each.metrics["holdout"]["accuracy"] for each in record.rounds if "holdout" in each.metrics]
    print(
        f"{len(record.rounds)} rounds, {false} false replies of {len(kinds())} kinds, {len(refused)} refused"
    )
    print(f"  refusals of honest clients: {len(honest)}; honest clients in every round: {heard} at least")
    print(f"  accuracy {scores[-1]:.3f}; the same clients, all honest: {honest_accuracy(given):.3f}")
    for reason, count in Counter(item["reason"].split(":")[0] for item in refused).most_common(12):
        print(f"  {count:5} {reason}")


def honest_accuracy(given: argparse.Namespace) -> float:
    """Of as many rounds with all clients honest, in one process."""
    shards = given.out.resolve() / "shards"
    nodes = [
        {"partition-id": place, "shard": str(shards / f"shard-{place}.npz")} for place in range(given.nodes)
    ]
    grid = InProcessGrid(builtin_app.client, nodes, {"model": SETTINGS["model"]})
    settings = {**SETTINGS, "clients": given.nodes, "rounds": given.rounds, "poll": 0.001}
    score = builtin_app.scorer(shards, str(SETTINGS["model"]))
    _, records = serve(grid, settings, score, builtin_app.first_model(shards, str(SETTINGS["model"]), 0))
    return float(records[-1].metrics["holdout"]["accuracy"])


if __name__ == "__main__":
    given = arguments()
    given.out.mkdir(parents=True, exist_ok=True)
    ended = run(given)
    print("The run ended by itself." if ended else "Stopped; the same command goes on.")
    report(given)
