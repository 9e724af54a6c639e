"""A test file as several processes that jax.distributed joins, over loopback."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np

import amsfl


def found_by(
    script: str, folder: Path, processes: int, limit: int, *words: str, devices: int = 1, **env: str
) -> list[dict[str, np.ndarray]]:
    """What each left, `script RANK PORT FILE WORDS...`, in its npz; all are ended, whatever happens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {
        "PYTHONPATH": os.pathsep.join(map(str, (Path(amsfl.__file__).parents[1], Path(__file__).parent))),
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "JAX_ENABLE_X64": "1",
        "JAX_PLATFORMS": "cpu",
    }
    files = [folder / f"{rank}.npz" for rank in range(processes)]
    started = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(port), str(file), *words],
            env=os.environ | common | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank, file in enumerate(files)
    ]
    try:
        for process in started:
            said, _ = process.communicate(timeout=limit)
            assert process.returncode == 0, said
    finally:
        for process in started:
            process.kill()
            process.wait()
    return [dict(np.load(file)) for file in files]
