"""The Flower app behind `amsfl deploy` and examples/flower-nslkdd: our models on shards from files.

A data source is dealt to clients as .npz, every site its own file, so that no site reads another's rows.
Run-config: `shards` (the folder with server.npz) beside all settings of server_app.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from amsfl import data
from amsfl.core import UserError
from amsfl.core import score as score_of
from amsfl.core.score_names import split_target
from amsfl.core.scores import shown_score
from amsfl.data import Dataset, LabelScale
from amsfl.data.recipe import Recipe
from amsfl.flower import scores as flower_scores
from amsfl.flower.client.jax_client import Shard, jax_client, program
from amsfl.flower.messages import Buffers, Vector
from amsfl.flower.server.app import merged, serve
from amsfl.flower.server.options import NetworkDescription
from amsfl.portable import PortableModel
from amsfl.record import from_plain, read_sealed, write_sealed
from amsfl.record.disk import make_folder
from amsfl.record.fingerprint import checksum_arrays
from amsfl.simulation import CustomParts, Training
from amsfl.simulation.components import client_names, load_data, method_of, partition_scheme

PROJECT: dict[str, Any] = {
    "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
    "project": {"name": "amsfl-deploy", "version": "1.0.0", "description": "A local federation"},
}
FORM = "form.json"  # beside the splits: what of the data a model's file needs


def deal(config: Training, folder: Path, source: Dataset | None = None) -> list[Path]:
    """Write shard-0.npz ... and server.npz (the splits that the server judges by); the shards' paths.

    `source` is the data that the settings name, where somebody has read it already.
    """
    source = load_data(config) if source is None else source
    score_of(config.score, source.classes)  # a score that this label cannot have is said here
    if not source.classes and method_of(config, CustomParts()).arithmetic.objective is not None:
        raise UserError(
            f"Method {config.method!r} learns from a teacher's classes, and the label of {source.name} is an "
            "amount; use another --method, or make each value a class: --task classification."
        )
    parts = data.partition(
        partition_scheme(config, source),
        source.y,
        len(client_names(config, source)) or config.clients,  # the data's own sites are the clients
        config.seed,
        sites=source.sites,
        site_names=source.site_names,
    )
    make_folder(folder, private=True)
    paths = [folder / f"shard-{place}.npz" for place in range(len(parts))]
    label = np.int32 if source.classes else np.float32
    kind: dict[str, Any] = {
        "classes": np.array(len(source.classes)),
        "unit": np.array(1.0 if source.amount is None else source.amount.scale),
    }
    for path, rows in zip(paths, parts, strict=True):
        _write(path, {"x": source.x[rows], "y": source.y[rows].astype(label), **kind})
    splits: dict[str, Any] = {f"{name}.x": x for name, (x, _) in source.evals.items()}
    splits |= {f"{name}.y": y for name, (_, y) in source.evals.items()}
    _write(folder / "server.npz", {**kind, **splits})
    like = PortableModel((), {}, source.classes, source.features, source.recipe, amount=source.amount)
    write_sealed(folder / FORM, like.description())
    return paths


def _write(path: Path, arrays: dict[str, Any]) -> None:
    """Rows, in a file that only its owner reads."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        path.chmod(0o600)  # also one that was there before
        np.savez(file, **arrays)


def read(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def rows_of(shards: list[Path]) -> Vector:
    """How many rows each has."""
    return np.array([len(read(path)["y"]) for path in shards])


def checksum(folder: Path) -> str:
    """Of all rows that were dealt, whoever has them."""
    files = [read(path) for path in sorted(folder.glob("*.npz"))]
    return checksum_arrays(*(held[name] for held in files for name in sorted(held)))


def own_shard(context: Context) -> Shard:
    """What `shard` in this SuperNode's node-config names; in simulation, its part of the run's `shards`."""
    path: Any = context.node_config.get("shard")
    if not path and context.run_config.get("shards"):
        path = f"{context.run_config['shards']}/shard-{context.node_config.get('partition-id')}.npz"
    if not path or not Path(str(path)).expanduser().exists():
        raise UserError('This SuperNode has no shard; add shard="/path/shard-0.npz" to its --node-config.')
    held, model = read(Path(str(path)).expanduser()), str(context.run_config.get("model", "mlp"))
    return Shard(held["x"], held["y"], int(held["classes"]), model, unit=float(held["unit"]))


def scorer(
    folder: Path, model: str, score: str = ""
) -> Callable[[Vector, Buffers], dict[str, dict[str, Any]]]:
    """Server-side evaluation on server.npz: accuracy, loss, macro-F1 and recall, or R² and errors of amounts,
    as in simulation."""
    from amsfl.engines import Scores, metrics
    from amsfl.portable.evaluation import of_classes

    held = read(folder / "server.npz")
    classes, unit, asked = int(held["classes"]), float(held["unit"]), shown_score(score, {})
    splits = [name.removesuffix(".x") for name in held if name.endswith(".x")]

    def evaluate(params: Vector, buffers: Buffers) -> dict[str, dict[str, Any]]:
        scores: dict[str, dict[str, Any]] = {}
        for split in splits:
            x, y = held[f"{split}.x"], held[f"{split}.y"]
            logits = np.asarray(program(model, x.shape[1], classes, None).logits(params, x), np.float64)
            if not classes:
                scores[split] = flower_scores.judged(logits, y, unit)
                continue
            table = np.zeros((1, classes, classes), np.int64)
            np.add.at(table, (0, y, logits.argmax(1)), 1)
            scores[split] = metrics(Scores(np.array([flower_scores.cross_entropy(logits, y)]), table))[0]
            if asked is not None and asked.ranks:
                ranked = of_classes(logits, y)
                scores[split] |= {name: ranked[name] for name in ("auc", "macro_auc")}
        return scores

    return evaluate


def network(folder: Path, model: str) -> NetworkDescription | None:
    """The network by its layers, and what rows it takes; None for shards that were dealt without that."""
    if not (folder / FORM).is_file():
        return None
    described = read_sealed(folder / FORM, "deal the data again.")
    compiled = program(model, len(described["features"]), len(described["classes"]), None)
    recipe = None if described["recipe"] is None else from_plain(Recipe, described["recipe"])
    amount = None if described["amount"] is None else from_plain(LabelScale, described["amount"])
    classes, features = (tuple(described[name]) for name in ("classes", "features"))
    like = PortableModel(compiled.layers, {}, classes, features, recipe, amount=amount)
    return NetworkDescription(like, compiled.tensors)


def first_model(folder: Path, model: str, seed: int) -> Vector:
    held = read(folder / "server.npz")
    return program(model, held["holdout.x"].shape[1], int(held["classes"]), None).start(seed)


client = jax_client(own_shard)
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    settings = merged({"method": "amsfl"}, context.run_config)
    folder = Path(str(context.run_config["shards"])).expanduser()
    if not (folder / "server.npz").exists():
        raise UserError(f"There is no server.npz in {str(folder)!r}; deal the data first.")
    model, seed = str(settings.get("model", "mlp")), int(settings.get("seed", 0))
    score = str(split_target(settings).get("score", ""))
    serve(
        grid,
        settings,
        scorer(folder, model, score),
        lambda config: first_model(folder, model, seed),
        network=network(folder, model),
    )


def write_app(where: Path, settings: dict[str, Any]) -> None:
    """A Flower app that only names ours, with the settings as its run-config."""
    where.mkdir(parents=True)
    parts = {"serverapp": f"{__name__}:server", "clientapp": f"{__name__}:client"}
    app = {"publisher": "local", "components": parts, "config": flat(settings)}
    project = PROJECT | {"tool": {"flwr": {"app": app}}}
    (where / "pyproject.toml").write_text(tomli_w.dumps(project))


def flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as Flower spells a run-config."""
    return {key.replace("_", "-"): value for key, value in settings.items() if value is not None}
