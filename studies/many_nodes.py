"""Many real SuperNodes on one machine: rounds, memory, and seconds a round beyond its steps.

    python studies/many_nodes.py --nodes 50 --rounds 10

The same command goes on where it stopped. flower/ has the logs of all processes.
"""

import argparse
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from statistics import median

from real_federation import KeptFederation, kept_federation

from amsfl.flower.deploy import builtin_app
from amsfl.record import read_run
from amsfl.simulation import serve_config

SETTINGS = {"method": "amsfl", "data": "digits", "model": "softmax", "give_up": 120.0, "patience": 900.0}
LOOK = 5.0  # seconds between two looks at the memory


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--poll", type=float, default=1.0, help="seconds between two questions of a node")
    parser.add_argument("--out", type=Path, default=Path("results/many-nodes"))
    return parser.parse_args()


def shared_fairly(pids: Iterable[int]) -> float:
    """Megabytes of these processes together: what n of them share counts a n-th for each."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


def run(given: argparse.Namespace) -> None:
    out, folder = given.out.resolve(), given.out.resolve() / "run"
    settings = {**SETTINGS, "clients": given.nodes, "rounds": given.rounds, "out": str(folder)}
    if (folder / "rounds.jsonl").exists():
        settings["resume"] = True
    shards = builtin_app.deal(
        serve_config({**SETTINGS, "clients": given.nodes, "rounds": given.rounds}), out / "shards"
    )
    builtin_app.write_app(out / "app", {**settings, "shards": str(out / "shards")})
    with kept_federation(out / "flower", folder) as federation:
        for place, shard in enumerate(shards):
            config = {"partition-id": place, "shard": str(shard)}
            federation.keep_node(f"node-{place}", config, given.poll)
        federation.start_run(out / "app")
        began = time.monotonic()
        watch(federation)
        print(f"The run ended by itself after {time.monotonic() - began:.0f} s.", flush=True)


def watch(federation: KeptFederation) -> None:
    """Until the run ends; prints what all processes held at most."""
    most: dict[str, float] = {}
    while federation.run.poll() is None:
        together = {kind: shared_fairly(pids) for kind, pids in federation.processes().items()}
        together["all"] = sum(together.values())
        now = together | {f"one {kind}": size for kind, size in federation.memory().items()}
        most = {kind: max(size, most.get(kind, 0.0)) for kind, size in now.items()}
        time.sleep(LOOK)
    print("  MB at most: " + ", ".join(f"{kind} {size:.0f}" for kind, size in most.items()), flush=True)


def report(given: argparse.Namespace) -> None:
    record = read_run(given.out / "run")
    print(f"{len(record.rounds)} of {given.rounds} rounds, {record.summary and record.summary.status}")
    print(f"  clients in a round: {min(len(each.cohort) for each in record.rounds)} at least")
    seconds = [each.wall["seconds"] for each in record.rounds]
    pairs = [zip(each.steps, each.plan["step_seconds"], strict=True) for each in record.rounds]
    steps = [max(count * cost for count, cost in some) for some in pairs]
    beyond = [whole - work for whole, work in zip(seconds, steps, strict=True)]
    print(f"  seconds a round: {median(seconds):.1f} (median), beyond the longest steps {median(beyond):.1f}")
    print(f"  accuracy {record.summary and record.summary.accuracy}")


if __name__ == "__main__":
    given = arguments()
    given.out.mkdir(parents=True, exist_ok=True)
    run(given)
    report(given)
