"""The examples that run the methods of a comparison elsewhere, on local processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import succeed

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples" / "clusters"
ASKED = ("--data", "digits", "--rounds", "2", "--trials", "2", "--tune", "none")


def compared(folder, *command, **environment):
    """Run it; what the report of all folders says."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_ray_on_this_machine(tmp_path):
    pytest.importorskip("ray")
    out = tmp_path / "big"
    compared(
        tmp_path,
        sys.executable,
        EXAMPLES / "with_ray.py",
        "--methods",
        "amsfl,fedavg",
        "--out",
        out,
        "--",
        *ASKED,
    )
    said = succeed("report", out / "amsfl", out / "fedavg", "--out", tmp_path / "report")
    assert "Two methods, 2 trials on digits" in said.output


def test_the_array_with_what_slurm_sets(tmp_path):
    for task in ("0", "1"):
        compared(tmp_path, "bash", EXAMPLES / "array.sbatch", *ASKED, SLURM_ARRAY_TASK_ID=task)
    out = tmp_path / "results" / "big"
    said = succeed("report", out / "amsfl", out / "fedavg", "--out", tmp_path / "report")
    assert "Two methods, 2 trials on digits" in said.output
