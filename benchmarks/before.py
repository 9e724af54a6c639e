"""Old and new in one run: our side (ours.py) of this tree and of an earlier one, in turns.

    python benchmarks/before.py 996cabc --job A --job B --data-dir DIR

The earlier one is a commit of this repository, or a folder with its src/. Prints for every job the median
pace of both and their ratio; a turn is one process of each, and who goes first changes from turn to turn.
"""

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Our pace now against that of an earlier commit.")
    parser.add_argument("before", help="a commit, or a folder that holds its src/")
    parser.add_argument("--job", action="append", help="default: A and B")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=5, help="repetitions in a turn, after a warm-up")
    parser.add_argument("--data-dir", default="", help="folder with the NSL-KDD files")
    parser.add_argument("--out", type=Path, help="JSON to write")
    return parser.parse_args()


def tree(before: str, folder: Path) -> Path:
    """Where the earlier src/ is."""
    if (Path(before) / "src").is_dir():
        return Path(before).resolve() / "src"
    packed = subprocess.run(
        ["git", "archive", before, "src"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def paces(source: Path, job: str, given: argparse.Namespace) -> list[float]:
    """Client steps a second of every repetition of one turn."""
    ours = str(Path(__file__).with_name("ours.py"))
    started = [sys.executable, ours, "--job", job, "--repeat", str(given.repeat)]
    started += ["--data-dir", str(Path(given.data_dir).resolve())] if given.data_dir else []
    env = os.environ | {"PYTHONPATH": str(source), "JAX_PLATFORMS": "cpu"}
    said = subprocess.run(started, check=True, capture_output=True, text=True, env=env, cwd=source.parent)
    each: list[float] = json.loads(said.stdout.splitlines()[-1])["each"]
    return each


def main() -> None:
    given = arguments()
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        sources = {"before": tree(given.before, Path(folder)), "now": ROOT / "src"}
        for job in given.job or ["A", "B"]:
            found[job] = {name: [] for name in sources}
            for turn in range(given.turns):
                for name in list(sources)[:: 1 if turn % 2 else -1]:
                    found[job][name] += paces(sources[name], job, given)
            before, now = (found[job][name] for name in ("before", "now"))
            print(
                f"{job}: {given.before} {median(before):,.0f} client steps/s, now {median(now):,.0f}: "
                f"{median(now) / median(before):.3f} times (best against best {max(now) / max(before):.3f})",
                flush=True,
            )
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
