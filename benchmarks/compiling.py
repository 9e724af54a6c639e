"""What compiling takes: a comparison of seven methods from an empty cache of programs, and from a full one.

    python benchmarks/compiling.py            this tree
    python benchmarks/compiling.py 996cabc    and an earlier commit

Prints processor and clock seconds of the whole command both times; what they differ by is the compiling.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from before import ROOT, tree

METHODS = "fedavg,fedprox,fednova,scaffold,feddyn,fedcsda,amsfl"
GIVEN = ["--data", "nslkdd-synth", "--clients", "5", "--trials", "1", "--tune", "none", "--rounds", "20"]


def seconds(source: Path, cache: Path) -> tuple[float, float]:
    """Processor and clock seconds of one comparison."""
    kept = {"JAX_COMPILATION_CACHE_DIR": str(cache), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    env = os.environ | kept | {"PYTHONPATH": str(source), "JAX_PLATFORMS": "cpu"}
    with tempfile.TemporaryDirectory() as out:
        command = [
            sys.executable,
            "-c",
            "from amsfl.cli import main; main()",
            "compare",
            "--methods",
            METHODS,
        ]
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(
            [*command, *GIVEN, "--quiet", "--out", f"{out}/study"], check=True, env=env, capture_output=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description="What compiling takes, now and in earlier commits.")
    parser.add_argument("before", nargs="*", help="commits, or folders that hold a src/")
    print("| | processor s, empty cache | full | compiling | clock s, empty cache | full |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in (str(ROOT), *parser.parse_args().before):
        with tempfile.TemporaryDirectory() as folder:
            source, cache = tree(name, Path(folder)), Path(folder) / "cache"
            (empty, long), (full, short) = seconds(source, cache), seconds(source, cache)
        label = "this tree" if name == str(ROOT) else name
        print(
            f"| {label} | {empty:.1f} | {full:.1f} | {empty - full:.1f} | {long:.1f} | {short:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
