"""The examples that start a study's parts elsewhere, on local processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from study_example import settings

from amsfl import record

pytestmark = pytest.mark.slow
EXAMPLES = Path(__file__).parents[2] / "examples" / "clusters"


def parts(tmp_path, *command, **environment):
    """Run it; the study of three methods that two parts made."""
    asked = ("--config", settings(tmp_path, seconds=2), "--tune", "none", "--out", tmp_path / "out")
    words, env = [*map(str, (*command, *asked))], os.environ | environment
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def whole(tmp_path):
    found = record.read_study(tmp_path / "out")
    return {entry: [trial.trial for trial in trials] for entry, trials in found.trials.items()}


EXPECTED = {"fedavg": [0, 1], "fedcsda": [0, 1], "amsfl": [0, 1]}


def test_a_cluster_on_this_machine(tmp_path):
    pytest.importorskip("ray")
    said = parts(tmp_path, sys.executable, EXAMPLES / "with_ray.py", "--parts", 2, "--")
    assert "Part 1 of 2: 4 trials are on record" in said and "Part 2 of 2: 2 trials are on record" in said
    assert whole(tmp_path) == EXPECTED


def test_the_array_with_what_slurm_sets(tmp_path):
    for task in ("1", "2"):
        slurm = {"SLURM_ARRAY_TASK_ID": task, "SLURM_ARRAY_TASK_COUNT": "2"}
        said = parts(tmp_path, "bash", EXAMPLES / "array.sbatch", **slurm)
        assert f"Part {task} of 2" in said
    assert whole(tmp_path) == EXPECTED
