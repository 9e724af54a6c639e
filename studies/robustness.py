"""The recommended chain of rules against attacks, by how many of ten clients attack. The worst one counts.

    python studies/robustness.py --data digits

All contestants train for as many rounds. Rules are told how many clients to doubt, and doubt as many when
nobody attacks: that is what caution costs. What is finished is kept in --out, and not run again.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from amsfl.core.records import Json
from amsfl.data import Dataset, load
from amsfl.simulation import CustomParts, make_config, run_batch

CHAIN = "cap:0.1,clip,voices,trust:{f}"  # {f} stands for the number of attackers
ATTACKS = ("signflip:{f}", "sleeper:{f}/30", "alie:{f}", "mimic:{f}", "labelflip:{f}", "colluders:{f}")
ROUNDS = 40  # the sleeper wakes in the last quarter
SHARED = {"clients": 10, "partition": "dirichlet:0.5", "profile": "wild", "lr": 0.2, "steps": 10}
CONTESTANTS: dict[str, Json] = {
    "FedAvg": {"method": "fedavg"},
    "AMSFL": {"method": "amsfl"},
    "FedAvg, chain": {"method": "fedavg", "robust": CHAIN},
    "AMSFL, chain": {"method": "amsfl", "robust": CHAIN},
}


def trials(data: Dataset, own: Json, attackers: int, seeds: range) -> Iterator[Json]:
    """Of every attack and seed: the last rounds' accuracy, the attackers' share of steps."""
    own = {key: value.format(f=attackers) for key, value in own.items()}
    own |= {"rounds": ROUNDS, "details": ""}
    for attack in ("", *ATTACKS):
        told = {"attack": attack.format(f=attackers)}
        configs = [make_config(SHARED | own | told | {"seed": seed}) for seed in seeds]
        for result in run_batch(configs, CustomParts(dataset=data)):
            ends = [record.metrics["holdout"]["accuracy"] for record in result.rounds[-3:]]
            steps = np.array(list(result.summary.steps.values()), float)
            liars = result.parts.attackers.who[result.place] > 0
            share = float(steps[liars].sum() / steps.sum())
            yield {"attack": attack.partition(":")[0], "accuracy": float(np.mean(ends)), "share": share}


def line(name: str, attackers: int, rows: list[Json]) -> str:
    """Means over seeds; the worst attack is the one with the lowest mean."""
    kinds = dict.fromkeys(row["attack"] for row in rows)
    means = {kind: np.mean([row["accuracy"] for row in rows if row["attack"] == kind]) for kind in kinds}
    shares = [np.mean([row["share"] for row in rows if row["attack"] == kind]) for kind in kinds if kind]
    worst = min((kind for kind in kinds if kind), key=lambda kind: means[kind])
    each = [f"{means[kind]:.3f}" for kind in kinds]
    lost = f"{100 * (means[''] - means[worst]):.1f}"
    return f"| {name} | {attackers} | {' | '.join(each)} | {lost} | {max(shares) / (attackers / 10):.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", default="digits", help="one that `amsfl data` lists")
    parser.add_argument("--attackers", default="2,3", help="how many of the ten clients attack")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/robustness"))
    given = parser.parse_args()
    data = load(given.data)
    seeds = range(100, 100 + given.seeds)
    given.out.mkdir(parents=True, exist_ok=True)
    names = [attack.partition(":")[0] for attack in ATTACKS]
    columns = ["", "attackers of 10", "nobody attacks", *names, "points lost"]
    columns.append("their steps, times their number")
    print(f"| {' | '.join(columns)} |\n{'| --- ' * len(columns)}|")
    for attackers in map(int, given.attackers.split(",")):
        for name, own in CONTESTANTS.items():
            label = "".join(c if c.isalnum() else "-" for c in f"{given.data} {name} {attackers} {seeds}")
            path = given.out / f"{label}.json"
            if not path.exists():
                path.write_text(json.dumps([*trials(data, own, attackers, seeds)]), encoding="utf-8")
            print(line(name, attackers, json.loads(path.read_text("utf-8"))), flush=True)


if __name__ == "__main__":
    main()
