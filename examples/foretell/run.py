"""Calibrate on one real federation, foretell others before they run, run them, and compare.

    python examples/foretell/run.py --out runs/foretell

Five SuperNodes on this machine, of which the slowest takes eight times as long for a step as the fastest:
FedAvg with five steps a round is what the profile is calibrated on. Then AMSFL, which plans its own steps,
and FedNova with ten are simulated by that profile, and deployed. Each line has the wall-clock seconds to the
target as foretold and as measured. What is on record already is not run again. About eight minutes, most of
them asleep.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from amsfl.record import holds_record, read_run

SITES = ["--clients", "5", "--data", "digits", "--model", "mlp", "--seed", "0"]
SPEEDS = ["--slowdowns", "1,2,4,8,2", "--step-seconds", "0.2"]
FIRST = ["--method", "fedavg", "--steps", "5", "--lr", "0.2", "--rounds", "12"]
OTHERS = {
    "amsfl": ["--method", "amsfl", "--target", "0.9", "--rounds", "100"],
    "fednova": ["--method", "fednova", "--steps", "10", "--lr", "0.5", "--target", "0.9", "--rounds", "100"],
}


def amsfl(*arguments: str) -> str:
    done = subprocess.run(["amsfl", *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"amsfl {' '.join(arguments)}\n{done.stdout}{done.stderr}")
    return done.stdout


def deployed(out: Path, settings: list[str]) -> Path:
    if not (holds_record(out) and read_run(out).summary):
        print(amsfl("deploy", *SITES, *SPEEDS, *settings, "--out", str(out), "--force").splitlines()[-1])
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/foretell"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    first, profile = deployed(out / "first", FIRST), out / "profile.csv"
    print(amsfl("calibrate", str(first), "--out", str(profile), "--force"))
    virtual = ["--clock", "makespan", "--profile", str(profile), "--no-details", "--json"]
    foretold = {
        name: json.loads(
            amsfl("run", *SITES, *virtual, *settings, "--out", str(out / f"sim-{name}"), "--force")
        )
        for name, settings in OTHERS.items()
    }
    for name, settings in OTHERS.items():
        real = read_run(deployed(out / name, settings)).summary
        seconds, rounds = foretold[name]["seconds_to_target"], foretold[name]["rounds_to_target"]
        if real is None or real.seconds_to_target is None or seconds is None:
            sys.exit(f"{name}: the target was not reached")
        print(
            f"{name}: foretold {seconds:.1f} s (round {rounds}), measured {real.seconds_to_target:.1f} s "
            f"(round {real.rounds_to_target}): {100 * (seconds / real.seconds_to_target - 1):+.1f}%"
        )


if __name__ == "__main__":
    main()
