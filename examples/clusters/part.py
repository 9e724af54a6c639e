"""One part of a study as a command of its own: the process that has jax ends with it."""

import subprocess
import sys


def run_part(number: int, of: int, arguments: list[str]) -> str:
    """`amsfl compare --part number/of`; what it said, or an error with what it said."""
    command = [sys.executable, "-m", "amsfl", "compare", "--part", f"{number}/{of}", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"part {number} of {of} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout.strip()
