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
    """All that a batch of trials is made of; nothing in it changes while they run.

    Trials of a batch may differ in seed, partition, profile, clock, steps, learning rate and when they
    stop (lists: one entry a trial); the rest is the first one's for all.
    """

    config: RunConfig
    configs: list[RunConfig]
    data: Dataset
    task: task.Task
    method: methods.Method
    engine: engines.Engine
    costs: list[clock.Costs]
    work: clock.Work
    planners: list[planner.Planner]
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
    """The same settings with one or many seeds."""
    return assemble([config.model_copy(update={"seed": seed}) for seed in seeds], dataset, model)


def assemble(
    configs: Sequence[RunConfig], dataset: Dataset | None = None, model: models.Model | None = None
) -> Parts:
    """Build everything. A user's own Dataset or Model may stand in for the named ones."""
    config = configs[0]
    dataset = dataset or load_data(config)
    clients = config.clients
    if _scheme(config, dataset) in ("column", "site") and dataset.sites is not None:
        clients = len(dataset.site_names)  # the data says how many there are
    if config.cohort is not None and config.cohort > clients:
        raise UserError(
            f"A cohort of {config.cohort} does not fit {clients} clients; lower --cohort or raise --clients."
        )
    profiles = [clock.profile(each.profile, clients, config.seed) for each in configs]
    partitions = [
        data.partition(
            _scheme(each, dataset),
            dataset.y,
            clients,
            each.seed,
            shares=profile.shares,
            sites=dataset.sites,
            site_names=dataset.site_names,
        )
        for each, profile in zip(configs, profiles, strict=True)
    ]
    dtype = np.dtype(config.precision).type
    network = model or models.make(config.model, dataset.x.shape[1], len(dataset.classes))
    job = task.make(dataset, network, partitions, [each.seed for each in configs], dtype)
    method = methods.make(config.method, method_options(config), config.extrapolation)
    policy = planner.policy_of(config)
    reads = method.readings or policy in planner.READERS
    feedback = policy == "adacomm"  # wants the loss at the anchor, which is free
    taken = reads or config.readings or feedback
    engine = engines.make(config.engine, job, method, config.batch, taken, config.cohort)
    work = clock.work(
        job.dim,
        method.vectors_down,
        method.vectors_up,
        len(Reading._fields) if reads else 0,
        # who plans by the change of a gradient pays for it; as a mere diagnostic it is free
        max(method.extra_gradients, float(reads)),
        method.extra_per_step,
    )
    return Parts(
        config,
        list(configs),
        dataset,
        job,
        method,
        engine,
        [clock.costs(profile, work) for profile in profiles],
        work,
        [planner.planner(*pair) for pair in zip(configs, job.shards.weights, strict=True)],
        config.cohort or clients,
    )


def _scheme(config: RunConfig, dataset: Dataset) -> str:
    if config.partition != "auto":
        return config.partition
    return "dirichlet:0.5" if dataset.sites is None else "column"


# What the modes of AMSFL switch off: all but the planned steps, and for the paper all that it has not.
MODES: dict[str, dict[str, float]] = {
    "amsfl": {},
    "steps": {"polyak": 0.0, "cap": 1.0, "momentum": 0.0},
    "paper": {"polyak": 0.0, "cap": 1.0, "momentum": 0.0, "closing": 0.0, "balance": 0.0},
}


def method_options(config: RunConfig) -> dict[str, float]:
    """The method's hyper-parameters: what the mode switches off, then what the user set."""
    return (MODES[config.mode] if config.method == "amsfl" else {}) | config.options


def check_precision(config: RunConfig) -> None:
    """float64 needs jax told so before anything is compiled."""
    import jax

    if config.precision == "float64" and not jax.config.read("jax_enable_x64"):
        try:
            jax.config.update("jax_enable_x64", True)
        except RuntimeError:
            raise UserError("float64 must be asked for before jax is used; set JAX_ENABLE_X64=1.") from None
