"""AMSFL against FedAvg with the best fixed steps, on five real SuperNodes of unequal speed.

    python compare.py [--target 0.95] [--steps 2,5,10,20,50] [--lrs 0.5] [--repeat 3] [--jobs 1] [--out DIR]

Every unit is a deployment of its own on this machine, with the same shards and speeds, run to the target (or
--seconds). The time is wall-clock, from the first order to the evaluation that passed. For each of --repeat
seeds FedAvg is given every combination of steps and learning rates, and the best of them on that seed, with
hindsight, is what AMSFL is held against. A FedAvg that has taken --give-up times as long as AMSFL did, or as
long as the seed's best FedAvg so far, is stopped: it cannot be the best any more. --jobs deployments run side
by side (slowed clients sleep: one keeps a third of a core busy), seed by seed: AMSFL starts together with its
rivals and has the same company. The same command goes on where it stopped; --show only prints what is there.
"""

import argparse
import json
import time
from collections.abc import Mapping
from math import inf
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from amsfl.core import UserError
from amsfl.flower.deploy.run import deploy

Found = dict[str, dict[str, Any]]  # by unit: method, seed, seconds, rounds, accuracy
PATIENCE = 120.0  # seconds without a reply after which a unit is given up, to be run again


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", type=float, default=0.95)
    parser.add_argument("--steps", default="2,5,10,20,50")
    parser.add_argument("--lrs", default="0.5")
    parser.add_argument("--slowdowns", default="1,2,4,8,2")
    parser.add_argument("--step-seconds", type=float, default=0.05, help="a step of the fastest client")
    parser.add_argument("--data", default="nslkdd")
    parser.add_argument("--data-dir")
    parser.add_argument("--seconds", type=float, default=900.0, help="give up after so long")
    parser.add_argument("--give-up", type=float, default=4.0, help="times AMSFL's seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=1, help="seeds")
    parser.add_argument("--jobs", type=int, default=1, help="deployments side by side")
    parser.add_argument("--show", action="store_true", help="run nothing, print what --out holds")
    parser.add_argument("--out", type=Path, default=Path("runs/flower-compare"))
    return parser.parse_args()


def contestants(given: argparse.Namespace) -> dict[str, dict[str, Any]]:
    return {"amsfl": {"method": "amsfl"}} | {
        f"fedavg-t{steps}-lr{lr}": {"method": "fedavg", "steps": int(steps), "lr": float(lr)}
        for lr in given.lrs.split(",")
        for steps in given.steps.split(",")
    }


def limit(given: argparse.Namespace, found: Found, seed: int) -> float:
    """Seconds after which a unit of this seed cannot be its best FedAvg any more."""
    rivals = [row for row in found.values() if row["seed"] == seed and row["seconds"]]
    times = (given.give_up if row["method"] == "amsfl" else 1.0 for row in rivals)
    return min([given.seconds, *(each * row["seconds"] for each, row in zip(times, rivals, strict=True))])


class Unit(NamedTuple):
    line: str  # its name and its folder
    name: str
    own: dict[str, Any]
    seed: int


def work(given: argparse.Namespace, each: Unit, most: float, answer: Any) -> None:
    """One deployment; sends its row, or why there is none."""
    slowdowns = [float(part) for part in given.slowdowns.split(",")]
    settings = {"data": given.data, "clients": len(slowdowns), "target": given.target, **each.own}
    settings |= {"seed": each.seed, "seconds": most, "force": True, "patience": PATIENCE}
    settings |= {"data_dir": given.data_dir} if given.data_dir else {}
    try:
        got = deploy(
            settings,
            given.out / each.line,
            slowdowns,
            given.step_seconds,
            say=lambda said: print(f"{each.line}: {said}", flush=True),
        )
    except UserError as error:
        answer.send(str(error))
        return
    row = {"method": each.name, "seed": each.seed, "seconds": got.seconds_to_target, "rounds": got.rounds}
    answer.send(row | {"accuracy": got.accuracy, "limit": most})


def todo(given: argparse.Namespace, found: Found) -> list[Unit]:
    """Seed by seed, AMSFL first: the others' limits come from it."""
    seeds = range(given.seed, given.seed + given.repeat)
    every = [Unit(f"{name}-seed{s}", name, own, s) for s in seeds for name, own in contestants(given).items()]
    return [each for each in every if each.line not in found]


def spent(given: argparse.Namespace, each: Unit, since: float) -> dict[str, Any]:
    """The row of a unit that runs since then: its seconds up to its last whole round."""
    path = given.out / each.line / "rounds.jsonl"
    ours = path.exists() and path.stat().st_mtime > since  # not those of one that was cut off before
    lines = path.read_bytes().splitlines(keepends=True) if ours else []
    whole = [line for line in lines if line.endswith(b"\n")]
    last = json.loads(whole[-1]) if whole else {"wall": {"elapsed": 0.0}, "metrics": {}}
    scores = last["metrics"].get("holdout", {})
    row = {"method": each.name, "seed": each.seed, "seconds": None, "rounds": len(whole)}
    return row | {"accuracy": scores.get("accuracy"), "limit": last["wall"]["elapsed"]}


def run(given: argparse.Namespace, found: Found, book: Path) -> list[str]:
    """Every unit that is not in the book yet; what failed."""
    failed, units, spawn = list[str](), todo(given, found), get_context("spawn")
    under_way = list[tuple[Unit, float, Any, Any]]()  # since when, its process, where its row comes from

    def keep(each: Unit, row: Any) -> None:
        if isinstance(row, str):
            failed.append(f"{each.line}: {row}")
            return
        found[each.line] = row
        book.write_text(json.dumps(found, indent=1))

    try:
        while units or under_way:
            while units and len(under_way) < given.jobs:
                each, (here, there) = units.pop(0), spawn.Pipe(duplex=False)
                most = given.seconds if each.name == "amsfl" else limit(given, found, each.seed)
                process = spawn.Process(target=work, args=(given, each, most, there))
                process.start()
                under_way.append((each, time.time(), process, here))
            time.sleep(0.5)
            for place in list(under_way):
                each, since, process, here = place
                row = spent(given, each, since)
                if here.poll():
                    keep(each, here.recv())
                elif not process.is_alive():
                    keep(each, f"it ended with code {process.exitcode}")
                elif each.name != "amsfl" and row["limit"] > limit(given, found, each.seed):
                    process.terminate()  # it ends what it started
                    keep(each, row)
                else:
                    continue
                process.join()
                under_way.remove(place)
    finally:
        for _, _, process, _ in under_way:
            process.terminate()
        for _, _, process, _ in under_way:
            process.join()
    return failed


def show(given: argparse.Namespace, found: Found) -> None:
    print(f"{'':24} {'median s':>9}   each seed: seconds (rounds)")
    for name in contestants(given):
        rows = [row for row in found.values() if row["method"] == name]
        if rows:
            each = ", ".join(f"{said(row)} ({row['rounds']})" for row in rows)
            print(f"{name:24} {median(row['seconds'] or inf for row in rows):9.1f}   {each}")
    ratios = []
    for seed in sorted({row["seed"] for row in found.values()}):
        rows = [row for row in found.values() if row["seed"] == seed]
        ours = [row["seconds"] for row in rows if row["method"] == "amsfl" and row["seconds"]]
        best = min((row for row in rows if row["method"] != "amsfl"), key=reached, default=None)
        if not ours or best is None:
            print(f"seed {seed}: no ratio, AMSFL did not reach the target or nobody else was run")
        elif best["seconds"]:
            ratios.append(best["seconds"] / ours[0])
            print(f"seed {seed}: best FedAvg {best['method']} / AMSFL: {ratios[-1]:.2f}")
        else:
            ratios.append(min(row["limit"] for row in rows if row["method"] != "amsfl") / ours[0])
            print(f"seed {seed}: no FedAvg arrived within its limit, {ratios[-1]:.2f} x AMSFL: it is more")
    if ratios:
        print(f"best FedAvg / AMSFL, median of {len(ratios)} seeds: at least {median(ratios):.2f}")


def reached(row: Mapping[str, Any]) -> float:
    return float(row["seconds"] or inf)


def said(row: Mapping[str, Any]) -> str:
    return f"{row['seconds']:.1f}" if row["seconds"] else f"stopped at {row['limit']:.0f}"


if __name__ == "__main__":
    given = arguments()
    given.out.mkdir(parents=True, exist_ok=True)
    book = given.out / "compare.json"
    found: Found = json.loads(book.read_text()) if book.exists() else {}
    failed = [] if given.show else run(given, found, book)
    show(given, found)
    for line in failed:
        print(f"failed, run the same command again: {line}")
