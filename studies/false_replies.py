"""Thousands of false replies of more than a hundred kinds, from real nodes, in one run: does it end well?

`amsfl supernode`s on this machine train AMSFL on digits. Almost half of them answer every order with another
false reply (false_kinds.py). At the end the model is held against that of the honest clients alone.

    python studies/false_replies.py --rounds 300 --nodes 21 --liars 10

The same command goes on where it stopped. flower/ has the logs of all processes.
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
NODE_POLL = 1.0  # seconds between two questions to the SuperLink, which is one process for all of them
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
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--nodes", type=int, default=21)
    parser.add_argument("--liars", type=int, default=10, help="of them, fewer than half")
    parser.add_argument("--out", type=Path, default=Path("results/false-replies"))
    return parser.parse_args()


def run(given: argparse.Namespace) -> None:
    """On real nodes, until it ends by itself."""
    out, folder = given.out.resolve(), given.out.resolve() / "run"
    settings = {**SETTINGS, "clients": given.nodes, "rounds": given.rounds}
    shards = builtin_app.deal(serve_config(settings), out / "shards")
    with tempfile.TemporaryDirectory(prefix="amsfl-false-") as home:
        resume = {"resume": True} if (folder / "rounds.jsonl").exists() else {}
        app, studies = Path(home) / "app", str(Path(__file__).resolve().parent)
        builtin_app.write_app(app, {**settings, **resume, "out": str(folder), "shards": str(out / "shards")})
        (app / "amsfl_deploy" / "app.py").write_text(APP.format(studies=studies))
        with kept_federation(out / "flower", folder) as federation:
            for place, shard in enumerate(shards):
                node = {"partition-id": place, "shard": str(shard), "liars": given.liars}
                federation.keep_node(f"node-{place}", node, NODE_POLL)
            began = time.monotonic()
            federation.start_run(app)
            federation.run.wait()
            print(f"The run ended by itself after {time.monotonic() - began:.0f} s.")


def report(given: argparse.Namespace) -> None:
    record = read_run(given.out / "run")
    refused = [item for each in record.rounds for item in each.plan["refused"]]
    lies = [item for item in refused if item["client"] is not None and item["client"] < given.liars]
    taken = sum(who < given.liars for each in record.rounds for who in each.cohort)
    heard = min(sum(who >= given.liars for who in each.cohort) for each in record.rounds)
    scores = [each.metrics["holdout"]["accuracy"] for each in record.rounds if "holdout" in each.metrics]
    print(f"{len(record.rounds)} of {given.rounds} rounds, {record.summary and record.summary.status}")
    print(f"  {len(lies) + taken} false replies of {len(kinds())} kinds: {len(lies)} refused, {taken} taken")
    print(
        f"  refusals of honest clients: {len(refused) - len(lies)}; in every round {heard} of them at least"
    )
    print(f"  accuracy {scores[-1]:.3f}; the honest clients alone: {honest_accuracy(given):.3f}")
    for reason, count in Counter(item["reason"].split(":")[0] for item in lies).most_common(20):
        print(f"  {count:5} {reason}")


def honest_accuracy(given: argparse.Namespace) -> float:
    """Of as many rounds without the others, in one process."""
    shards, places = given.out.resolve() / "shards", range(given.liars, given.nodes)
    nodes = [{"partition-id": place, "shard": str(shards / f"shard-{place}.npz")} for place in places]
    grid = InProcessGrid(builtin_app.client, nodes, {"model": SETTINGS["model"]})
    settings = {**SETTINGS, "clients": len(nodes), "rounds": given.rounds, "poll": 0.001}
    model = str(SETTINGS["model"])
    _, records = serve(
        grid,
        settings,
        builtin_app.scorer(shards, model),
        lambda config: builtin_app.first_model(shards, model, 0),
    )
    return float(records[-1].metrics["holdout"]["accuracy"])


if __name__ == "__main__":
    given = arguments()
    given.out.mkdir(parents=True, exist_ok=True)
    run(given)
    report(given)
