"""From settings to the parts of a run: data, partition, model, method, engine, profile, planner."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from amsfl import clock, data, engines, methods
from amsfl.core import Reading, UserError
from amsfl.data import Dataset
from amsfl.engines import models, task
from amsfl.federation import planner
from amsfl.federation.config import RunConfig


class Parts(NamedTuple):
    """All that a run is made of; nothing in it changes while it runs."""

    config: RunConfig
    data: Dataset
    task: task.Task
    method: methods.Method
    engine: engines.Engine
    costs: clock.Costs
    work: clock.Work
    planners: list[planner.Planner]  # one per trial: weights differ with the partition
    cohort: int


def load_data(config: RunConfig) -> Dataset:
    return data.load(
        config.data,
        data_dir=config.data_dir,
        label=config.label,
        client_column=config.client_column,
        binary=config.binary,
    )


def prepare(
    config: RunConfig,
    seeds: Sequence[int],
    dataset: Dataset | None = None,
    model: models.Model | None = None,
) -> Parts:
    """Build everything. A user's own Dataset or Model may stand in for the named ones."""
    dataset = dataset or load_data(config)
    scheme, clients = config.partition, config.clients
    if scheme == "auto":
        scheme = "dirichlet:0.5" if dataset.sites is None else "column"
    if scheme in ("column", "site") and dataset.sites is not None:
        clients = len(dataset.site_names)  # the data says how many there are
    if config.cohort is not None and config.cohort > clients:
        raise UserError(
            f"A cohort of {config.cohort} does not fit {clients} clients; lower --cohort or raise --clients."
        )
    profile = clock.profile(config.profile, clients, config.seed)
    partitions = [
        data.partition(
            scheme,
            dataset.y,
            clients,
            seed,
            shares=profile.shares,
            sites=dataset.sites,
            site_names=dataset.site_names,
        )
        for seed in seeds
    ]
    dtype = np.dtype(config.precision).type
    network = model or models.make(config.model, dataset.x.shape[1], len(dataset.classes))
    job = task.make(dataset, network, partitions, seeds, dtype)
    method = methods.make(config.method, _options(config), config.extrapolation)
    policy = planner.policy_of(config)
    reads = method.readings or policy in planner.READERS
    feedback = policy == "adacomm"  # wants the loss at the anchor, which is free
    engine = engines.make(config.engine, job, method, config.batch, reads or config.readings or feedback)
    work = clock.work(
        job.dim,
        method.vectors_down,
        method.vectors_up,
        len(Reading._fields) if reads else 0,
        # who plans by the change of a gradient pays for it; as a mere diagnostic it is free
        max(method.extra_gradients, float(reads)),
        method.extra_per_step,
    )
    cohort = config.cohort or clients
    planners = [planner.planner(config, weights) for weights in job.shards.weights]
    return Parts(config, dataset, job, method, engine, clock.costs(profile, work), work, planners, cohort)


PLAIN = {"polyak": 0.0, "closing": 0.0, "cap": 1.0, "momentum": 0.0}


def _options(config: RunConfig) -> dict[str, float]:
    """Modes steps and paper leave of AMSFL the planned steps alone."""
    plain = config.method == "amsfl" and config.mode != "amsfl"
    return (PLAIN | config.options) if plain else config.options


def check_precision(config: RunConfig) -> None:
    """float64 needs jax told so before anything is compiled."""
    import jax

    if config.precision == "float64" and not jax.config.read("jax_enable_x64"):
        try:
            jax.config.update("jax_enable_x64", True)
        except RuntimeError:
            raise UserError("float64 must be asked for before jax is used; set JAX_ENABLE_X64=1.") from None
