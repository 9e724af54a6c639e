"""AMSFL against FedAvg with the best fixed steps, on five real SuperNodes of unequal speed.

    python compare.py [--target 0.95] [--steps 2,5,10,20,50] [--lrs 0.05] [--repeat 3] [--out FOLDER]

Every line is a deployment of its own on this machine, with the same shards, seed and speeds, run to the
target (or --seconds). The time is wall-clock, from the first order to the evaluation that passed. FedAvg is
given every combination of steps and learning rates, and the best of them, with hindsight, is what counts. A
FedAvg that takes --give-up times as long as AMSFL did, or as long as the best FedAvg so far, is stopped. With
--repeat every line is run for so many seeds, and medians count. The same command goes on where it stopped.
"""

import argparse
import json
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from amsfl.flower.deploy.run import deploy

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--target", type=float, default=0.95)
parser.add_argument("--steps", default="2,5,10,20,50")
parser.add_argument("--lrs", default="0.05")
parser.add_argument("--slowdowns", default="1,2,4,8,2")
parser.add_argument("--step-seconds", type=float, default=0.05, help="a step of the fastest client")
parser.add_argument("--data", default="nslkdd")
parser.add_argument("--data-dir")
parser.add_argument("--seconds", type=float, default=900.0, help="give up after so long")
parser.add_argument("--give-up", type=float, default=4.0, help="times AMSFL's seconds")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--repeat", type=int, default=1, help="seeds")
parser.add_argument("--out", type=Path, default=Path("runs/flower-compare"))
given = parser.parse_args()

slowdowns = [float(part) for part in given.slowdowns.split(",")]
shared = {"data": given.data, "clients": len(slowdowns), "target": given.target} | (
    {"data_dir": given.data_dir} if given.data_dir else {}
)
methods = {"amsfl": {"method": "amsfl"}} | {
    f"fedavg-t{steps}-lr{lr}": {"method": "fedavg", "steps": int(steps), "lr": float(lr)}
    for lr in given.lrs.split(",")
    for steps in given.steps.split(",")
}
given.out.mkdir(parents=True, exist_ok=True)
book = given.out / "compare.json"
found: dict[str, dict[str, Any]] = json.loads(book.read_text()) if book.exists() else {}
for name, own in methods.items():
    for seed in range(given.seed, given.seed + given.repeat):
        line = f"{name}-seed{seed}"
        if line in found:
            continue
        print(f"== {line}", flush=True)
        rivals = {
            row["method"]: row["seconds"] for row in found.values() if row["seed"] == seed and row["seconds"]
        }
        limits = [given.give_up * took if who == "amsfl" else took for who, took in rivals.items()]
        settings = shared | own | {"seed": seed, "seconds": min([given.seconds, *limits]), "force": True}
        summary = deploy(settings, given.out / line, slowdowns, given.step_seconds)
        took = summary.seconds_to_target
        row = {"method": name, "seed": seed, "seconds": took, "rounds": summary.rounds}
        found[line] = row | {"accuracy": summary.accuracy}
        book.write_text(json.dumps(found, indent=1))
print(f"{'':24} {'median s':>9}   each seed: seconds (rounds)")
medians = {}
for name in methods:
    rows = [row for row in found.values() if row["method"] == name]
    medians[name] = median(row["seconds"] or inf for row in rows)
    each = ", ".join(f"{row['seconds'] or inf:.1f} ({row['rounds']})" for row in rows)
    print(f"{name:24} {medians[name]:9.1f}   {each}")
ours, best = medians.pop("amsfl"), min(medians.values(), default=inf)
if ours < inf and best < inf:
    print(f"best FedAvg / AMSFL: {best / ours:.2f}")
elif ours < inf:
    print(f"no FedAvg arrived within {given.give_up:g} times AMSFL's {ours:.1f} s")
else:
    print("no ratio: AMSFL did not reach the target")
