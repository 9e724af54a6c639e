"""Differential privacy from settings: who is private, what a method may then do, and the book of a run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from amsfl import methods, privacy, sampling
from amsfl.clock import Profile, RoundEnd
from amsfl.core import UserError
from amsfl.engines.models import Model
from amsfl.methods.arithmetic import average
from amsfl.privacy import Ledger
from amsfl.schedule import Policy
from amsfl.settings.definitions import ROUNDS, T_MAX, RunConfig, ServeConfig, Training

Array = np.ndarray[Any, np.dtype[Any]]
USUAL = 1.0  # noise where nobody says, nor has a budget


def is_private(config: Training, profile: Profile | None = None) -> bool:
    """Whether clients clip and add noise: the settings say so, or a budget of epsilon implies it."""
    if config.privacy == "none" and config.epsilon is not None:
        raise UserError("An epsilon is given, and privacy 'none': leave one of them out.")
    budget = config.epsilon is not None or (profile is not None and column(profile) is not None)
    return config.privacy == "record" or (config.privacy == "auto" and budget)


def of_clients(config: Training) -> bool:
    """Whether whole clients are kept private, by the server."""
    return config.privacy == "client"


def column(profile: Profile) -> Array | None:
    return None if profile.sites is None else profile.sites.get("epsilon")


def check_policy(policy: Policy) -> None:
    if policy.losses:
        raise UserError(
            f"The policy {policy.name!r} plans by clients' losses, which would tell of single rows; under "
            "privacy use fixed, fill or price."
        )


def check(config: Training, method: methods.Method, policy: Policy, end: RoundEnd) -> None:
    """Whether these parts of a run can be private at all, where they are to be."""
    if method.clip:
        check_settings(config)
        check_policy(policy)
        if end.overlap:
            raise UserError(
                "A server that waits for nobody would wait forever once clients have spent their privacy; "
                "under privacy rounds end with all, a deadline or a quorum."
            )
    if of_clients(config):
        check_clients(config, method, policy, end)
    hidden = method.clip or of_clients(config)
    if hidden and isinstance(config, ServeConfig) and config.evaluate_clients:
        raise UserError(
            "What clients score on their own rows would leave without noise; under privacy leave "
            "evaluate_clients out, and give the server an evaluate function."
        )


def check_settings(config: Training) -> None:
    if isinstance(config, RunConfig) and config.class_weights == "balanced":
        raise UserError(
            "Balanced class weights are made of every client's counts of classes, which would leave without "
            "noise; under privacy name the weights, as in --class-weights yes=5,no=1, or leave them out."
        )


def check_rows_apart(model: Model, x: Array) -> None:
    """A row's gradient must be its own: a model that looks across a batch has none."""
    import jax
    import jax.numpy as jnp

    rows = jnp.asarray(x[:: max(len(x) // 4, 1)][:4])
    drawn = model.init(jax.random.key(0))

    def moved(leaf: Any) -> Any:  # models may begin at zero, where nothing matters
        return jnp.asarray(leaf, rows.dtype) + 0.1 * jnp.cos(jnp.arange(leaf.size)).reshape(leaf.shape)

    params = jax.tree.map(moved, drawn)
    together = np.asarray(model.apply(params, rows))
    alone = np.concatenate([np.asarray(model.apply(params, row[None])) for row in rows])
    if not np.allclose(together, alone, rtol=1e-3, atol=1e-3):
        raise UserError(
            f"The model {model.name!r} treats a row differently beside others (batch normalisation does), so "
            "no row has a gradient of its own to clip; under privacy use a model without that."
        )


def budgets_of(config: Training, profile: Profile, clients: int) -> list[float] | None:
    """Every client's epsilon at most: the table's, or one for all; None where nobody set any."""
    own = column(profile)
    if own is not None:
        return [float(each) for each in own]
    return None if config.epsilon is None else [config.epsilon] * clients


def book(
    config: Training,
    policy: Policy,
    budgets: Sequence[float] | None,
    rows: Array,
    numbers: int,
    part: float = 1.0,
) -> Ledger:
    """The ledger of one trial in which rows are private; `rows` are its clients' own numbers of rows,
    `numbers` how many the model has.

    `part` of the rounds each client takes part in. Without a noise of the user's every client has its own,
    by the steps that a run of so many rounds will ask of it. A budget of 0 is spent: no step is asked for.
    """
    able = [who for who in range(len(rows)) if budgets is None or budgets[who] > 0]
    if not able:
        raise UserError("Every client has spent its epsilon: none of them may take another step.")
    words = sampling.chance(config.batch, rows)
    sites = [privacy.Site(sampling.share(word), config.noise or USUAL, config.delta) for word in words]
    if budgets is None or config.noise is not None:
        return privacy.ledger(sites, budgets)
    mine, limits = [sites[who] for who in able], [budgets[who] for who in able]
    rounds = config.rounds or ROUNDS
    steps = max(round(rounds * config.steps * part), 1)
    if policy.readings:
        own = rows[able]
        batches = np.minimum(own, config.batch).astype(float)
        most = rounds * max(config.steps, T_MAX)
        found = privacy.by_worth(mine, limits, steps, own / own.sum(), batches, numbers, most)
    else:
        found = privacy.alike(mine, limits, steps)
    spread = privacy.Spread(np.zeros(len(sites), np.int64), np.full(len(sites), USUAL))
    spread.steps[able], spread.noise[able] = found
    return privacy.lasting(sites, budgets, spread)


def book_of_rounds(config: Training, part: float) -> Ledger:
    """The book of whole clients: a round is a step, a cohort's chance a row's."""
    site = privacy.Site(part, config.noise or USUAL, config.delta)
    if config.epsilon is None or config.noise is not None:
        found = privacy.ledger([site], None if config.epsilon is None else [config.epsilon])
    else:
        spread = privacy.alike([site], [config.epsilon], config.rounds or ROUNDS)
        found = privacy.lasting([site], [config.epsilon], spread)
    return found._replace(whole=True)


def used(ledger: Ledger, begun: Sequence[int], rounds: int) -> Sequence[int]:
    """What counts in the book: every client's steps, those under way included; or rounds."""
    return [rounds] if ledger.whole else begun


def check_clients(config: Training, method: methods.Method, policy: Policy, end: RoundEnd) -> None:
    """Whole clients are private only if nothing but their deltas moves the model, each once a round."""
    name, hint = method.title, "use fedavg, fedprox, fedavgm or fedadam"
    if method.cost.vectors_up > 1 or method.cost.vectors_down > 1 or method.arithmetic.mix is not average:
        raise UserError(
            f"{name} sends more than a delta, or counts it by what the others did, and nobody knows how much "
            f"one client then moves the model; to keep whole clients private {hint}."
        )
    if method.facts.readings or method.facts.own_rate or policy.readings or policy.losses or config.readings:
        raise UserError(
            "Clients' readings would reach plans and rates without noise; to keep whole clients private "
            f"{hint} with the policy fixed or fill, and leave --readings out."
        )
    if method.combine is not None or config.extrapolation > 1:
        raise UserError(
            "How much one client moves a rule over all uploads, or FedExP's length, is not known; to keep "
            "whole clients private leave --robust and --extrapolation out."
        )
    away = isinstance(config, RunConfig) and config.availability != "always"
    if not end.waits_for_all or away:
        raise UserError(
            "Cohorts are drawn by chance alone, and nobody counts twice: to keep whole clients private, "
            "rounds end with all, and all clients are there (--availability always)."
        )
    check_settings(config)


def check_goes_on(before: Mapping[str, Any], config: Training, ledger: Ledger) -> None:
    """Noise that was chosen for so many rounds would be another one for more of them."""
    if ledger.budgets and config.noise is None and before["rounds"] != config.rounds:
        raise UserError(
            f"This run's noise was chosen so that epsilon lasts for {before['rounds'] or ROUNDS} rounds: "
            "nothing is left for others. Leave --rounds as it was, or begin anew; a run with a --noise of "
            "its own can be made longer."
        )


def remarks(config: Training, method: methods.Method, ledger: Ledger, rows: Array) -> Iterator[str]:
    """What a user of privacy should hear before a run, and who set its numbers in vain."""
    whole = of_clients(config)
    if "clip_quantile" in config.model_fields_set and not whole:
        yield "Setting 'clip_quantile' has no effect: it is of clients' deltas, with privacy 'client'."
    if whole:
        if config.delta * len(rows) >= 1:
            yield f"A delta of {config.delta:g} is not below 1/{len(rows)}, one over all clients; lower it."
        return
    if not method.clip:
        for name in sorted({"delta", "noise", "clip"} & config.model_fields_set):
            yield f"Setting {name!r} has no effect: nothing is private without epsilon, or privacy 'record'."
        return
    if method.facts.private_options:
        off = ", ".join(name for name, _ in method.facts.private_options if name not in config.options)
        yield f"Under privacy {config.method} goes without {off}; lr is the length of its steps."
    if config.delta * rows.min() >= 1:
        yield (
            f"A delta of {config.delta:g} is not below 1/{rows.min()}, one over a client's rows: by chance "
            "alone whole rows might be told; lower --delta."
        )
    none = np.flatnonzero(ledger.limits == 0)
    if ledger.budgets and none.size:
        who = ", ".join(map(str, none[:10]))
        yield f"No step of these clients fits their epsilon, and they take no part: {who}."


def allowance(
    config: Training, policy: Policy, ledger: Ledger, taken: Sequence[int], number: int, seconds: float
) -> Array | None:
    """The most steps of every client in round `number` (from 0); None: nobody counts.

    Who plans by worth is paced: what is left is spread over the rounds to come, since a client's first steps
    of a round are worth more than its later ones; what a round leaves unused is the next ones'. Other rules
    take what they take until nothing is left. `seconds` have passed.
    """
    if not ledger.budgets or ledger.whole:
        return None
    left = ledger.left(taken)
    if not policy.readings:
        return left
    due = np.ceil(ledger.limits * progress(config, number, seconds) - 1e-9).astype(np.int64)
    paced = np.clip(due - np.asarray(taken, np.int64), 0, left)
    return paced if paced.any() else np.minimum(left, 1)  # no round is empty while anybody may work


def spent(ledger: Ledger, taken: Sequence[int]) -> bool:
    """Whether nobody may take another step."""
    return bool(ledger.budgets) and not ledger.left(taken).any()


def progress(config: Training, number: int, seconds: float) -> float:
    """The part of a run that will be over after round `number`, as far as anybody can tell.

    By rounds where they are given; by seconds, with one more round like those before, where these are; a run
    that only has a target is paced as one of so many rounds as are usual.
    """
    ways = []
    if config.rounds is not None or config.seconds is None:
        ways.append((number + 1) / (config.rounds or ROUNDS))
    if config.seconds is not None:
        ways.append(seconds * (1 + 1 / number) / config.seconds if number else 1 / ROUNDS)
    return min(max(ways), 1.0)
