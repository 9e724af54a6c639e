"""Does a quick search rank methods as an exhaustive one does, and what does it cost?

    python tools/tuning.py results/tuning --data visits.csv --label readmitted --target 0.955 --seconds 20

Runs `amsfl compare` on the same trials with --tune none, quick and full, side by side, into three folders
below the first argument, and prints who came first by each, and processor seconds against those without any
search. What is finished is not run again.
"""

import json
import os
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

LEVELS = ("none", "quick", "full")
TIE = 0.01  # of the second's seconds: FedNova with equal steps is FedAvg, and a wave of rounding apart


class Row(NamedTuple):
    name: str
    seconds: float  # to the target, mean over trials; of a whole trial where it was not reached
    score: float  # at the end
    settings: str


def compared(level: str, out: Path, flags: list[str]) -> tuple[list[Row], float]:
    """Methods, the best first, and processor seconds of the whole command."""
    done = out / "seconds.txt"
    if not done.exists():
        amsfl = str(Path(sys.executable).parent / "amsfl")
        command = [amsfl, "compare", "--tune", level, "--out", str(out), "--quiet", *flags]
        _, status, used = os.wait4(subprocess.Popen(command).pid, 0)
        if status:
            raise SystemExit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
        done.write_text(f"{used.ru_utime + used.ru_stime:.1f}")
    summary = json.loads((out / "summary.json").read_text())
    study = tomllib.loads((out / "study.toml").read_text())
    return ranked(summary, study), float(done.read_text())


def ranked(summary: Any, study: Any) -> list[Row]:
    """By seconds to the target, whole trials where it was not reached; then by the last score."""
    measure = f"least_{summary['clock']}"
    rows = [
        Row(
            name,
            each["measures"][measure]["mean"],
            each["measures"][f"{summary['score']}_holdout"]["mean"],
            " ".join(
                f"{key} {study['methods'][name][key]:g}"
                for key in ("lr", "steps")
                if key in study["methods"][name]
            ),
        )
        for name, each in summary["methods"].items()
    ]
    return sorted(rows, key=lambda row: (row.seconds, -row.score))


def first_two(rows: list[Row]) -> set[str]:
    """The first two, and who is level with the second."""
    bound = rows[1].seconds * (1 + TIE)
    return {row.name for row in rows if row.seconds <= bound}


def agree(quick: list[Row], full: list[Row]) -> bool:
    """The same winner, and a second that is a second in both."""
    return quick[0].name == full[0].name and len(first_two(quick) & first_two(full)) >= 2


def main(folder: Path, flags: list[str]) -> None:
    with ThreadPoolExecutor(len(LEVELS)) as pool:
        found = dict(
            zip(LEVELS, pool.map(lambda level: compared(level, folder / level, flags), LEVELS), strict=True)
        )
    for level, (rows, seconds) in found.items():
        print(
            f"\n--tune {level}: {seconds:.0f} processor seconds, {seconds / found['none'][1]:.2f} times none"
        )
        for row in rows:
            told = f"{row.seconds:9.2f} s to the target, {row.score:.4f} at the end"
            print(f"  {row.name:10} {told}  {row.settings}")
    print(f"\nThe same first two by quick and full: {agree(found['quick'][0], found['full'][0])}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
