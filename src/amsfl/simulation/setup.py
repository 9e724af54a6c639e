"""From settings to the parts of a run: data, partition, model, method, engine, profile, planner."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from amsfl import clock, data, engines
from amsfl.core import Score, UserError, score
from amsfl.core.algorithm import NUMBERS
from amsfl.core.scores import UNBALANCED
from amsfl.data import Dataset
from amsfl.engines import task
from amsfl.methods import Federation
from amsfl.planning import Policy, planner
from amsfl.planning.planner import PlannerContext, planner_context, steps_of
from amsfl.privacy import Ledger, Mechanism
from amsfl.privacy.accounting import NOTHING
from amsfl.privacy.mechanisms import private_sum
from amsfl.settings.checks import (
    budgets_of,
    check_everyone,
    check_public,
    conditions_of,
    mechanism_of,
    shared_round_end,
)
from amsfl.settings.custom import CustomParts
from amsfl.settings.definitions import RunConfig
from amsfl.simulation import attackers
from amsfl.simulation.attackers import Attackers
from amsfl.simulation.components import (
    check_network,
    client_names,
    federation_of,
    load_data,
    loss_of,
    named_network,
    partition_scheme,
    room_of,
    takes_readings,
    with_held_back,
    work_of,
)


class RunSetup(NamedTuple):
    """All that a batch of trials is made of; nothing in it changes while they run.

    Trials of a batch may differ in seed, partition, profile, clock, steps, learning rate, attack and when
    they stop (lists: one entry a trial); the rest is the first one's for all.
    """

    config: RunConfig
    configs: list[RunConfig]
    data: Dataset
    task: task.Task
    federation: Federation
    policy: Policy
    engine: engines.Engine
    profiles: list[clock.Profile]
    costs: list[clock.Costs]
    work: clock.Overhead
    contexts: list[PlannerContext]  # what each trial plans by
    cohort: int
    weights: task.Matrix  # [trials, clients] shares of the data, as clients claim
    attackers: Attackers
    end: clock.RoundEnd
    score: Score  # what targets, best rounds and comparisons go by
    by_loss: bool  # whether best rounds go by the loss and not by the score
    mechanism: Mechanism | None  # of privacy
    ledgers: list[Ledger]  # each trial's, of privacy
    conditions: list[clock.ClientConditions | None]  # each trial's; None: nothing happens on the way
    limits: list[dict[str, float]]  # at which each trial ends: rounds, seconds, joules, megabytes
    whole_rounds: list[bool]  # of each trial: every round is one cohort, and all of it arrives
    learns: bool  # whether rounds change what the next ones are planned by
    compares_uploads: bool  # whether the server compares them, not just adds them up
    own_models: bool  # whether clients' own models are scored at the end
    judges: bool  # whether the server may go back to an older model
    ahead: bool  # whether several rounds are planned before the first one runs, where they are whole


def goes_by_loss(config: RunConfig, dataset: Dataset) -> bool:
    """Whether best rounds go by the loss, if nobody names a score.

    Where most rows are of one class, a model that says nothing else has a high accuracy, but no low loss.
    """
    if config.score or not dataset.classes:
        return False
    counts = np.bincount(dataset.evals["holdout"][1])
    return bool(counts.max() >= UNBALANCED * counts.sum())


def engine_by_size(config: RunConfig, job: task.Task, federation: Federation, policy: Policy) -> str:
    """Of a run that names none: by the most steps and scored rows that its settings allow."""
    rows, cohort = job.shards.size[0], config.cohort or job.shards.size.shape[1]
    if policy.constant:
        each = steps_of(config, rows)
    else:
        each = np.clip(NUMBERS.passes * rows / config.batch, 2, NUMBERS.steps)
    steps = config.last_round * cohort * each.mean()
    scored = config.last_round / config.eval_every * sum(len(y) for _, y in job.evals.values())
    return engines.by_size(job, federation, steps, scored, config.batch)


def limits_of(config: RunConfig) -> dict[str, float]:
    """Where a run ends at the latest."""
    each = {"rounds": config.last_round, "seconds": config.seconds}
    each |= {"joules": config.joules, "megabytes": config.megabytes}
    return {name: most for name, most in each.items() if most is not None}


def assemble(configs: Sequence[RunConfig], own: CustomParts | None = None) -> RunSetup:
    """Build everything. What a user brings stands in for what the settings name."""
    config, own = configs[0], own or CustomParts()
    federation_of(config, own)  # an unknown name raises before any row is read
    dataset = own.dataset or load_data(config)
    run_score = score(config.score, dataset.classes)
    names = client_names(config, dataset)
    clients = len(names) or config.clients  # the data says how many there are, if it has sites
    if config.cohort is not None and config.cohort > clients:
        more = "" if names else " or raise --clients"
        raise UserError(f"A cohort of {config.cohort} does not fit {clients} clients; lower --cohort{more}.")
    profiles = [clock.profile(each.profile, clients, each.seed, names) for each in configs]
    mechanism = mechanism_of(config, profiles[0])
    federation = federation_of(config, own, mechanism)
    method = federation.method
    policy = planner.policy_of(config, method, own.policy)
    end = shared_round_end(configs, method, config.cohort or clients, own.round_end)
    check_everyone(method, end, config.cohort or clients, clients)
    partitions = [
        data.partition(
            partition_scheme(each, dataset),
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
    federation = federation._replace(attacks=cast.attacks)
    dtype = np.float64 if config.precision == "float64" else np.float32
    if own.network:
        network = check_network(own.network, dataset)
    else:
        network = named_network(config.model, dataset, federation.private_rows is not None)
    if mechanism is not None:
        mechanism.check(config, federation, policy, end)
        check_public(config, dataset.name)
    if federation.private_rows:
        from amsfl.engines.private_gradients import check_rows_apart

        check_rows_apart(network, dataset.x)
    loss = loss_of(config, dataset, method, network)
    job = task.make(rows, network, partitions, [each.seed for each in configs], dtype, loss)
    shuffled = config.batch if config.epochs is not None else 0
    job = job._replace(shuffled=shuffled)
    if method.judges and config.held_back:
        job = task.hold_back(job, config.held_back)
    part = (config.cohort or clients) / clients
    policies = [planner.policy_of(each, method, own.policy) for each in configs]
    ledgers = [NOTHING] * len(configs)
    if mechanism is not None:
        each_own = zip(configs, policies, profiles, job.shards.size, strict=True)
        ledgers = [
            mechanism.open_ledger(each, rule, rows_each, budgets_of(each, profile, clients), part, job.dim)
            for each, rule, profile, rows_each in each_own
        ]
    if mechanism is not None and not mechanism.rows:
        noises = {ledger.exposures[0].noise for ledger in ledgers}
        if len(noises) > 1:
            raise UserError(
                "Trials of a batch share the noise on their sums: run them in batches of their own."
            )
        summed = private_sum(config.clip, noises.pop(), part)
        federation = federation._replace(private_clients=summed)
    if federation.private_rows:
        job = job._replace(noise=np.array([[each.noise for each in one.exposures] for one in ledgers]))
    if config.engine == "auto":
        by_size = engine_by_size(config, job, federation, policy)
        configs = [each.model_copy(update={"engine": by_size}) for each in configs]
        config = configs[0]
    room = room_of(config.cohort, clients, federation)
    conditions = [
        conditions_of(each, profile, names) for each, profile in zip(configs, profiles, strict=True)
    ]
    work = work_of(federation, policy, job.dim, config.batch)
    claimed = cast.claimed(job.shards.weights)
    costs = [
        clock.costs(profile, with_held_back(work, held, config.batch))
        for profile, held in zip(profiles, job.shards.held, strict=True)
    ]
    for each, cost in zip(configs, costs, strict=True):
        if each.joules is not None and "joules" not in cost.accounts:
            raise UserError(
                f"Setting 'joules' limits joules, and the profile {each.profile!r} does not say what clients "
                "spend; give it a table with the columns joules_step and joules_mb, or --profile battery."
            )
    stale = end.weight if end.overlap else None
    claimed_costs = [cast.costs(trial, each) for trial, each in enumerate(costs)]
    plans = zip(configs, policies, claimed, claimed_costs, job.shards.size, strict=True)
    reads, learns = takes_readings(method, policy), planner.learns(method, policy)
    compares, own_models = federation.compares_uploads, "models" in config.details
    # clients' own models are those of a round by itself, which must be known to be the last one
    ends_by_scores = config.stop_after > 0 or (config.target is not None and config.stop_at_target)
    unforeseen = compares or (own_models and (ends_by_scores or room is not None))
    engine = engines.make(config.engine, job, federation, config.batch, reads, room)
    return RunSetup(
        config=config,
        configs=list(configs),
        data=dataset,
        task=job,
        federation=federation,
        policy=policy,
        engine=engine,
        profiles=profiles,
        costs=costs,
        work=work,
        contexts=[
            planner_context(each, method, rule, weights, said, rows, stale, federation.rule)
            for each, rule, weights, said, rows in plans
        ],
        cohort=room or clients,
        weights=claimed,
        attackers=cast,
        end=end,
        score=run_score,
        by_loss=goes_by_loss(config, dataset),
        mechanism=mechanism,
        ledgers=ledgers,
        conditions=conditions,
        limits=[limits_of(each) for each in configs],
        whole_rounds=[each is None and end.waits_for_all for each in conditions],
        learns=learns,
        compares_uploads=compares,
        own_models=own_models,
        judges=method.judges,
        ahead=config.eval_every > 1
        and engine.ahead is not None
        and not (reads or learns or unforeseen or mechanism or cast.attacks),
    )
