"""What a run is made from, as its record keeps it: to be held against what a resumed run finds; and what of a
recorded run left its clients.
"""

import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from amsfl import clock
from amsfl.core import VERSION
from amsfl.core.names import own_file, own_names
from amsfl.core.records import Array, Json
from amsfl.data import Dataset
from amsfl.data.files import is_table
from amsfl.engines import devices, number_scores, table_scores
from amsfl.engines.models import tensors
from amsfl.engines.task import Matrix
from amsfl.methods import Method
from amsfl.planning.planner import policy_of
from amsfl.privacy import RECORD_LEVEL
from amsfl.privacy.disclosure import Leaf, leaves, on_flower
from amsfl.record import Manifest, read_run
from amsfl.record.disk import checksum_arrays
from amsfl.settings.checks import mechanism_of
from amsfl.settings.custom import CustomParts
from amsfl.settings.definitions import RunConfig, ServeConfig, Training, marked
from amsfl.settings.parse import make_config, refuse_recorded_code, serve_config
from amsfl.simulation.components import client_names, federation_of, takes_readings
from amsfl.simulation.setup import RunSetup


def manifest(setup: RunSetup, first: Array) -> Manifest:
    """record.json of a new run; `first` is its model before any round."""
    config = setup.config
    names = client_names(config, setup.data)
    return Manifest(
        kind="run",
        settings=config.model_dump(),
        methods={config.method: of_method(setup.federation.method)},
        made_from=made_from(setup),
        machine=machine(setup, first),
        about=about(setup.data, setup.profiles[0], names),
    )


def of_method(method: Method) -> dict[str, str]:
    """What a report must know of a method that it cannot import: it may be the user's own."""
    return {"name": method.name, "title": method.title, "note": method.facts.note}


def of_data(data: Dataset) -> Json:
    """The numbers that a run learns from and is judged by, as checksums."""
    splits = {split: checksum_arrays(np.asarray(x), np.asarray(y)) for split, (x, y) in data.evals.items()}
    return {
        "data": data.name,
        "rows": len(data.y),
        "training rows": checksum_arrays(np.asarray(data.x)),
        "labels": checksum_arrays(np.asarray(data.y)),
        "classes": list(data.classes),
        "evaluation rows": splits,
        **({} if data.amount is None else {"amount": list(data.amount)}),
    }


def of_files(config: RunConfig) -> Json:
    """The files that settings name besides the data's: speeds, traces, code of the user's own."""
    names = [name for key in marked(RunConfig, "own") for name in own_names(str(getattr(config, key, "")))]
    files = {name: name for name in (config.profile, config.availability) if name.endswith(".csv")}
    files |= {name: path for name in names if (path := own_file(name))}
    return {name: _of_file(path) for name, path in files.items()}


def _of_file(path: str) -> str:
    return checksum_arrays(np.frombuffer(Path(path).read_bytes(), np.uint8))


def made_from(setup: RunSetup) -> Json:
    """All inputs of a run but its settings: a checkpoint means nothing without the same ones."""
    task, costs = setup.task, setup.costs[0]
    return (
        of_data(setup.data)
        | of_files(setup.config)
        | {
            "clients": int(task.shards.size.shape[1]),
            "partition": checksum_arrays(task.shards.order, task.shards.rows),
            "model": task.model.name,
            "layout": layout(setup),
            "costs": checksum_arrays(np.asarray(costs.step_seconds), np.asarray(costs.comm_seconds)),
            "precision": np.dtype(task.dtype).name,
        }
    )


def layout(setup: RunSetup) -> list[str]:
    """Every array of the model in the order of the flat vector."""
    task = setup.task
    named = tensors(task.model, task.unravel(np.zeros(task.dim, task.dtype)))
    return [f"{name} {part.shape}" for name, part in named.items()]


def machine(setup: RunSetup, first: Array) -> Json:
    """What else the bits of a run depend on; not on the cores of one machine (engines/packing.py)."""
    facts = versions() | {"first model": checksum_arrays(first)}
    if setup.config.engine == "jax":
        own = devices.chosen()
        facts |= {"device": own[0].device_kind, "devices": len(own)}
    return facts


def versions() -> Json:
    kind = platform.machine()
    return {"amsfl": VERSION, "jax": version("jax"), "numpy": np.__version__, "processor": kind}


def base(data: Dataset, y: Matrix) -> Json:
    """What saying the commonest class, or the training rows' mean, every time would score.

    Who ends there has learned nothing.
    """
    if data.amount is not None:
        off = y.astype(np.float64) * data.amount.scale  # the mean itself is 0, standardised
        errors = np.abs(off).mean()[None], (off**2).mean()[None], float(off.var())
        scores = number_scores(np.zeros(1), *errors)[0]
    else:
        counts = np.bincount(y, minlength=len(data.classes))
        table = np.zeros((1, len(counts), len(counts)), np.int64)
        table[0, :, counts.argmax()] = counts
        scores = table_scores(np.zeros(1), table)[0]
        scores |= {"auc": [0.5] * len(counts), "macro_auc": 0.5}  # a constant ranks nothing
    # TOML has no None: what a constant has no value of is 0
    return {
        name: [each or 0.0 for each in value] if isinstance(value, list) else value or 0.0
        for name, value in scores.items()
        if name != "loss"
    }


def about(data: Dataset, profile: clock.Profile, names: Sequence[str]) -> Json:
    """Data and clients in words and numbers, for whoever reads the record."""
    clients = {"names": list(names), "step_seconds": profile.step_seconds.tolist()}
    return {"data": about_data(data), "clients": clients}


def about_data(data: Dataset) -> Json:
    splits = {split: np.asarray(y) for split, (_, y) in data.evals.items()}
    return {
        "name": data.name,
        "synthetic": data.synthetic,
        "note": data.note,
        "classes": list(data.classes),
        "rows": len(data.y),
        "eval_rows": {split: len(y) for split, y in splits.items()},
        "base": {split: base(data, y) for split, y in splits.items()},
    }


def leaves_of(folder: Path) -> list[Leaf]:
    """Every quantity, and what protected it; not for a method of your own, whose name alone is on record."""
    record = read_run(folder)
    refuse_recorded_code(record.settings)
    real = record.manifest.kind == "flower"
    config: Training = serve_config(record.settings) if real else make_config(record.settings)
    mechanism = mechanism_of(config)
    if mechanism is None and any(each.epsilon for each in record.rounds[:1]):
        mechanism = RECORD_LEVEL  # by a table's column of budgets
    rows = mechanism is not None and mechanism.rows
    federation = federation_of(config, CustomParts(), mechanism)
    reads = takes_readings(federation.method, policy_of(config, federation.method))
    more = list[Leaf]()
    if isinstance(config, ServeConfig):
        more = on_flower(rows, config.evaluate_clients)
    clients = mechanism is not None and not mechanism.rows
    return leaves(federation, reads, rows, is_table(config.data), clients, not real) + more
