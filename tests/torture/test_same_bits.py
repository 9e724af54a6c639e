"""Same seed, same bits: alone or in a batch, after other runs, with any cache, on any cores."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import amsfl
from amsfl.settings.parse import make_config
from amsfl.simulation import batch

RUN: dict[str, Any] = {"data": "digits", "model": "softmax", "clients": 4, "rounds": 3, "details": False}
OTHERS: list[dict[str, Any]] = [
    {"model": "mlp:9", "method": "scaffold", "batch": 16},
    {"precision": "float64", "method": "feddyn"},
    {"engine": "loop", "method": "fedavg"},
    {"method": "amsfl", "round_end": "buffer:2"},
]
LATE = {"method": "amsfl", "round_end": "buffer:2", "profile": "wild", "clock": "makespan"}


def bits(result: Any) -> tuple[bytes, list[Any]]:
    return result.params.tobytes(), [each._replace(wall={}) for each in result.rounds]


@pytest.mark.parametrize("own", [{"method": "amsfl"}, LATE], ids=["waits", "does not wait"])
def test_after_other_runs_in_the_process(own: dict[str, Any], torture: bool) -> None:
    alone = bits(amsfl.run(**RUN | own))
    for other in OTHERS if torture else OTHERS[2:3]:
        amsfl.run(**RUN | other)
        assert bits(amsfl.run(**RUN | own)) == alone


@pytest.mark.parametrize("own", [{"method": "amsfl"}, LATE], ids=["waits", "does not wait"])
def test_in_a_batch(own: dict[str, Any], torture: bool) -> None:
    seeds = range(6 if torture else 2)
    alone = {seed: bits(amsfl.run(seed=seed, **RUN | own)) for seed in seeds}
    together = batch.run_batch([make_config(RUN | own | {"seed": seed}) for seed in seeds])
    for seed, result in zip(seeds, together, strict=True):
        assert bits(result) == alone[seed]


SCRIPT = """
import hashlib, sys
import amsfl
result = amsfl.run(data="digits", model="mlp:16", clients=4, rounds=6, details=False, **eval(sys.argv[1]))
print(hashlib.sha256(result.params.tobytes()).hexdigest())
"""


@pytest.mark.torture
@pytest.mark.parametrize("own", [{"method": "amsfl"}, LATE], ids=["waits", "does not wait"])
def test_with_any_cache_and_on_any_cores(own: dict[str, Any], tmp_path: Path) -> None:
    """Compiled anew, from a fresh cache, from a warm one; on one core and on two."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    seen = set()
    for place, (cached, count) in enumerate([(False, 2), (True, 2), (True, 2), (False, 1), (True, 1)]):
        env = {key: value for key, value in os.environ.items() if not key.startswith("JAX_COMPILATION")}
        env |= {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache")} if cached else {}
        env |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "XLA_FLAGS": ""}
        chosen = ",".join(map(str, cores[:count]))
        command = ["taskset", "-c", chosen, sys.executable, "-c", SCRIPT, repr(own)]
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        seen.add(done.stdout.strip())
        assert len(seen) == 1, f"run {place}"
