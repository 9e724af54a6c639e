"""How long a table takes to load, beside pandas in the same process: python benchmarks/load_tables.py."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def write_table(path: Path, rows: int, columns: int, seed: int = 0) -> None:
    """Numbers, a few words and codes of 500 kinds, with gaps in every tenth cell of one column in four."""
    import pandas

    rng = np.random.default_rng(seed)
    table: dict[str, Any] = {}
    for place in range(columns - 1):
        if place % 12 == 10:
            table[f"code{place}"] = np.char.add("v", rng.integers(0, 500, rows).astype(str))
        elif place % 6 == 5:
            table[f"word{place}"] = rng.choice(["a", "bb", "ccc", "dddd"], rows)
        else:
            values = np.round(rng.normal(size=rows), 4)
            table[f"number{place}"] = (
                np.where(rng.random(rows) < 0.1, np.nan, values) if place % 4 == 3 else values
            )
    table["label"] = rng.choice(["yes", "no"], rows)
    pandas.DataFrame(table).to_csv(path, index=False)


def seconds(load: Callable[[], Any]) -> float:
    """Processor seconds of this process."""
    start = time.process_time()
    load()
    return time.process_time() - start


PEAK = """
import resource, sys
from amsfl.data import load
load(sys.argv[1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_megabytes(path: Path) -> float:
    """The most memory of a process that loads the file and does nothing else."""
    done = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True)
    return int(done.stdout) / (2**20 if sys.platform == "darwin" else 2**10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=60)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # one core
    import pandas

    from amsfl.data import load

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        write_table(path, options.rows, options.columns)
        size = path.stat().st_size / 1e6
        theirs = min(seconds(lambda: pandas.read_csv(path)) for _ in range(2))
        ours = min(seconds(lambda: load(str(path))) for _ in range(2))
        peak = peak_megabytes(path)
    print(f"{options.rows:,} x {options.columns}, {size:.0f} MB on one core")
    print(f"pandas.read_csv {theirs:.2f} s; amsfl, typed and encoded, {ours:.2f} s; {ours / theirs:.1f}x")
    print(f"a process that loads it takes {peak:.0f} MB, {peak / size:.1f} times the file")


if __name__ == "__main__":
    main()
