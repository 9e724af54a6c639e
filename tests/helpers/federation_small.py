"""Small runs for the tests of the federation and the command."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import amsfl
from amsfl.data import Dataset

# the loop engine compiles next to nothing, and most of what is tested is the same for both
SMALL = {"engine": "loop", "model": "softmax", "method": "fedavg", "profile": "uniform", "rounds": 4}
SMALL |= {"steps": 2, "batch": 16, "lr": 0.5, "precision": "float64"}


def own_data(rows: int = 60, **changes) -> Dataset:
    """Two classes that one feature tells apart."""
    rng = np.random.default_rng(0)
    y = np.arange(rows, dtype=np.int32) % 2
    x = np.stack([y * 2.0 - 1, rng.normal(size=rows)], 1).astype(np.float32)
    data = Dataset("mine", x, y, {"holdout": (x[:20].copy(), y[:20])}, ("no", "yes"), ("a", "b"))
    return data._replace(**changes)


def python(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A process of its own that sees the same amsfl as this one."""
    path = [str(Path(amsfl.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=env, cwd=cwd)
