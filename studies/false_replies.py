"""Thousands of false replies of more than a hundred kinds, from real nodes, in one run: does it end well?

A few honest `amsfl supernode`s train AMSFL on digits, among many nodes that answer every order with another
false reply (false_nodes.py, false_kinds.py). At the end the model is held against that of the honest clients
alone.

    python studies/false_replies.py --rounds 120 --honest 4 --liars 25

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

SETTINGS = {
    "method": "amsfl",
    "data": "digits",
    "model": "softmax",
    "give_up": 60.0,
    "eval_every": 10,
    "poll": 1.0,
    "partition": "iid",
}
NODE_POLL = 1.0  # seconds between two questions to the SuperLink, which is one process for all of them


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=120)
    parser.add_argument("--honest", type=int, default=4)
    parser.add_argument("--liars", type=int, default=25)
    parser.add_argument("--out", type=Path, default=Path("results/false-replies"))
    return parser.parse_args()


def run(given: argparse.Namespace) -> None:
    """On real nodes, until it ends by itself."""
    out, folder = given.out.resolve(), given.out.resolve() / "run"
    settings = {**SETTINGS, "clients": given.honest + given.liars, "rounds": given.rounds}
    shards = builtin_app.deal(serve_config(settings), out / "shards")
    with tempfile.TemporaryDirectory(prefix="amsfl-false-") as home:
        resume = {"resume": True} if (folder / "rounds.jsonl").exists() else {}
        app, liars = Path(home) / "app", Path(__file__).resolve().with_name("false_nodes.py")
        builtin_app.write_app(app, {**settings, **resume, "out": str(folder), "shards": str(out / "shards")})
        with kept_federation(out / "flower", folder) as federation:
            for place, shard in enumerate(shards[: given.honest]):
                federation.keep_node(f"node-{place}", {"partition-id": place, "shard": str(shard)}, NODE_POLL)
            rest = [str(out / "shards"), str(given.honest), str(given.liars)]
            federation.running.start("liars", ["python", str(liars), federation.running.address, *rest])
            began = time.monotonic()
            federation.start_run(app)
            federation.run.wait()
            print(f"The run ended by itself after {time.monotonic() - began:.0f} s.", flush=True)


def report(given: argparse.Namespace) -> None:
    record = read_run(given.out / "run")
    refused = [item for each in record.rounds for item in each.plan["refused"]]
    lies = [item for item in refused if item["client"] is not None and item["client"] >= given.honest]
    taken = sum(who >= given.honest for each in record.rounds for who in each.cohort)
    heard = min(sum(who < given.honest for who in each.cohort) for each in record.rounds)
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
    shards, places = given.out.resolve() / "shards", range(given.honest)
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
