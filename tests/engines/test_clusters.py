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


def compared(out, *command, **environment):
    """Run it in a folder; the report of all that it left says so."""
    asked = [*map(str, command), *ASKED]
    kept = {"cwd": out.parents[1], "env": os.environ | environment, "timeout": 300}
    done = subprocess.run(asked, **kept, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def reported(out):
    said = succeed("report", out / "amsfl", out / "fedavg", "--out", out.parent / "report")
    assert "Two methods, 2 trials on digits" in said.output


def test_ray_on_this_machine(tmp_path):
    pytest.importorskip("ray")
    out = tmp_path / "results" / "big"
    few = ("--methods", "amsfl,fedavg", "--out", out, "--")
    compared(out, sys.executable, EXAMPLES / "with_ray.py", *few)
    reported(out)


def test_the_array_with_what_slurm_sets(tmp_path):
    out = tmp_path / "results" / "big"
    for task in ("0", "1"):
        compared(out, "bash", EXAMPLES / "array.sbatch", SLURM_ARRAY_TASK_ID=task)
    reported(out)
