"""AMSFL against FedAvg with the best fixed steps, on five real SuperNodes of unequal speed.

    python compare.py [--target 0.95] [--steps 2,5,10,20,50] [--lrs 0.5] [--repeat 3] [--jobs 1] [--out DIR]

Every unit is a deployment of its own on this machine, with the same shards and speeds, run to the target (or
--seconds). The time is wall-clock, from the first order to the evaluation that passed. For each of --repeat
seeds FedAvg is given every combination of steps and learning rates, and the best of them on that seed, with
hindsight, is what AMSFL is held against. A FedAvg that takes --give-up times as long as AMSFL did, or as long
as the seed's best FedAvg so far, is stopped: it cannot be the best any more. --jobs deployments run side by
side (slowed clients sleep: one keeps a third of a core busy). The same command goes on where it stopped.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from math import inf
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

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


def unit(
    given: argparse.Namespace, line: str, name: str, own: Mapping[str, Any], seed: int, most: float
) -> Any:
    """One deployment; its row, or why there is none."""
    slowdowns = [float(part) for part in given.slowdowns.split(",")]
    settings = {"data": given.data, "clients": len(slowdowns), "target": given.target, **own}
    settings |= {"seed": seed, "seconds": most, "force": True, "patience": PATIENCE}
    settings |= {"data_dir": given.data_dir} if given.data_dir else {}
    try:
        got = deploy(
            settings,
            given.out / line,
            slowdowns,
            given.step_seconds,
            say=lambda said: print(f"{line}: {said}", flush=True),
        )
    except UserError as error:
        return str(error)
    row = {"method": name, "seed": seed, "seconds": got.seconds_to_target, "rounds": got.rounds}
    return row | {"accuracy": got.accuracy, "limit": most}


def todo(given: argparse.Namespace, found: Found) -> Iterator[list[tuple[str, str, dict[str, Any], int]]]:
    """AMSFL's units first, since the others' limits come from them."""
    seeds = range(given.seed, given.seed + given.repeat)
    every = [(f"{n}-seed{s}", n, own, s) for n, own in contestants(given).items() for s in seeds]
    for ours in (True, False):
        yield [each for each in every if (each[1] == "amsfl") == ours and each[0] not in found]


def run(given: argparse.Namespace, found: Found, book: Path) -> list[str]:
    """Every unit that is not in the book yet; what failed."""
    failed = []
    with ProcessPoolExecutor(given.jobs, get_context("spawn")) as pool:
        for units in todo(given, found):
            under_way: dict[Future[Any], str] = {}
            while units or under_way:
                while units and len(under_way) < given.jobs:
                    line, name, own, seed = units.pop(0)
                    most = limit(given, found, seed) if name != "amsfl" else given.seconds
                    under_way[pool.submit(unit, given, line, name, own, seed, most)] = line
                for done in wait(under_way, return_when=FIRST_COMPLETED).done:
                    line, row = under_way.pop(done), done.result()
                    if isinstance(row, str):
                        failed.append(f"{line}: {row}")
                        continue
                    found[line] = row
                    book.write_text(json.dumps(found, indent=1))
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
            ratios.append(best["limit"] / ours[0])
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
    failed = run(given, found, book)
    show(given, found)
    for line in failed:
        print(f"failed, run the same command again: {line}")
