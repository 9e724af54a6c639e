"""Does a quick search rank methods as an exhaustive one does, and what does it cost?

    python tools/tuning.py --data visits.csv --label readmitted --target 0.955 --seconds 20 --trials 3

Runs `amsfl compare` three times on the same trials, with --tune none, quick and full, and prints who came
first by each, and processor seconds against those without any search. What is finished is not run again.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LEVELS = ("none", "quick", "full")


def compared(level: str, out: Path, flags: list[str]) -> tuple[list[tuple[str, float, float]], float]:
    """Methods with their mean seconds to the target and last score, the best first; processor seconds."""
    done = out / "seconds.txt"
    if not done.exists():
        began = os.times()
        amsfl = str(Path(sys.executable).parent / "amsfl")
        command = [amsfl, "compare", "--tune", level, "--out", str(out), "--quiet"]
        subprocess.run([*command, *flags], check=True)
        ended = os.times()
        took = ended.children_user + ended.children_system - began.children_user - began.children_system
        done.write_text(f"{took:.1f}")
    return ranked(json.loads((out / "summary.json").read_text())), float(done.read_text())


def ranked(summary: Any) -> list[tuple[str, float, float]]:
    """By seconds to the target, whole trials where it was not reached; then by the last accuracy."""
    rows = [
        (
            name,
            each["measures"][f"least_{summary['clock']}"]["mean"],
            each["measures"]["accuracy_holdout"]["mean"],
        )
        for name, each in summary["methods"].items()
    ]
    return sorted(rows, key=lambda row: (row[1], -row[2]))


def main(flags: list[str]) -> None:
    folder = Path("results/tuning")
    found = {level: compared(level, folder / level, flags) for level in LEVELS}
    for level, (rows, seconds) in found.items():
        print(
            f"\n--tune {level}: {seconds:.0f} processor seconds, {seconds / found['none'][1]:.2f} times none"
        )
        for name, to_target, score in rows:
            print(f"  {name:10} {to_target:9.2f} s to the target, {score:.4f} at the end")
    same = [{row[0] for row in found[level][0][:2]} for level in LEVELS[1:]]
    print(f"\nThe same first two by quick and full: {same[0] == same[1]}")


if __name__ == "__main__":
    main(sys.argv[1:])
