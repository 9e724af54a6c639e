"""The two jobs: exported once to an npz, so that every peer trains on the same rows from the same model,
and judged by one and the same forward pass.
"""

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from amsfl.data import load, partition
from amsfl.study.bench import JOBS, LAYERS, LR, initial

PARTITION = "dirichlet:0.5"


def settings_of(job: str) -> dict[str, float]:
    return JOBS[job]._asdict() | {"lr": LR}


def client_steps(job: str) -> int:
    """Of one repetition."""
    return JOBS[job].rounds * JOBS[job].cohort * JOBS[job].steps


def export(job: str, data_dir: str, path: Path, seed: int = 0) -> None:
    """Rows in client order with offsets, the hold-out, the initial weights, the settings."""
    settings = settings_of(job)
    data = load("nslkdd", data_dir=data_dir or None, seed=seed)
    parts = partition(PARTITION, data.y, int(settings["clients"]), seed)
    order = np.concatenate(parts)
    x, y = data.evals["holdout"]
    layers = enumerate(initial(LAYERS, seed))
    weights = {f"{kind}{i}": part for i, layer in layers for kind, part in zip("wb", layer, strict=True)}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        path,
        x=data.x[order].astype(np.float32),
        y=data.y[order].astype(np.int64),
        offsets=np.cumsum([0, *(len(p) for p in parts)]),
        x_holdout=x,
        y_holdout=y,
        settings=json.dumps(settings | {"layers": len(LAYERS) - 1}),
        **weights,
    )


def accuracy(export_path: Path, model_path: Path) -> float:
    """Share of hold-out rows that the saved model classifies correctly."""
    with np.load(export_path) as data, np.load(model_path) as model:
        out, labels = data["x_holdout"], data["y_holdout"]
        for i in range(len(LAYERS) - 1):
            out = out @ model[f"w{i}"] + model[f"b{i}"]
            out = np.maximum(out, 0) if i < len(LAYERS) - 2 else out
    return float((out.argmax(1) == labels).mean())
