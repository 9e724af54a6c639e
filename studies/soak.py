"""Five real nodes, hundreds of rounds, and a kill of something every ten: is a round lost, does memory grow?

A SuperLink with a database, five `amsfl supernode`s that a shell loop starts again, AMSFL on digits. Every
`--every` rounds, in turn: a node is killed, a node's worker, the server, the SuperLink; then the run is
stopped by `flwr stop`. Whatever ended the run, it is resumed from its record. A node that sticks is in no
round's cohort from then on: the report says how long each was out. Linux only: memory is read from /proc.

    python studies/soak.py --rounds 300 --every 10

The same command goes on where it stopped. soak.json has every round's seconds and memory, soak.png draws
them, flower/ has the logs of all processes.
"""

import argparse
import json
import signal
import statistics
import tempfile
import time
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from real_federation import KeptFederation, kept_federation

from amsfl.core import UserError
from amsfl.flower.deploy.builtin_app import deal, write_app
from amsfl.record import RoundRecord, read_run
from amsfl.simulation import serve_config

NODES = 5
KILLS = ("node", "worker", "server", "link", "stop")
SETTINGS = {
    "method": "amsfl",
    "data": "digits",
    "model": "softmax",
    "clients": NODES,
    "give_up": 30.0,
    "poll": 0.5,
}
NODE_POLL = 1.0  # seconds: a SuperLink with a database spends most of its own on these questions
STUCK = 240.0  # seconds without a round: something never came back


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--every", type=int, default=10, help="rounds between two kills")
    parser.add_argument("--seconds", type=float, default=86400.0, help="stop after so long, to go on later")
    parser.add_argument("--out", type=Path, default=Path("results/soak"))
    return parser.parse_args()


def break_something(federation: KeptFederation, what: str, number: int, again: Path) -> None:
    """One kill; where it ended the run, the run is resumed. Nodes and workers have their turns."""
    pids = federation.processes()
    if what in ("node", "worker"):
        some = pids[what]
        federation.kill(some[number % len(some) :][:1])
        return
    if what == "server":
        federation.kill(pids["server"])
        federation.stop_run()
    elif what == "stop":
        federation.stop_run()
    else:
        federation.running.end("superlink", signal.SIGKILL)
        federation.running.end(f"run-{federation.starts}", grace=1.0)
        federation.running.link()
    federation.start_run(again)


def soak(given: argparse.Namespace, rows: list[dict[str, Any]], book: Path) -> None:
    out, folder = given.out.resolve(), given.out.resolve() / "run"
    settings = {**SETTINGS, "rounds": given.rounds, "out": str(folder), "shards": str(out / "shards")}
    with tempfile.TemporaryDirectory(prefix="amsfl-soak-") as home:
        shards = deal(serve_config({**SETTINGS, "rounds": given.rounds}), out / "shards")
        write_app(Path(home) / "first", settings)
        write_app(Path(home) / "again", {**settings, "resume": True})
        with kept_federation(out / "flower", folder, Path(home) / "superlink.db") as federation:
            for place, shard in enumerate(shards):
                state = {"state-dir": str(out / "clients")}
                node = {"partition-id": place, "shard": str(shard), **state}
                federation.keep_node(f"node-{place}", node, NODE_POLL)
            done, began = federation.rounds(), time.monotonic()
            federation.start_run(Path(home) / ("again" if done else "first"))
            last, broken = began, done // given.every
            while done < given.rounds:
                time.sleep(0.3)
                now = time.monotonic()
                if now - began > given.seconds:
                    return
                if federation.rounds() > done:
                    done, seconds, last = federation.rounds(), now - last, now
                    rows.append(
                        {"round": done, "seconds": seconds, "memory": federation.memory(), "kill": ""}
                    )
                    book.write_text(json.dumps(rows))
                    if done // given.every > broken and done < given.rounds:
                        broken = done // given.every
                        rows[-1]["kill"] = KILLS[(broken - 1) % len(KILLS)]
                        print(f"round {done}: kill {rows[-1]['kill']} after {now - began:.0f} s", flush=True)
                        break_something(
                            federation, rows[-1]["kill"], broken // len(KILLS), Path(home) / "again"
                        )
                elif now - last > STUCK:
                    raise UserError(f"No round for {STUCK:g} seconds after round {done}; {_logs(federation)}")


def _logs(federation: KeptFederation) -> str:
    paths = sorted(federation.running.home.glob("*.log"))
    return "\n".join(f"== {path.name}\n{path.read_text(errors='replace')[-1500:]}" for path in paths)


def report(given: argparse.Namespace, rows: Sequence[dict[str, Any]]) -> None:
    record = read_run(given.out / "run")
    numbers = [each.round for each in record.rounds]
    lost = [number for number in range(1, len(numbers) + 1) if number not in numbers]
    kills = [row["kill"] for row in rows if row["kill"]]
    after = {
        what: [later["seconds"] for row, later in pairwise(rows) if row["kill"] == what] for what in KILLS
    }
    print(f"{len(numbers)} rounds on record, {len(lost)} lost, {len(kills)} kills")
    for what, seconds in after.items():
        if seconds:
            print(f"  {what:6} {len(seconds):3} times; seconds to the next round: {max(seconds):.0f} at most")
    quiet = [later["seconds"] for row, later in pairwise(rows) if not row["kill"]]
    last = record.rounds[-1]
    print(f"  other rounds: median {statistics.median(quiet):.1f} s; last cohort {last.cohort}")
    for who, (there, rounds, seconds) in enumerate(absences(record.rounds, rows)):
        print(f"  client {who}: in {there} rounds, out for {rounds} in a row or {seconds:.0f} s at most")
    scores = last.metrics.get("holdout", {})
    print(f"  accuracy {scores.get('accuracy', float('nan')):.3f}")
    third = max(len(rows) // 3, 1)
    for kind in rows[0]["memory"]:
        ends = [
            statistics.median(row["memory"][kind] for row in part) for part in (rows[:third], rows[-third:])
        ]
        print(f"  memory of the {kind}: {ends[0]:.0f} MB in the first third, {ends[1]:.0f} MB in the last")
    draw(rows, given.out / "soak")


def absences(rounds: Sequence[RoundRecord], rows: Sequence[dict[str, Any]]) -> list[tuple[int, int, float]]:
    """Of each client: the rounds that it was in, and the longest time out of them, in rounds and seconds."""
    ended = dict(zip((row["round"] for row in rows), accumulate(row["seconds"] for row in rows), strict=True))
    every = []
    for who in range(NODES):
        there = [each.round for each in rounds if who in each.cohort]
        gaps = list(pairwise([0, *there, len(rounds) + 1]))
        at = [[max((ended[n] for n in ended if n <= number), default=0.0) for number in gap] for gap in gaps]
        longest = max(after - before for before, after in at)
        every.append((len(there), max(after - before - 1 for before, after in gaps), longest))
    return every


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure((8, 3.6), layout="constrained")
    axes = figure.subplots()
    rounds = [row["round"] for row in rows]
    for kind in rows[0]["memory"]:
        # 0: none was alive just then
        held = [row["memory"][kind] or float("nan") for row in rows]
        axes.plot(rounds, held, label=f"largest {kind}")
    for row in rows:
        if row["kill"]:
            axes.axvline(row["round"], color="0.85", zorder=0)
    axes.set(xlabel="round (a line: a kill)", ylabel="resident memory, MB", ylim=(0, None))
    axes.legend(loc="lower right", ncols=2)
    figure.savefig(path.with_suffix(".png"), dpi=120)


if __name__ == "__main__":
    given = arguments()
    given.out.mkdir(parents=True, exist_ok=True)
    book = given.out / "soak.json"
    rows: list[dict[str, Any]] = json.loads(book.read_text()) if book.exists() else []
    try:
        soak(given, rows, book)
    finally:
        if rows:
            report(given, rows)
