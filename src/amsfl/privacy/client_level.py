"""Whole clients kept private (phones): every delta cut, noise on the sum at the server.

    D = (sum_{i in cohort} w_i d_i min(1, C/||d_i||) + z C max_j w_j N(0, I)) / q

Every client is in a round's cohort with chance q, whoever else is; w are shares of all data, and the largest
of all of them, in the cohort or not, is what one client can add to the sum: Flower's noise goes by the number
of clients, and their average by rows. q times all shares divides, not the shares of the cohort: its size
would tell of each client.
"""

from typing import Any

from amsfl.clock import RoundEnd
from amsfl.core import ClientPrivacy, Upload, UserError, namespace
from amsfl.methods import Method
from amsfl.methods.arithmetic import Vector, average
from amsfl.planning import Policy
from amsfl.privacy.budget_plan import spread_evenly
from amsfl.privacy.ledger import Ledger, open_ledger, spread_ledger
from amsfl.privacy.mechanism import Clients, Mechanism, PrivacySettings, check_settings, exposure


def check(settings: PrivacySettings, method: Method, policy: Policy, end: RoundEnd) -> None:
    """Whole clients are private only if nothing but their deltas moves the model, each once a round."""
    name, hint = method.title, "use fedavg, fedprox, fedavgm or fedadam"
    if method.cost.vectors_up > 1 or method.cost.vectors_down > 1 or method.arithmetic.mix is not average:
        raise UserError(
            f"{name} sends more than a delta, or counts it by what the others did, and nobody knows how much "
            f"one client then moves the model; to keep whole clients private {hint}."
        )
    if method.facts.readings or policy.readings:
        raise UserError(
            "Clients' readings would reach plans and rates without noise; to keep whole clients private "
            f"{hint} with the policy fixed or fill."
        )
    if method.combine is not None or settings.extrapolation > 1:
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


def plan_ledger(settings: PrivacySettings, policy: Policy, clients: Clients) -> Ledger:
    """A round is a step, a cohort's chance a row's."""
    one = exposure(settings, clients.part)
    if settings.epsilon is None or settings.noise is not None:
        ledger = open_ledger([one], None if settings.epsilon is None else [settings.epsilon])
    else:
        spread = spread_evenly([one], [settings.epsilon], settings.planned)
        ledger = spread_ledger([one], [settings.epsilon], spread)
    return ledger._replace(by_round=True)


def private_sum(clip: float, noise: float, part: float) -> ClientPrivacy:
    """Every client's delta cut and noise on the sum.

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


CLIENT_LEVEL = Mechanism("client", False, check, plan_ledger)
