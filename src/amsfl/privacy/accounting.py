"""How much so many private steps tell of one row or client: dp-accounting's answer, no arithmetic of our own.

A step is a Gaussian mechanism on a Poisson sample; steps compose. The guarantee is (epsilon, delta)-
differential privacy against whoever sees everything that was sent. Data sets are neighbours if one row is
replaced by an empty one ("zero-out"): how many rows a client has is public.
"""

from functools import lru_cache
from math import ceil, exp, expm1, floor, log, log10
from typing import Any, NamedTuple

from amsfl.core import UserError

# of a privacy loss distribution, over the loss's own deviation: up to 1% above what dp-accounting's own 1e-4
# finds, in a twentieth of the time
FINENESS = 0.2
MOST = 2**20  # steps of one client in a run that has a budget
PER_OCTAVE = 8  # marks at which records' epsilons are worked out, between them the next one's counts


class Exposure(NamedTuple):
    """How much one step exposes a row: what the accountant must know of a client."""

    chance: float  # that a row is in a minibatch
    noise: float  # standard deviation of a step's noise over the clipping norm
    delta: float


class Event(NamedTuple):
    """Steps that were taken, all with the same chance and noise."""

    chance: float
    noise: float
    steps: int


def epsilon(exposure: Exposure, steps: int) -> float:
    """The least epsilon that so many steps keep at the exposure's delta.

    Args:
        exposure: Of one step.
        steps: How many were taken.

    Returns:
        0 where none was taken.
    """
    return poisson_gaussian((Event(exposure.chance, exposure.noise, steps),), exposure.delta)


@lru_cache(maxsize=100_000)
def poisson_gaussian(events: tuple[Event, ...], delta: float) -> float:
    """The least epsilon of all these steps together, one run after another: each saw what came before.

    Args:
        events: What was done to the same rows.
        delta: Chance that epsilon does not hold.

    Returns:
        0 where nothing was done.
    """
    fine = min((_fineness(each.chance, each.noise) for each in events), default=0.0)
    fine = max([fine, *(_coarsest(each.noise) for each in events)])
    losses = [
        _one_step(each.chance, each.noise, fine).self_compose(each.steps) for each in events if each.steps
    ]
    if not losses:
        return 0.0
    total = losses[0]
    for each in losses[1:]:
        total = total.compose(each)
    return float(total.get_epsilon_for_delta(delta))


def mark(steps: int) -> int:
    """Steps, rounded up to a mark, an eighth more at most: between powers of two there are PER_OCTAVE.

    A call for each site and round would cost more than the round; nobody is told too little this way.
    """
    wide = 1 << max(steps.bit_length() - PER_OCTAVE.bit_length(), 0)
    return -(-steps // wide) * wide


@lru_cache(maxsize=10_000)
def steps_within(exposure: Exposure, budget: float) -> int:
    """The most steps that cost at most `budget`, or up to 1% fewer; never more than MOST."""
    low, high = 0, 1
    while high <= MOST and epsilon(exposure, high) <= budget:
        low, high = high, 4 * high
    if low == 0 or high > MOST:
        return low
    while high - low > max(1, low // 100):
        # epsilon grows about as a power of the steps: where the line through both ends meets the budget
        one, two = (log(max(epsilon(exposure, end), 1e-12)) for end in (low, high))
        guess = exp(log(low) + (log(budget) - one) / (two - one) * log(high / low))
        middle = min(max(round(guess), low + 1, low + (high - low) // 8), high - 1, high - (high - low) // 8)
        low, high = (middle, high) if epsilon(exposure, middle) <= budget else (low, middle)
    return low


def noise_for(exposure: Exposure, budget: float, steps: int) -> float:
    """The least noise, to 1%, with which so many steps of this exposure stay within the budget.

    For the next chance of three digits and the next mark of steps: a little more than the least, and
    thousands of clients ask for the same few.

    Args:
        exposure: Of one step; its noise is not used.
        budget: Epsilon at most.
        steps: How many are taken.

    Returns:
        In units of the clipping norm.
    """
    digits = 10.0 ** (2 - floor(log10(exposure.chance)))
    chance = min(ceil(exposure.chance * digits * (1 - 1e-12)) / digits, 1.0)
    return _noise_for(Exposure(chance, 1.0, exposure.delta), budget, mark(steps))


@lru_cache(maxsize=10_000)
def _noise_for(exposure: Exposure, budget: float, steps: int) -> float:
    def cost(noise: float) -> float:
        return epsilon(exposure._replace(noise=noise), steps)

    low, high = 0.3, 1.0
    while cost(high) > budget:
        low, high = high, 2 * high
        if high > 1e5:
            raise UserError(
                f"No noise keeps {steps} steps within an epsilon of {budget:g}; raise --epsilon, or lower "
                "--rounds or --steps."
            )
    while high > 1.01 * low:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if cost(middle) <= budget else (middle, high)
    return high


def _fineness(chance: float, noise: float) -> float:
    deviation = chance * expm1(min(1 / noise**2, 50.0)) ** 0.5
    return float(max(min(max(FINENESS * deviation, 1e-4), 1e-2), _coarsest(noise)))


def _coarsest(noise: float) -> float:
    """Next to no noise has losses of 1/noise^2: a grid as fine as for others would take all memory."""
    return 1e-4 / noise**2


@lru_cache(maxsize=1_000)
def _one_step(chance: float, noise: float, fine: float) -> Any:
    """The privacy loss of one step, both for a row more and for a row less."""
    try:
        from dp_accounting.pld import privacy_loss_distribution as loss
    except ImportError:
        raise UserError(
            "Differential privacy is counted by dp-accounting, which is not installed; type: "
            "pip install 'amsfl[privacy]'"
        ) from None
    return loss.from_gaussian_mechanism(noise, value_discretization_interval=fine, sampling_prob=chance)
