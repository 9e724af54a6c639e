"""How much so many private steps tell of one row or client, and how many may be taken.

Epsilons are dp-accounting's answers, no arithmetic of our own. A step is a Gaussian mechanism on a Poisson
sample; steps compose. The guarantee is (epsilon, delta)-differential privacy against whoever sees everything
that was sent. Data sets are neighbours if one row is replaced by an empty one ("zero-out"): how many rows a
client has is public.
"""

from collections.abc import Sequence
from functools import lru_cache, reduce
from math import ceil, expm1, floor, log10
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import UserError, need

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


Event = tuple[float, float, int]  # chance and noise, and how many steps were taken with them


def epsilon(exposure: Exposure, steps: int) -> float:
    """The least epsilon that so many steps keep at the exposure's delta."""
    return poisson_gaussian(((exposure.chance, exposure.noise, steps),), exposure.delta)


@lru_cache(maxsize=100_000)
def poisson_gaussian(events: tuple[Event, ...], delta: float) -> float:
    """The least epsilon of all these steps together, one run after another: each saw what came before."""
    taken = [each for each in events if each[2]]
    if not taken:
        return 0.0
    fine = min(_fineness(chance, noise) for chance, noise, _ in events)
    fine = max(fine, *(_coarsest(noise) for _, noise, _ in events))
    losses = [_one_step(chance, noise, fine).self_compose(steps) for chance, noise, steps in taken]
    total = reduce(lambda one, more: one.compose(more), losses)
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
        middle = (low + high) // 2
        low, high = (middle, high) if epsilon(exposure, middle) <= budget else (low, middle)
    return low


def noise_for(exposure: Exposure, budget: float, steps: int) -> float:
    """The least multiple of the clip as noise, to 1%, with which so many steps keep to a budget of epsilon.

    For the next chance of three digits and the next mark of steps: a little more than the least, and
    thousands of clients ask for the same few.
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
    need("dp_accounting", "Differential privacy")
    from dp_accounting.pld import privacy_loss_distribution as loss

    return loss.from_gaussian_mechanism(noise, value_discretization_interval=fine, sampling_prob=chance)


Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

Spread = tuple[Ints, Floats]  # steps of each client in the whole run, and the noise of each of these
APART = 0.003  # how far clients' aims lie apart, squared, beside steps as long as the clipping norm


def spread_evenly(exposures: Sequence[Exposure], budgets: Sequence[float], steps: int) -> Spread:
    """The same number of steps for all, each with the least noise that its budget of epsilon allows."""
    return fit_noise(exposures, budgets, np.full(len(exposures), steps))


def spread_by_worth(
    exposures: Sequence[Exposure],
    budgets: Sequence[float],
    steps: int,
    *,
    shares: Floats,
    batches: Floats,
    numbers: int,
    most: int,
) -> Spread:
    """As many steps as are worth their noise, by weight as much learning as `steps` of all would be; clients
    have such shares of all data and rows expected in a batch, the model so many numbers.

    A budget is a client's own, and what of it is left at the end was worth nothing: so every client's noise
    is the least by which its steps of the whole run fit. Then more steps need more noise on each, and how
    much the noise weighs against what is learnt does not depend on their number T, nearly: with deviation s ~
    sqrt(T), d numbers and b rows expected in a batch,

        r_i^2 = d s_i^2 / (b_i^2 T)

    is what a client's noise is, squared, beside T steps as long as the clipping norm. So T_i says how much
    client i counts, u_i ~ w_i T_i, and those u are best that minimise what noise and a shift away from the
    shares w do:

        sum_i u_i^2 r_i^2 + APART sum_i (u_i - w_i)^2, sum_i u_i = 1: u_i = (APART w_i + p) / (APART + r_i^2)

    Without noise these are the shares, and all take the same steps; with much of it u ~ 1/r^2, the weights of
    least variance: small sites, whose noise is as large as that of large ones on less to learn, take few.
    """
    _, noise = spread_evenly(exposures, budgets, steps)
    counts = balance(shares, numbers * noise**2 / (batches**2 * steps))
    asked = np.clip(np.rint(steps * counts / shares), 1, most).astype(np.int64)
    return fit_noise(exposures, budgets, asked)


def balance(shares: Floats, harm: Floats) -> Floats:
    """The u of above: where a client would count less than nothing it counts nothing, and the others more."""
    counted = np.ones(len(shares), bool)
    while True:
        inside = np.where(counted, 1 / (APART + harm), 0)
        price = (1 - APART * (shares * inside).sum()) / inside.sum()
        counts = (APART * shares + price) * inside
        if (counts >= 0).all():
            return np.asarray(counts)
        counted &= counts > 0


def fit_noise(exposures: Sequence[Exposure], budgets: Sequence[float], steps: Ints) -> Spread:
    noise = [noise_for(*each) for each in zip(exposures, budgets, steps.tolist(), strict=True)]
    return steps, np.array(noise)


UNLIMITED = 2**62


class Ledger(NamedTuple):
    """Pure functions of the steps that clients have taken: the record of a run holds all that they need.

    A mechanism that protects whole clients has one entry for all of them, and rounds in place of steps. What
    was `taken` is counted in `units`; answers have one number an entry.
    """

    exposures: tuple[Exposure, ...] = ()  # one a client; () without privacy
    budgets: tuple[float, ...] = ()  # epsilon; () where none is set
    limits: Ints = np.zeros(0, np.int64)  # steps in a whole run; nobody writes to it
    by_round: bool = False

    def units(self, steps: Sequence[int], rounds: int) -> Sequence[int]:
        """What is counted: every client's steps, those under way included; or rounds."""
        return [rounds] if self.by_round else steps

    def left(self, taken: Sequence[int]) -> Ints:
        """Steps that every client may still take."""
        return np.maximum(self.limits - np.asarray(taken, np.int64), 0)

    def exhausted(self, taken: Sequence[int]) -> bool:
        """Whether nobody may take another step."""
        return bool(self.budgets) and not self.left(taken).any()

    def bounds(self, taken: Sequence[int]) -> list[float]:
        """Every client's epsilon so far, or a little more: at the next mark, and never above its budget."""
        bounds = self.spent([mark(int(steps)) for steps in taken])
        for place, (steps, budget) in enumerate(zip(taken, self.budgets, strict=False)):
            if steps <= self.limits[place]:
                bounds[place] = min(bounds[place], budget)
        return bounds

    def spent(self, taken: Sequence[int]) -> list[float]:
        """Every client's epsilon for the steps that it took."""
        pairs = zip(self.exposures, taken, strict=False)
        return [epsilon(exposure, int(steps)) for exposure, steps in pairs]

    def claims(self, taken: Sequence[int], stopped_by_data: bool) -> list[float]:
        """The epsilon that a run may claim for every client.

        Where scores decided when it ended, the steps up to there are no bound: the end itself tells of rows.
        Then it is the budget that was set before the run, and none where there is no budget.
        """
        if not stopped_by_data:
            return self.spent(taken)
        return [budget if steps else 0.0 for budget, steps in zip(self.budgets, taken, strict=False)]


NOTHING = Ledger()


def open_ledger(exposures: Sequence[Exposure], budgets: Sequence[float] | None) -> Ledger:
    """The ledger of a run whose noise is set: as many steps as each client's budget allows; None: no bound.

    Refused where nobody may take a step.
    """
    if budgets is None:
        return Ledger(tuple(exposures), (), np.full(len(exposures), UNLIMITED))
    each = list(zip(exposures, budgets, strict=True))
    limits = np.array([steps_within(exposure, budget) for exposure, budget in each], np.int64)
    if not limits.any():
        exposure, budget = min(each, key=lambda pair: pair[0].chance / pair[1])
        cost, noise = epsilon(exposure, 1), noise_for(exposure, budget, 1)
        raise UserError(
            f"No client may take a single step: one costs an epsilon of {cost:.3g} where a row is in a batch "
            f"with a chance of {exposure.chance:.3g} and the noise is {exposure.noise:g}, and {budget:g} is "
            f"allowed; raise --noise (from {noise:.2g} on one step fits), lower --batch, or raise --epsilon."
        )
    return Ledger(tuple(exposures), tuple(budgets), limits)


def spread_ledger(
    exposures: Sequence[Exposure], budgets: Sequence[float], steps: Ints, noise: Floats
) -> Ledger:
    """The ledger of a run whose noise was chosen for so many steps."""
    noised = (one._replace(noise=float(own)) for one, own in zip(exposures, noise, strict=True))
    return Ledger(tuple(noised), tuple(budgets), steps)
