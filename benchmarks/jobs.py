"""A job, exported once to an npz, so that every peer trains on the same rows from the same model; and judged
by one and the same forward pass.
"""

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from ours import JOBS, LR, rows_of

from amsfl.data import partition
from amsfl.engines import models
from amsfl.portable.network import LayerSpec, logits

import jax  # isort: skip  # after amsfl, which sets it up


def export(job: str, path: Path) -> None:
    """Rows in client order with offsets, the hold-out, the network, its initial weights, the settings.

    Weights are w0, b0, w1, ... with axes the other way round from torch's: a dense one [inputs, outputs].
    """
    own = JOBS[job]
    data = rows_of(own.data)
    parts = partition("dirichlet:0.5", data.y, own.clients, 0)
    order = np.concatenate(parts)
    x, y = data.evals["holdout"]
    model = models.make(own.model, data.x.shape[1], len(data.classes))
    begin = jax.jit(model.init)(jax.random.key(0))  # as ours does
    tensors = [part.T for part in models.tensors(model, begin).values()]
    layers = [part._asdict() for part in model.layers]
    np.savez(
        path,
        x=data.x[order].astype(np.float32),
        y=data.y[order].astype(np.int64),
        offsets=np.cumsum([0, *(len(p) for p in parts)]),
        x_holdout=x,
        y_holdout=y,
        settings=json.dumps(own._asdict() | {"lr": LR, "parts": layers}),
        **{f"{'wb'[place % 2]}{place // 2}": part for place, part in enumerate(tensors)},
    )


def accuracy(export_path: Path, model_path: Path) -> float:
    """Share of hold-out rows that the saved model classifies correctly."""
    with np.load(export_path) as data, np.load(model_path) as model:
        x, labels = data["x_holdout"], data["y_holdout"]
        parts = tuple(LayerSpec(**part) for part in json.loads(str(data["settings"]))["parts"])
        named = [part.name for part in parts if part.name]
        tensors = {
            f"{name}.{kind}": model[f"{kind[0]}{place}"].T
            for place, name in enumerate(named)
            for kind in ("weight", "bias")
        }
        blocks = [logits(parts, tensors, x[at : at + 1000]) for at in range(0, len(x), 1000)]
    return float((np.concatenate(blocks).argmax(1) == labels).mean())
