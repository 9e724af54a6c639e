"""A table dealt to sites as files: every site has its own, so that none reads another's rows.

The functions behind the project that `amsfl deploy --write` leaves: `own_shard` at a site, `Splits` at the
server.
"""

import io
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, MetricRecord

from amsfl import data
from amsfl.core import UserError
from amsfl.core import score as score_of
from amsfl.data import LabelScale
from amsfl.data.recipe import Recipe
from amsfl.flower import scores
from amsfl.flower.jax_trainer import NAME, Shard, one_array, program
from amsfl.flower.run_record import NetworkDescription
from amsfl.portable import PortableModel
from amsfl.record import from_plain, read_sealed, write_sealed
from amsfl.record.disk import make_folder, write_atomically
from amsfl.simulation import Training
from amsfl.simulation.components import client_names, load_data, partition_scheme

FORM = "form.json"  # beside the splits: what of the data a model's file needs


def deal(config: Training, folder: Path) -> list[Path]:
    """Write shard-0.npz ... and server.npz (the splits that the server judges by); the shards' paths."""
    source = load_data(config)
    score_of(config.score, source.classes)  # a score that this label cannot have is said here
    clients = len(client_names(config, source)) or config.clients  # the data's own sites are the clients
    scheme, named = partition_scheme(config, source), source.site_names
    parts = data.partition(scheme, source.y, clients, config.seed, sites=source.sites, site_names=named)
    make_folder(folder, private=True)
    paths = [folder / f"shard-{place}.npz" for place in range(len(parts))]
    label = np.int32 if source.classes else np.float32
    unit = 1.0 if source.amount is None else source.amount.scale
    kind: dict[str, Any] = {"classes": np.array(len(source.classes)), "unit": np.array(unit)}
    for path, rows in zip(paths, parts, strict=True):
        _write(path, {"x": source.x[rows], "y": source.y[rows].astype(label), **kind})
    splits = {f"{name}.x": x for name, (x, _) in source.evals.items()}
    splits |= {f"{name}.y": y for name, (_, y) in source.evals.items()}
    _write(folder / "server.npz", {**kind, **splits})
    form = PortableModel((), {}, source.classes, source.features, source.recipe, amount=source.amount)
    write_sealed(folder / FORM, form.description())
    return paths


def _write(path: Path, arrays: dict[str, Any]) -> None:
    """Rows, in a file that only its owner reads."""
    content = io.BytesIO()
    np.savez(content, **arrays)
    write_atomically(path, content.getvalue(), 0o600)


def _read(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def own_shard(context: Context) -> Shard:
    """What `shard` of this node's node-config names; where there is none, its part of the run's `shards`."""
    node, run = context.node_config, context.run_config
    path: Any = node.get("shard")
    if not path and run.get("shards"):
        path = f"{run['shards']}/shard-{node.get('partition-id')}.npz"
    if not path or not Path(str(path)).expanduser().exists():
        raise UserError('This SuperNode has no shard; add shard="/path/shard-0.npz" to its --node-config.')
    held, model = _read(Path(str(path)).expanduser()), str(run.get("model", "mlp"))
    return Shard(held["x"], held["y"], int(held["classes"]), model, unit=float(held["unit"]))


class Splits:
    """The server's own rows and what it knows of the network: `start`, `evaluate_fn` and the model's
    files."""

    def __init__(self, folder: str | Path, model: str, seed: int = 0):
        self.folder, self.model, self.seed = Path(folder).expanduser(), model, seed
        if not (self.folder / "server.npz").exists():
            raise UserError(f"There is no server.npz in {str(folder)!r}; deal the data first.")
        self.held = _read(self.folder / "server.npz")
        self.classes, self.unit = int(self.held["classes"]), float(self.held["unit"])
        self.program = program(model, self.held["holdout.x"].shape[1], self.classes)

    def first(self) -> ArrayRecord:
        """The first model, in one array."""
        return one_array(self.program.start(self.seed))

    def evaluate(self, server_round: int, arrays: ArrayRecord) -> MetricRecord:
        """`evaluate_fn` of a Strategy's `start`: scores of the hold-out; of other splits as `split/score`."""
        said: dict[str, Any] = {}
        for name in (each.removesuffix(".x") for each in self.held if each.endswith(".x")):
            prefix = "" if name == "holdout" else f"{name}/"
            said |= {prefix + key: value for key, value in self._scores(name, arrays).items()}
        return MetricRecord(said)

    def _scores(self, split: str, arrays: ArrayRecord) -> Mapping[str, Any]:
        from amsfl.engines import Scores, metrics

        x, y = self.held[f"{split}.x"], self.held[f"{split}.y"]
        logits = np.asarray(self.program.logits(arrays[NAME].numpy(), x), np.float64)
        if not self.classes:
            return scores.with_r2(scores.of_outputs(logits, y, 0, self.unit), y, self.unit)
        table = np.zeros((1, self.classes, self.classes), np.int64)
        np.add.at(table, (0, y, logits.argmax(1)), 1)
        said: dict[str, Any] = metrics(Scores(np.array([scores.cross_entropy(logits, y)]), table))[0]
        return {key: value for key, value in said.items() if isinstance(value, int | float)}

    @cached_property
    def network(self) -> NetworkDescription:
        """The network by its layers, and what rows it takes."""
        about = read_sealed(self.folder / FORM, "deal the data again.")
        recipe = None if about["recipe"] is None else from_plain(Recipe, about["recipe"])
        amount = None if about["amount"] is None else from_plain(LabelScale, about["amount"])
        names = tuple(about["classes"]), tuple(about["features"])
        like = PortableModel(self.program.layers, {}, *names, recipe, amount=amount)
        return NetworkDescription(like, lambda arrays: self.program.tensors(arrays[NAME].numpy()))
