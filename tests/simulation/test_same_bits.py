"""Same seed, same bits: alone or in a batch, after other runs, with any cache, on any cores.

In processes of their own: the promise is for one CPU device, and tests have two.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

LATE = {"method": "amsfl", "round_end": "buffer:2", "profile": "wild", "clock": "makespan"}
OWN = {"waits": {"method": "amsfl"}, "does not wait": LATE, "fedavg": {"method": "fedavg"}}
SCRIPT = """
import hashlib, sys
import amsfl
from amsfl.settings.parse import make_config
from amsfl.simulation import run_batch

run = {"data": "digits", "model": "mlp:16", "clients": 4, "rounds": 6, "details": ""} | eval(sys.argv[1])
others = [
    {"model": "mlp:9", "method": "scaffold", "batch": 16},
    {"precision": "float64", "method": "feddyn"},
    {"engine": "loop", "method": "fedavg"},
]

def bits(result):
    rounds = [each._replace(wall={}) for each in result.rounds]
    return hashlib.sha256(result.params.tobytes() + repr(rounds).encode()).hexdigest()

alone = [bits(amsfl.run(**run, seed=seed)) for seed in range(3)]
if len(sys.argv) > 2:
    together = run_batch([make_config(run | {"seed": seed}) for seed in range(3)])
    assert [bits(each) for each in together] == alone, "in a batch"
    for other in others:
        amsfl.run(**{key: run[key] for key in ("data", "clients", "rounds")}, **other)
        assert bits(amsfl.run(**run, seed=0)) == alone[0], other
print(*alone)
"""


def run(own: dict[str, Any], cache: Path | None, cores: int, *more: str) -> str:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("JAX_COMP", "XLA_FLAGS"))}
    env |= {"JAX_COMPILATION_CACHE_DIR": str(cache)} if cache else {}
    env |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    chosen = ",".join(map(str, sorted(os.sched_getaffinity(0))[:cores]))
    command = ["taskset", "-c", chosen, sys.executable, "-W", "ignore", "-c", SCRIPT, repr(own), *more]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("name", OWN)
def test_same_bits(name: str, tmp_path: Path) -> None:
    """Compiled anew, into a cache, from it; on one core and on two; in a batch and after other runs."""
    own, cache = OWN[name], tmp_path / "cache"
    expected = run(own, None, 2, "all")
    for place, (folder, cores) in enumerate([(cache, 2), (cache, 2), (None, 1), (cache, 1)]):
        assert run(own, folder, cores) == expected, f"run {place}"
