"""From settings to the parts of a run: data, partition, model, method, engine, profile, planner."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from amsfl import clock, combine, data, engines, methods, privacy, protocol, transmit
from amsfl.core import Reading, Score, UserError, score
from amsfl.data import Dataset
from amsfl.data.class_weights import class_weights
from amsfl.engines import losses, memory, models, task
from amsfl.engines.private_gradients import check_rows_apart
from amsfl.planning import planner
from amsfl.planning.context import PlannerContext, planner_context
from amsfl.portable.network import check_rows, vocabulary_size
from amsfl.privacy import Ledger, Mechanism
from amsfl.privacy.ledger import NOTHING
from amsfl.schedule import Policy
from amsfl.settings.custom import CustomParts
from amsfl.settings.definitions import RunConfig, Training
from amsfl.settings.limits import limits_of
from amsfl.settings.privacy import budgets_of, mechanism_of, private_settings
from amsfl.settings.round_ends import check_everyone, conditions_of, for_older_work, round_end_of
from amsfl.simulation import attackers, best_round
from amsfl.simulation.attackers import Attackers


class RunSetup(NamedTuple):
    """All that a batch of trials is made of; nothing in it changes while they run.

    Trials of a batch may differ in seed, partition, profile, clock, steps, learning rate, attack and when
    they stop (lists: one entry a trial); the rest is the first one's for all.
    """

    config: RunConfig
    configs: list[RunConfig]
    data: Dataset
    task: task.Task
    method: methods.Method
    policy: Policy
    engine: engines.Engine
    profiles: list[clock.Profile]
    costs: list[clock.Costs]
    claimed_costs: list[clock.Costs]  # by what clients say of their speed
    work: clock.Work
    contexts: list[PlannerContext]  # what each trial plans by
    cohort: int
    weights: np.ndarray[Any, np.dtype[Any]]  # [trials, clients] shares of the data, as clients claim
    attackers: Attackers
    end: clock.RoundEnd
    score: Score  # what targets, best rounds and comparisons go by
    mechanism: Mechanism | None  # of privacy
    ledgers: list[Ledger]  # each trial's, of privacy
    conditions: list[clock.ClientConditions]
    steady: list[bool]  # of each trial: no client fails, leaves or is delayed
    whole_rounds: list[bool]  # of each trial: every round is one cohort, and all of it arrives
    last_rounds: list[int]  # of each trial, at the latest

    @property
    def places(self) -> int:
        """Jobs at most that are under way or wait for the server's next move."""
        return self.cohort + (self.end.size or 1) - 1


def load_data(config: Training) -> Dataset:
    return data.load(
        config.data,
        data_dir=config.data_dir,
        label=config.label,
        client_column=config.client_column,
        binary=config.binary,
        drop=config.drop,
        columns=config.columns,
        impute=config.impute,
        keep=config.keep,
        missing=config.missing,
        task=config.task,
    )


def prepare(
    config: RunConfig,
    seeds: Sequence[int],
    own: CustomParts | None = None,
) -> RunSetup:
    """The same settings with one or many seeds."""
    return assemble([config.model_copy(update={"seed": seed}) for seed in seeds], own)


def assemble(configs: Sequence[RunConfig], own: CustomParts | None = None) -> RunSetup:
    """Build everything. What a user brings stands in for what the settings name."""
    config, own = configs[0], own or CustomParts()
    method_of(config, own)  # a name that nobody knows is told before any row is read
    dataset = own.dataset or load_data(config)
    told = score(config.score, dataset.classes)
    best_round.check(config.judge_by, not dataset.classes)
    names = client_names(config, dataset)
    clients = len(names) or config.clients  # the data says how many there are, if it has sites
    if config.cohort is not None and config.cohort > clients:
        raise UserError(
            f"A cohort of {config.cohort} does not fit {clients} clients; lower --cohort or raise --clients."
        )
    profiles = [clock.profile(each.profile, clients, each.seed, names) for each in configs]
    mechanism = mechanism_of(config, profiles[0], own.privacy)
    method = method_of(config, own, mechanism)
    policy = planner.policy_of(config, method, own.policy)
    end = round_end_of(config, method, config.cohort or clients, own.round_end)
    check_everyone(method, end, config.cohort or clients, clients)
    method = for_older_work(config, method, end)
    loss = loss_of(config, dataset, method)
    partitions = [
        data.partition(
            scheme(each, dataset),
            dataset.y,
            clients,
            each.seed,
            shares=profile.shares,
            sites=dataset.sites,
            site_names=dataset.site_names,
        )
        for each, profile in zip(configs, profiles, strict=True)
    ]
    cast = attackers.draw_attackers(configs, clients)
    rows, partitions = cast.false_rows(dataset, partitions)
    method = method._replace(attacks=cast.attacks)
    dtype = np.float64 if config.precision == "float64" else np.float32
    network = own.network or _named_network(config.model, dataset, method.private_rows is not None)
    if mechanism is not None:
        mechanism.check(private_settings(config), method, policy, end)
    if method.private_rows:
        check_rows_apart(network, dataset.x)
    job = task.make(rows, network, partitions, [each.seed for each in configs], dtype, loss)
    job = job._replace(pieces=pieces_of(config, job, method))
    part = (config.cohort or clients) / clients
    policies = [planner.policy_of(each, method, own.policy) for each in configs]
    ledgers = [
        _ledger(mechanism, *each, job.dim, part)
        for each in zip(configs, policies, profiles, job.shards.size, strict=True)
    ]
    if mechanism is not None and mechanism.server is not None:
        noises = {ledger.exposures[0].noise for ledger in ledgers}
        if len(noises) > 1:
            raise UserError(
                "Trials of a batch share the noise on their sums: run them in batches of their own."
            )
        private = mechanism.server(private_settings(config), noises.pop(), part, clients)
        method = privacy.protect_clients(method, private)
    if method.private_rows:
        job = job._replace(noise=np.array([[each.noise for each in one.exposures] for one in ledgers]))
    reads = takes_readings(config, method, policy)
    room = room_of(config.cohort, clients, method)
    together = end.size or config.cohort
    weather = [conditions_of(each, profile, names) for each, profile in zip(configs, profiles, strict=True)]
    check_shared(config, end, weather)
    engine = engines.make(config.engine, job, method, config.batch, reads, room, together, config.shard_model)
    work = work_of(method, policy, job.dim)
    claimed = cast.claimed(job.shards.weights)
    costs, cohort = [clock.costs(profile, work) for profile in profiles], config.cohort or clients
    limits = [
        limits_of(each, cost.accounts, rule, cohort, end, _unsaid(each))
        for each, cost, rule in zip(configs, costs, policies, strict=True)
    ]
    stale, share = (end.weight, end.size) if end.overlap else (None, None)
    return RunSetup(
        config,
        list(configs),
        dataset,
        job,
        method,
        policy,
        engine,
        profiles,
        costs,
        [cast.costs(trial, each) for trial, each in enumerate(costs)],
        work,
        [
            planner_context(each, method, rule, weights, rows, stale, limit, share)
            for each, rule, weights, rows, limit in zip(
                configs, policies, claimed, job.shards.size, limits, strict=True
            )
        ],
        room or clients,
        claimed,
        cast,
        end,
        told,
        mechanism,
        ledgers,
        weather,
        [each.calm for each in weather],
        [each.calm and end.waits_for_all for each in weather],
        [each.last_round for each in configs],
    )


def _ledger(
    mechanism: Mechanism | None,
    config: RunConfig,
    policy: Policy,
    profile: clock.Profile,
    rows: Any,
    numbers: int,
    part: float,
) -> Ledger:
    """One trial's privacy ledger."""
    if mechanism is None:
        return NOTHING
    clients = privacy.Clients(rows, budgets_of(config, profile, len(rows)), part, numbers)
    return mechanism.open_ledger(private_settings(config), policy, clients)


def pieces_of(config: RunConfig, job: task.Task, method: methods.Method) -> int:
    """Parts of a minibatch whose gradients are taken one after another."""
    if config.pieces is None:
        return 1 if method.private_rows else memory.pieces(job, method, config.batch)
    if method.private_rows and config.pieces > 1:
        raise UserError(
            "Under privacy rows come by chance, each clipped by itself: a minibatch has no equal pieces; "
            "leave --pieces out, or lower --batch."
        )
    if config.batch % config.pieces:
        raise UserError(
            f"{config.batch} rows of a minibatch do not make {config.pieces} equal pieces; use a divisor of "
            "--batch."
        )
    return config.pieces


def check_shared(config: RunConfig, end: clock.RoundEnd, weather: Sequence[clock.ClientConditions]) -> None:
    if config.shard_model > 1 and not (end.waits_for_all and all(each.calm for each in weather)):
        raise UserError(
            "Where not all are waited for, or some fail or go, models under way lie on the host, where there "
            "is no place for one that devices share; leave --shard-model out, or use --round-end all and "
            "clients that stay."
        )


def room_of(cohort: int | None, clients: int, method: methods.Method) -> int | None:
    """Places of a cohort: more than are expected where everybody is in by a chance of its own."""
    if cohort is None or method.private_clients is None:
        return cohort
    return min(clients, cohort + int(np.ceil(8 * cohort**0.5)) + 8)  # more come once in 10^12 rounds


def loss_of(config: RunConfig, dataset: Dataset, method: methods.Method) -> losses.RowLoss:
    """What clients minimise, if that goes together with what is predicted."""
    if not dataset.classes and method.arithmetic.objective is not None:
        raise UserError(
            f"{method.title} learns from a teacher's classes, and here numbers are predicted; "
            "use another --method."
        )
    weights = class_weights(config.class_weights, dataset.y, dataset.classes)
    loss = losses.named(config.loss, len(dataset.classes))
    return loss if weights is None else losses.weighted(weights)


def _named_network(spec: str, dataset: Dataset, private: bool) -> models.Model:
    """The model of that name; how large features are is asked only where rows need not be kept private."""
    network = models.make(spec, dataset.x.shape[1], len(dataset.classes) or 1)
    if vocabulary_size(network.layers):
        for x in (dataset.x, *(x for x, _ in dataset.evals.values())):
            check_rows(network.layers, x)
        return network
    return network if private else models.scale_inputs(network, models.input_scale(dataset.x))


def client_names(config: Training, dataset: Dataset) -> tuple[str, ...]:
    """The data's sites, where they are the clients; () where clients have numbers."""
    own = scheme(config, dataset) in ("column", "site") and dataset.sites is not None
    return tuple(dataset.site_names) if own else ()


def scheme(config: Training, dataset: Dataset) -> str:
    if config.partition != "auto":
        return config.partition
    return "dirichlet:0.5" if dataset.sites is None else "column"


def method_of(config: Training, own: CustomParts, mechanism: Mechanism | None = None) -> methods.Method:
    """The method of the settings with all that they put on top of it."""
    method = methods.make(own.method or config.method, config.options, config.extrapolation)
    private = mechanism is not None and mechanism.client is not None
    if private and method.facts.private_options and own.method is None:
        options = {**dict(method.facts.private_options), **config.options}  # those are its defaults then
        method = methods.make(config.method, options, config.extrapolation)
    if mechanism is not None and mechanism.client is not None:
        method = privacy.protect_rows(method, mechanism, config.clip)
    server = methods.server_optimizer(config.server_optimizer)
    if server:
        method = methods.optimize(method, server)
    rule, way = (combine.make(own.robust or config.robust), transmit.make(own.transmit or config.transmit))
    if rule and method.arithmetic.init(np.zeros(1))[1].size:
        raise UserError(
            f"{method.title} keeps a state at every client that balances only if the server "
            "sums all uploads; a rule that weighs them otherwise leads it astray. Leave --robust out, or "
            "use fedavg, fedprox, fednova or amsfl."
        )
    return method._replace(combine=rule or method.combine, transmit=way or method.transmit)


def takes_readings(config: Training, method: methods.Method, policy: Policy) -> bool:
    """Whether clients take GDA readings: the method, the policy or the user asks for them."""
    return (
        method.facts.readings or method.facts.own_rate or policy.readings or policy.losses or config.readings
    )


def _unsaid(config: RunConfig) -> str:
    return (
        f"the profile {config.profile!r} does not say what clients spend; give it a table with the columns "
        "joules_step and joules_mb, or try --profile battery."
    )


def work_of(method: methods.Method, policy: Policy, dim: int) -> clock.Work:
    """What a round costs a client besides its steps.

    Who plans by the change of a gradient pays for it; as a mere diagnostic it is free, and so is a loss.
    """
    reads = (
        method.facts.readings or policy.readings
    ) and not method.private_rows  # then uploads tell all that is known
    return clock.Work(
        4.0 * dim * method.cost.vectors_down,
        protocol.upload_bytes(method, dim) + 4.0 * (len(Reading._fields) if reads else 0),
        max(method.cost.extra_gradients, float(reads)),
        method.cost.extra_per_step,
    )


PRODUCTS = {"strict": "highest", "tf32": "tensorfloat32", "bf16": "BF16_BF16_F32"}  # as jax calls them


@contextmanager
def precision(config: RunConfig) -> Iterator[None]:
    """jax as this run wants it, and as it was again afterwards: no run's precision is another's."""
    import jax

    with (
        jax.enable_x64(config.precision == "float64"),
        jax.default_matmul_precision(PRODUCTS.get(config.precision)),
    ):
        yield
