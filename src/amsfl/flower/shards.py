"""A table dealt to sites as files: every site has its own, so that none reads another's rows.

The functions behind the project that `amsfl deploy --write` leaves: `own_shard` at a site, `Splits` at the
server.
"""

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, MetricRecord

from amsfl import data
from amsfl.core import UserError
from amsfl.core import score as score_of
from amsfl.data import LabelScale
from amsfl.data.recipe import Recipe
from amsfl.flower.jax_trainer import NAME, Program, Shard, one_array
from amsfl.portable import PortableModel
from amsfl.record import from_plain, read_sealed, write_sealed
from amsfl.record.disk import make_folder, write_atomically
from amsfl.simulation import Training
from amsfl.simulation.components import client_names, load_data, partition_scheme

FORM = "form.json"  # beside the splits: what of the data a model's file needs


def deal(config: Training, folder: Path) -> list[Path]:
    """Write shard-0.npz ... and server.npz (the splits that the server judges by); the shards' paths."""
    from amsfl.simulation.provenance import about_data  # here: a site needs none of it

    source = load_data(config)
    score_of(config.score, source.classes)  # a score that this label cannot have is said here
    sites = client_names(config, source)
    clients = len(sites) or config.clients  # the data's own sites are the clients
    scheme, named = partition_scheme(config, source), source.site_names
    parts = data.partition(scheme, source.y, clients, config.seed, sites=source.sites, site_names=named)
    make_folder(folder, private=True)
    paths = [folder / f"shard-{place}.npz" for place in range(len(parts))]
    label = np.int32 if source.classes else np.float32
    kind: dict[str, Any] = {"classes": np.array(len(source.classes))}
    for path, rows in zip(paths, parts, strict=True):
        _write(path, {"x": source.x[rows], "y": source.y[rows].astype(label), **kind})
    splits = {f"{name}.x": x for name, (x, _) in source.evals.items()}
    splits |= {f"{name}.y": y for name, (_, y) in source.evals.items()}
    _write(folder / "server.npz", {**kind, **splits, "splits": np.array(list(source.evals))})
    about = {"data": about_data(source), "sites": list(sites)}
    form = PortableModel((), {}, source.classes, source.features, source.recipe, about, source.amount)
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
    return Shard(held["x"], held["y"], int(held["classes"]), model)


class Splits:
    """The server's own rows and what it knows of the network: `start`, `evaluate_fn` and the model's
    files."""

    def __init__(self, folder: str | Path, model: str, seed: int = 0):
        from amsfl.engines.evaluate import evaluator

        home, self.seed = Path(folder).expanduser(), seed
        if not (home / "server.npz").exists():
            raise UserError(f"There is no server.npz in {str(folder)!r}; deal the data first.")
        held, about = _read(home / "server.npz"), read_sealed(home / FORM, "deal the data again.")
        self.splits = {name: (held[f"{name}.x"], held[f"{name}.y"]) for name in held["splits"].tolist()}
        recipe = None if about["recipe"] is None else from_plain(Recipe, about["recipe"])
        amount = None if about["amount"] is None else from_plain(LabelScale, about["amount"])
        names = tuple(about["classes"]), tuple(about["features"])
        features = self.splits["holdout"][0].shape[1]
        self.program = Program(model, features, int(held["classes"]), self.splits, amount)
        self.form = PortableModel(self.program.layers, {}, *names, recipe, about["about"], amount)
        self.scored = evaluator(self.program.job, ThreadPoolExecutor(1))

    def first(self) -> ArrayRecord:
        """The first model, in one array."""
        return one_array(self.program.start(self.seed))

    def evaluate(self, server_round: int, arrays: ArrayRecord) -> MetricRecord:
        """`evaluate_fn` of a Strategy's `start`: scores of the hold-out; of other splits as `split/score`."""
        said: dict[str, Any] = {}
        for name in self.splits:
            prefix = "" if name == "holdout" else f"{name}/"
            scores = self.scored(arrays[NAME].numpy()[None], name)[0]
            said |= {prefix + key: part for key, part in scores.items() if isinstance(part, int | float)}
        return MetricRecord(said)

    def network(self, arrays: ArrayRecord) -> PortableModel:
        """The network by its layers, its numbers, and what rows it takes."""
        return self.form._replace(tensors=self.program.tensors(arrays[NAME].numpy()))
