"""What privacy means for a run: the settings that it depends on, the two mechanisms' common parts.

`record` keeps rows private, `client` whole clients: record_level.py and client_level.py. Each says what it
refuses (`check`) and opens a run's ledger: noise, and the most steps of each client.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from amsfl.clock import RoundEnd
from amsfl.core import RowPrivacy, UserError
from amsfl.methods import Method
from amsfl.planning import Policy
from amsfl.privacy.accounting import Exposure
from amsfl.privacy.ledger import Ints, Ledger

USUAL_NOISE = 1.0  # where nobody sets one, nor a budget


class PrivacySettings(NamedTuple):
    """The settings of a run that privacy depends on."""

    epsilon: float | None = None
    delta: float = 1e-5
    noise: float | None = None
    clip: float = 1.0
    batch: int = 64
    steps: int = 20
    rounds: int | None = None
    seconds: float | None = None
    extrapolation: float = 0.0
    class_weights: str = ""
    availability: str = "always"
    evaluate_clients: int = 0
    target: float | None = None
    stop_at_target: bool = True
    stop_after: int = 0
    details: str = ""
    rounds_planned: int = 50  # where the settings say nothing
    most_steps: int = 64  # of a planned round

    @property
    def stops_by_data(self) -> bool:
        """Whether scores may end the run: then what it spent by its end is no bound, but its budget is."""
        return bool(self.stop_after) or (self.target is not None and self.stop_at_target)

    @property
    def planned(self) -> int:
        """Rounds that the noise is chosen for."""
        return self.rounds or self.rounds_planned

    def share(self, number: int, seconds: float) -> float:
        """The part of a run that will be over after round `number`, as far as anybody can tell.

        By rounds where they are set; by seconds, with one more round like those before, where these are; a
        run that only has a target is paced as one of the usual length.

        Args:
            number: Of the round, from 0.
            seconds: That have passed.

        Returns:
            Up to 1.
        """
        ways = []
        if self.rounds is not None or self.seconds is None:
            ways.append((number + 1) / self.planned)
        if self.seconds is not None:
            ways.append(seconds * (1 + 1 / number) / self.seconds if number else 1 / self.rounds_planned)
        return min(max(ways), 1.0)


class Clients(NamedTuple):
    """What a ledger must know of a run's clients."""

    rows: Ints
    budgets: Sequence[float] | None  # each one's epsilon at most; 0: spent; None: no bound
    part: float  # of the rounds each takes part in
    numbers: int  # of the model


class Terms(NamedTuple):
    """What an order says of privacy; the site bounds every field of it."""

    mechanism: str
    clip: float
    noise: float  # over the clip
    epsilon: float  # that this run may cost the client's rows; 0: no bound
    delta: float


class Mechanism(NamedTuple):
    """One of the two."""

    name: str
    rows: bool  # protects rows, at clients; else whole clients, at the server
    check: Callable[[PrivacySettings, Method, Policy, RoundEnd], None]  # a UserError: this cannot be private
    open_ledger: Callable[[PrivacySettings, Policy, Clients], Ledger]


def protect_rows(method: Method, clip: float) -> Method:
    """The method with private steps, if it can do without raw losses and gradients.

    Args:
        method: As it was made.
        clip: The norm that every row's gradient is cut to.

    Returns:
        The method whose clients take private steps; readings then come from uploads.
    """
    if method.needs_raw_values:
        names = ", ".join(name for name, _ in method.facts.private_options)
        way = f"leave its {names} as they then are" if names else "use fedavg, scaffold, feddyn or amsfl"
        raise UserError(
            f"{method.title} uses losses or gradients as they are, which would tell of single rows; under "
            f"privacy {way}."
        )
    cost = method.cost._replace(extra_gradients=0.0) if method.facts.readings else method.cost
    return method._replace(private_rows=RowPrivacy(clip), cost=cost)


def check_settings(settings: PrivacySettings) -> None:
    """What no mechanism can protect."""
    if settings.class_weights == "balanced":
        raise UserError(
            "Balanced class weights are made of every client's counts of classes, which would leave without "
            "noise; under privacy name the weights, as in --class-weights yes=5,no=1, or leave them out."
        )
    if "models" in settings.details:
        raise UserError(
            "Scores of every client's own model would leave without noise; under privacy leave "
            "models out of --details."
        )
    if "worth" in settings.details:
        raise UserError(
            "A ledger of contributions says what each client's own upload does, which would leave without "
            "noise; under privacy leave worth out of --details."
        )
    if settings.evaluate_clients:
        raise UserError(
            "What clients score on their own rows would leave without noise; under privacy leave "
            "evaluate_clients out, and give the server an evaluate function."
        )


def exposure(settings: PrivacySettings, chance: float) -> Exposure:
    return Exposure(float(chance), settings.noise or USUAL_NOISE, settings.delta)


def check_longer(before: dict[str, Any], settings: PrivacySettings, ledger: Ledger) -> None:
    """Noise that was chosen for so many rounds does not last for more; `before` are the recorded settings."""
    if ledger.budgets and settings.noise is None and before["rounds"] != settings.rounds:
        raise UserError(
            f"This run's noise was chosen so that epsilon lasts for {before['rounds'] or settings.planned} "
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
