"""What privacy means for a run: the settings that it depends on, and the two mechanisms.

`record` keeps rows private, `client` whole clients. Each says what it refuses (`check`) and opens a run's
ledger: noise, and the most steps of each client.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from amsfl import sampling
from amsfl.clock import RoundEnd
from amsfl.core import ClientPrivacy, RowPrivacy, Upload, UserError, namespace
from amsfl.core.algorithm import NUMBERS, ROUNDS
from amsfl.methods import Federation, Method, Vector
from amsfl.planning import Policy
from amsfl.privacy.accounting import (
    Exposure,
    Ints,
    Ledger,
    open_ledger,
    spread_by_worth,
    spread_evenly,
    spread_ledger,
)

Budgets = Sequence[float] | None  # each client's epsilon at most; 0: spent; None: no bound
Settings = Any  # a run's (settings/definitions.py)
USUAL_NOISE = 1.0  # where nobody sets one, nor a budget


def stops_by_data(settings: Settings) -> bool:
    """Whether scores may end the run: then what it spent by its end is no bound, but its budget is."""
    return bool(settings.stop_after) or (settings.target is not None and settings.stop_at_target)


def planned_rounds(settings: Settings) -> int:
    """Rounds that the noise is chosen for."""
    return settings.rounds or ROUNDS


def share_of_run(settings: Settings, number: int, seconds: float) -> float:
    """The part of a run that will be over after round `number` (from 0), as far as anybody can tell.

    By rounds where they are set; by seconds, with one more round like those before, where these are; a
    run that only has a target is paced as one of the usual length.
    """
    ways = []
    if settings.rounds is not None or settings.seconds is None:
        ways.append((number + 1) / planned_rounds(settings))
    if settings.seconds is not None:
        ways.append(seconds * (1 + 1 / number) / settings.seconds if number else 1 / ROUNDS)
    return min(max(ways), 1.0)


class Mechanism(NamedTuple):
    """One of the two."""

    name: str
    rows: bool  # protects rows, at clients; else whole clients, at the server
    check: Callable[[Settings, Federation, Policy, RoundEnd], None]  # a UserError: this cannot be private
    # settings, policy, clients' rows, their budgets, part of the rounds that each is in, numbers of the model
    open_ledger: Callable[[Settings, Policy, Ints, Budgets, float, int], Ledger]


def protect_rows(method: Method, clip: float) -> RowPrivacy:
    """Private steps of a method that can do without raw losses and gradients; readings come from uploads."""
    if method.needs_raw_values:
        names = ", ".join(name for name, _ in method.facts.private_options)
        way = f"leave its {names} as they then are" if names else "use fedavg, scaffold, feddyn or amsfl"
        raise UserError(
            f"{method.title} uses losses or gradients as they are, which would tell of single rows; under "
            f"privacy {way}."
        )
    return RowPrivacy(clip)


def check_settings(settings: Settings) -> None:
    """What no mechanism can protect."""
    if settings.class_weights:
        raise UserError(
            "Balanced class weights are made of every client's counts of classes, which would leave without "
            "noise; under privacy leave them out."
        )
    if "models" in settings.details:
        raise UserError(
            "Scores of every client's own model would leave without noise; under privacy leave "
            "models out of --details."
        )


def exposure(settings: Settings, chance: float) -> Exposure:
    return Exposure(float(chance), settings.noise or USUAL_NOISE, settings.delta)


def check_longer(before: dict[str, Any], settings: Settings, ledger: Ledger) -> None:
    """Noise that was chosen for so many rounds does not last for more; `before` are the recorded settings."""
    if ledger.budgets and settings.noise is None and before["rounds"] != settings.rounds:
        raise UserError(
            f"This run's noise was chosen so that epsilon lasts for {before['rounds'] or ROUNDS} "
            "rounds: nothing is left for more. Leave --rounds as it was, or begin anew; a run with its own "
            "--noise can be made longer."
        )


def pace(ledger: Ledger, taken: Sequence[int], share: float | None) -> Ints | None:
    """The most steps of each client in the next round: what is left, or what of it is due; None: no limit.

    With a `share` what is left is spread over the rounds to come, since a client's first steps of a round are
    worth more than its later ones; what a round leaves unused is for the next ones.
    """
    if not ledger.budgets or ledger.by_round:
        return None
    left = ledger.left(taken)
    if share is None:
        return left
    due = np.ceil(ledger.limits * share - 1e-9).astype(np.int64)
    paced = np.clip(due - np.asarray(taken, np.int64), 0, left)
    return paced if paced.any() else np.minimum(left, 1)  # no round is empty while anybody may work


def check_record(settings: Settings, federation: Federation, policy: Policy, end: RoundEnd) -> None:
    check_settings(settings)
    if end.overlap:
        raise UserError(
            "A server that waits for nobody would wait forever once clients have spent their privacy; "
            "under privacy rounds end with all, a deadline or a quorum."
        )


def record_ledger(
    settings: Settings, policy: Policy, rows: Ints, budgets: Budgets, part: float, numbers: int
) -> Ledger:
    """Rows kept private: every row's gradient cut at the client, noise on their sum.

    g = (sum_{i in batch} grad_i min(1, clip/||grad_i||) + noise clip z) / b,   z standard normal,  b = q rows

    Every row is in a batch with chance q = batch/rows, whoever else is (Poisson sampling).
    Abadi et al. 2016, arXiv 1607.00133.

    Without a noise in the settings every client has its own, by the steps that the run will ask of it.
    """
    able = [who for who in range(len(rows)) if budgets is None or budgets[who] > 0]
    if not able:
        raise UserError("Every client has spent its epsilon: none of them may take another step.")
    words = sampling.chance(settings.batch, rows)
    exposures = [exposure(settings, sampling.share(word)) for word in words]
    if budgets is None or settings.noise is not None:
        return open_ledger(exposures, budgets)
    mine, limits = [exposures[who] for who in able], [budgets[who] for who in able]
    steps = max(round(planned_rounds(settings) * settings.steps * part), 1)
    if policy.readings:
        own = rows[able]
        batches = np.minimum(own, settings.batch).astype(float)
        most = planned_rounds(settings) * max(settings.steps, NUMBERS.steps)
        worth = {"shares": own / own.sum(), "batches": batches}
        planned = spread_by_worth(mine, limits, steps, **worth, numbers=numbers, most=most)
    else:
        planned = spread_evenly(mine, limits, steps)
    taken, noise = np.zeros(len(rows), np.int64), np.full(len(rows), USUAL_NOISE)
    taken[able], noise[able] = planned
    return spread_ledger(exposures, budgets, taken, noise)


RECORD_LEVEL = Mechanism("record", True, check_record, record_ledger)


def check_client(settings: Settings, federation: Federation, policy: Policy, end: RoundEnd) -> None:
    """Whole clients are private only if nothing but their deltas moves the model, each once a round."""
    method, hint = federation.method, "use fedavg, fedprox, fedavgm or fedadam"
    if max(method.facts.vectors_up, method.facts.vectors_down) > 1 or not method.as_fedavg("mix"):
        raise UserError(
            f"{method.title} sends more than a delta, or counts it by what the others did, and nobody knows "
            f"how much one client then moves the model; to keep whole clients private {hint}."
        )
    if method.facts.readings or policy.readings:
        raise UserError(
            "Clients' readings would reach plans and rates without noise; to keep whole clients private "
            f"{hint} with the policy fixed or fill."
        )
    if federation.rule is not None or settings.extrapolation > 1:
        raise UserError(
            "How much one client moves a rule over all uploads, or FedExP's length, is not known; to keep "
            "whole clients private leave --robust and --extrapolation out."
        )
    if not end.waits_for_all or settings.availability != "always":
        raise UserError(
            "Cohorts are drawn by chance alone, and nobody counts twice: to keep whole clients private, "
            "rounds end with all, and all clients are available (--availability always)."
        )
    check_settings(settings)


def client_ledger(
    settings: Settings, policy: Policy, rows: Ints, budgets: Budgets, part: float, numbers: int
) -> Ledger:
    """A round is a step, a cohort's chance a row's."""
    one = exposure(settings, part)
    if settings.epsilon is None or settings.noise is not None:
        ledger = open_ledger([one], None if settings.epsilon is None else [settings.epsilon])
    else:
        spread = spread_evenly([one], [settings.epsilon], planned_rounds(settings))
        ledger = spread_ledger([one], [settings.epsilon], *spread)
    return ledger._replace(by_round=True)


def private_sum(clip: float, noise: float, part: float) -> ClientPrivacy:
    """Whole clients kept private (phones): every delta cut, noise on the sum at the server.

    D = (sum_{i in cohort} w_i d_i min(1, C/||d_i||) + z C max_j w_j N(0, I)) / q

    Every client is in a round's cohort with chance q, whoever else is; w are shares of all data, and the
    largest of all of them, in the cohort or not, is what one client can add to the sum: Flower's noise goes
    by the number of clients, and their average by rows. q times all shares divides, not the shares of the
    cohort: its size would tell of each client.

    `noise` is that of the sum, over what one client can add to it; `part` is of all clients in a cohort.
    """

    def apply(uploads: Upload, weights: Vector, largest: Any, draw: Any) -> Upload:
        space = namespace(weights)
        length = space.sqrt((uploads.delta * uploads.delta).sum(1))
        finite = space.isfinite(length)
        clean = space.where(finite[:, None], uploads.delta, space.zeros_like(uploads.delta))
        by = space.where(finite, clip / space.maximum(length, clip), space.zeros_like(length))
        delta = ((weights * by)[:, None] * clean).sum(0)
        delta = (delta + noise * clip * largest * draw(uploads.delta.shape[1])) / part
        return Upload(delta, uploads.extra[0], (delta * delta).sum())

    return ClientPrivacy(part, apply)


CLIENT_LEVEL = Mechanism("client", False, check_client, client_ledger)
