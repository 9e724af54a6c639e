"""Every site its own file: a data source dealt to clients as .npz, so that no site reads another's rows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context

from amsfl import data
from amsfl.core import UserError
from amsfl.federation import Training
from amsfl.federation.setup import load_data, scheme
from amsfl.flower.client.for_jax import Shard, program
from amsfl.flower.wire import Buffers, Vector
from amsfl.record.fingerprint import of_arrays


def deal(config: Training, folder: Path) -> list[Path]:
    """Write shard-0.npz ... and server.npz (the splits that the server judges by); the shards' paths."""
    source = load_data(config)
    if not source.classes:
        raise UserError(
            f"The label of {source.name} is a number, which only simulations predict so far; make each "
            "value a class (--task classification), or use a trainer of your own with amsfl.flower."
        )
    parts = data.partition(
        scheme(config, source),
        source.y,
        config.clients,
        config.seed,
        sites=source.sites,
        site_names=source.site_names,
    )
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"shard-{place}.npz" for place in range(len(parts))]
    classes = np.array(len(source.classes))
    for path, rows in zip(paths, parts, strict=True):
        np.savez(path, x=source.x[rows], y=source.y[rows].astype(np.int32), classes=classes)
    splits: dict[str, Any] = {f"{name}.x": x for name, (x, _) in source.evals.items()}
    splits |= {f"{name}.y": y for name, (_, y) in source.evals.items()}
    np.savez(folder / "server.npz", classes=classes, **splits)
    return paths


def checksum(folder: Path) -> str:
    """Of all rows that were dealt, whoever has them."""
    parts = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as file:
            parts += [file[name] for name in sorted(file.files)]
    return of_arrays(*parts)


def own_shard(context: Context) -> Shard:
    """What `shard` in this SuperNode's node-config names; in simulation, its part of the run's `shards`."""
    path: Any = context.node_config.get("shard")
    if not path and context.run_config.get("shards"):
        path = f"{context.run_config['shards']}/shard-{context.node_config.get('partition-id')}.npz"
    if not path or not Path(str(path)).expanduser().exists():
        raise UserError('This SuperNode has no shard; add shard="/path/shard-0.npz" to its --node-config.')
    with np.load(Path(str(path)).expanduser(), allow_pickle=False) as file:
        return Shard(file["x"], file["y"], int(file["classes"]), str(context.run_config.get("model", "mlp")))


def scorer(folder: Path, model: str) -> Callable[[Vector, Buffers], dict[str, dict[str, Any]]]:
    """Server-side evaluation on server.npz: accuracy, loss, macro-F1 and recall, as in simulation."""
    from amsfl.engines import Scores, metrics

    with np.load(folder / "server.npz", allow_pickle=False) as file:
        parts, classes = {name: file[name] for name in file.files if "." in name}, int(file["classes"])
    splits = {name.removesuffix(".x"): None for name in parts if name.endswith(".x")}

    def evaluate(params: Vector, buffers: Buffers) -> dict[str, dict[str, Any]]:
        found = {}
        for split in splits:
            x, y = parts[f"{split}.x"], parts[f"{split}.y"]
            logits = np.asarray(program(model, x.shape[1], classes, None).logits(params, x), np.float64)
            top = logits.max(1, keepdims=True)
            likely = logits - top - np.log(np.exp(logits - top).sum(1, keepdims=True))
            table = np.zeros((1, classes, classes), np.int64)
            np.add.at(table, (0, y, logits.argmax(1)), 1)
            found[split] = metrics(Scores(np.array([-likely[np.arange(len(y)), y].mean()]), table), 0)
        return found

    return evaluate


def first_model(folder: Path, model: str, seed: int) -> Vector:
    with np.load(folder / "server.npz", allow_pickle=False) as file:
        features, classes = file["holdout.x"].shape[1], int(file["classes"])
    return program(model, features, classes, None).start(seed)
