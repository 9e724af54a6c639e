"""AMSFL against FedAvg by `tune quick`, on five real nodes of unequal speed: seconds to a target, and bytes.

FedAvg's learning rate and steps come from `amsfl tune --level quick` on a simulation of the same five sites,
which nobody has to pay for here; AMSFL has its defaults. Every run is a deployment of its own on this
machine, one after another, so that none slows another down. Seconds are those of the wall clock, from the
first order on.

    python studies/real_nodes.py --seeds 3 --target 0.95

The same command goes on where it stopped; real-nodes.json has the rows.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from amsfl import study
from amsfl.flower.deploy.run import deploy
from amsfl.simulation.components import load_data

OVERHEAD = 1.0  # seconds of a real round besides its steps, for the simulation that tunes


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--target", type=float, default=0.95)
    parser.add_argument("--data", default="nslkdd")
    parser.add_argument("--model", default="mlp")
    parser.add_argument("--slowdowns", default="1,2,4,8,2")
    parser.add_argument("--step-seconds", type=float, default=0.05, help="a step of the fastest client")
    parser.add_argument("--seconds", type=float, default=240.0, help="give up after so long")
    parser.add_argument("--out", type=Path, default=Path("results/real-nodes"))
    return parser.parse_args()


def tuned_fedavg(given: argparse.Namespace, slowdowns: list[float]) -> dict[str, Any]:
    """lr and steps as `amsfl tune` finds them for these sites."""
    sites = given.out / "sites.csv"
    rows = [f"{given.step_seconds * slow},{OVERHEAD},1000,1000" for slow in slowdowns]
    sites.write_text("\n".join(["step_seconds,latency,up_mbps,down_mbps", *rows]) + "\n")
    settings = {"data": given.data, "model": given.model, "clients": len(slowdowns), "profile": str(sites)}
    plan = study.with_changes(study.read_study("compare"), ("fedavg",), 5, settings | {"clock": "makespan"})
    tuned = study.tune_study(plan, load_data(plan.config("fedavg")), "quick")
    return {key: tuned.methods["fedavg"][key] for key in ("lr", "steps")}


def main() -> None:
    given = arguments()
    given.out.mkdir(parents=True, exist_ok=True)
    book, slowdowns = given.out / "real-nodes.json", [float(part) for part in given.slowdowns.split(",")]
    rows: dict[str, Any] = json.loads(book.read_text()) if book.exists() else {}
    if "tuned" not in rows:
        rows["tuned"] = tuned_fedavg(given, slowdowns)
        book.write_text(json.dumps(rows, indent=1))
    print(f"FedAvg by tune quick: {rows['tuned']}")
    for seed in range(given.seeds):
        for method, own in (("amsfl", {}), ("fedavg", rows["tuned"])):
            name = f"{method}-{seed}"
            if name not in rows:
                common = {"data": given.data, "model": given.model, "clients": len(slowdowns), "seed": seed}
                common |= {"target": given.target, "seconds": given.seconds, "rounds": 10_000, "force": True}
                settings = {**common, "method": method, **own}
                done = deploy(
                    settings, given.out / name, slowdowns, given.step_seconds, say=lambda line: None
                )
                rows[name] = {
                    "seconds": done.seconds_to_target,
                    "rounds": done.rounds,
                    "accuracy": done.accuracy,
                    "megabytes_down": done.bytes_down / 1e6,
                    "megabytes_up": done.bytes_up / 1e6,
                    "ran": done.wall["seconds"],
                }
                book.write_text(json.dumps(rows, indent=1))
            row = rows[name]
            reached = f"{row['seconds']:.1f} s" if row["seconds"] else f"not within {row['ran']:.0f} s"
            print(
                f"{name}: {reached}, {row['rounds']} rounds, accuracy {row['accuracy']:.3f}, "
                f"{row['megabytes_down']:.2f} MB down, {row['megabytes_up']:.2f} MB up",
                flush=True,
            )


if __name__ == "__main__":
    main()
