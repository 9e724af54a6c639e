"""AMSFL against FedAvg with the best fixed steps, on five real SuperNodes of unequal speed.

    python compare.py [--target 0.95] [--steps 2,5,10,20,50] [--lrs 0.05] [--out runs/flower-compare]

Every line is a deployment of its own on this machine, with the same shards, seed and speeds, run to the
target (or --seconds). The time is wall-clock, from the first order to the evaluation that passed. FedAvg is
given every combination of steps and learning rates, and the best of them, with hindsight, is what counts. A
FedAvg that takes --give-up times as long as AMSFL did, or as long as the best FedAvg so far, is stopped.
"""

import argparse
import json
from pathlib import Path
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
parser.add_argument("--out", type=Path, default=Path("runs/flower-compare"))
given = parser.parse_args()

slowdowns = [float(part) for part in given.slowdowns.split(",")]
shared = {
    "data": given.data,
    "clients": len(slowdowns),
    "target": given.target,
    "seed": given.seed,
} | ({"data_dir": given.data_dir} if given.data_dir else {})
trials = {"amsfl": {"method": "amsfl"}} | {
    f"fedavg-t{steps}-lr{lr}": {"method": "fedavg", "steps": int(steps), "lr": float(lr)}
    for lr in given.lrs.split(",")
    for steps in given.steps.split(",")
}
found: dict[str, dict[str, Any]] = {}
for name, own in trials.items():
    print(f"== {name}", flush=True)
    times = {known: row["seconds_to_target"] for known, row in found.items() if row["seconds_to_target"]}
    limits = [given.give_up * seconds if known == "amsfl" else seconds for known, seconds in times.items()]
    limit = {"seconds": min([given.seconds, *limits])}
    summary = deploy(shared | limit | own, given.out / name, slowdowns, given.step_seconds)
    keys = ("seconds_to_target", "rounds_to_target", "accuracy", "rounds")
    found[name] = {key: getattr(summary, key) for key in keys}
    (given.out / "compare.json").write_text(json.dumps(found, indent=1))
print(f"{'':24} {'seconds':>8} {'rounds':>7} {'accuracy':>9}")
for name, row in found.items():
    seconds, rounds = row["seconds_to_target"], row["rounds_to_target"]
    print(f"{name:24} {seconds or float('nan'):8.1f} {rounds or row['rounds']:7} {row['accuracy']:9.4f}")
ours = found.pop("amsfl")["seconds_to_target"]
times = [row["seconds_to_target"] for row in found.values() if row["seconds_to_target"]]
if ours and times:
    print(f"best FedAvg / AMSFL: {min(times) / ours:.2f}")
else:
    late = f"no FedAvg arrived within {given.give_up:g} times AMSFL's {ours:.1f} s" if ours else ""
    print(late or "no ratio: AMSFL did not reach the target")
