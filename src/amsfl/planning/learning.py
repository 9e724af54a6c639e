"""What is learnt from a round: what a client's steps are worth, and whether the model got worse.

**Gain and fading**, from GDA readings: what a client's first step is worth, and how fast that fades.

    gain_i = <d_i, v>/t_i over the cohort's mean of its size, raised to 0, plus 0.3
    fade_i = -ln(1 + <g, h - g>/||g||^2)/(t_i eta), eta the rate

v is the last global step: a step is worth what it has in common with where all clients go together. The
server has d_i and v, so gains cost nothing and say what arrived, whatever happened to it on the way. After t
steps the first minibatch's gradient g_i has kept the part 1 + <g, h - g>/||g||^2 of itself, h its gradient
then; worth fades by the same factor every step. A longer step drifts further, so what is remembered is the
fading per unit of learning rate. A client that gives no such reading fades like the mean of those that do.
One round's gains are mostly noise, so everybody is worth something beforehand.

**The judge** notices on rows that clients hold back when the model gets worse, and says what to do. Every
client has a reference loss: that of its held-back rows when they were last better. The same clients are
compared with themselves, so that partial cohorts say nothing by who is in them:

    d_i = L_i - ref_i;  d = sum q_i d_i;  base = sum q_i ref_i
    se = sqrt(sum q_i^2 (d_i - d)^2/(1 - sum q_i^2))
    better:  d < 0 (or nobody has a reference): this anchor is the best one, references are this round's,
             passes double
    worse:   d > se: passes halve
    bad:     d > 0.05 base and d > 2 se; two of them without a better round between: back to the best anchor
             with half of the rate, and references a little higher, or one lucky round would be out of reach

A round that is not finite goes back at once with a quarter of the rate. A network is dead that says nearly
the same of every held-back row in two rounds running: a tenth of what its answers differed by at first. It
begins again from the first model, with a quarter of the rate.
Rows tell of the model that a client began from. Where none tells of this round's anchor (nobody holds rows
back, all work is older) there is nothing to judge by, and rate and passes stay.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from amsfl.core import Reading, Verdict
from amsfl.core.algorithm import NUMBERS
from amsfl.core.records import Array
from amsfl.planning.problem import Floats

UNREAD = -np.log(1 - NUMBERS.least)  # fading of a step while nobody was ever read: it keeps nine tenths
EASED = 1 + NUMBERS.worse / 2  # what references are multiplied by when it goes back
SAME = 8 * np.finfo(np.float32).eps  # outputs that differ by less do so by rounding


class Estimates(NamedTuple):
    """What is remembered, one entry per client. NaN: this client was never read."""

    gain: Floats
    fading: Floats  # per step and unit of learning rate


# what the printed Algorithm 1 takes for constants, as last read: ||g||, ||h - g|| / ||d||,
# -<g, h - g> / (||g||^2 t eta); None: never
Means = tuple[float | None, float | None, float | None]
UNKNOWN: Means = (None, None, None)


def new_estimates(clients: int) -> Estimates:
    return Estimates(np.full(clients, np.nan), np.full(clients, np.nan))


def update(
    old: Estimates, cohort: Array, steps: Array, lr: Array | float, reading: Reading, weights: Array
) -> Estimates:
    """Fold in one round's readings; absent clients and non-finite readings change nothing."""
    steps = np.asarray(steps, float)
    gain, kept = gain_and_kept(reading, steps, np.asarray(weights, float))
    with np.errstate(divide="ignore", invalid="ignore"):
        fading = -np.log(kept) / (steps * lr)
    return Estimates(_blend(old.gain, cohort, gain), _blend(old.fading, cohort, fading))


def gain_and_kept(reading: Reading, steps: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Relative gain and kept part of every client, from one round's scalars alone; NaN where nothing says."""
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.clip(1 + np.divide(reading.grad_diff, reading.grad_sq), NUMBERS.least, 1.0)
        gain = np.divide(reading.delta_dir, steps)
        size = mean_of_known(np.abs(gain), weights)  # 0: no v yet, so all are worth the same
        return np.where(np.isfinite(gain), gain / size if size else 1.0, np.nan), kept


def gain_and_fading(estimates: Estimates, cohort: Array, lr: float) -> tuple[Floats, Floats]:
    """Of a step at a learning rate, as the plan takes them; clients never read are taken as the mean."""
    gain = NUMBERS.beforehand + np.maximum(_filled(estimates.gain, 1.0)[cohort], 0.0)
    return gain, _filled(estimates.fading * lr, UNREAD)[cohort]


def new_means(old: Means, weights: Floats, steps: Array, lr: Array | float, reading: Reading) -> Means:
    """This round's means by the data's shares; what nobody read stays as it was."""
    with np.errstate(divide="ignore", invalid="ignore"):
        slope, curved = np.sqrt(reading.grad_sq), np.sqrt(reading.diff_sq / reading.delta_sq)
        convex = np.maximum(-reading.grad_diff / (reading.grad_sq * steps * lr), 0.0)
    means = []
    for values, before in zip((slope, curved, convex), old, strict=True):
        means.append(mean_of_known(np.where(values == 0, np.nan, values), weights) or before)
    return tuple(means)  # type: ignore[return-value]


def mean_of_known(values: Floats, weights: Floats) -> float | None:
    """Of those that are finite; None where none is."""
    some = np.isfinite(values)
    return float((weights[some] * values[some]).sum() / weights[some].sum()) if some.any() else None


def _blend(old: Floats, cohort: Array, fresh: Floats) -> Floats:
    here = old[cohort]
    mixed = np.where(np.isfinite(here), NUMBERS.memory * here + (1 - NUMBERS.memory) * fresh, fresh)
    result = old.copy()
    result[cohort] = np.where(np.isfinite(fresh), mixed, here)
    return result


def _filled(part: Floats, otherwise: float) -> Floats:
    read = np.isfinite(part)
    if read.all():
        return part
    return np.where(read, part, part[read].mean() if read.any() else otherwise)


class Judge(NamedTuple):
    """What it remembers. References are NaN for clients that have none."""

    reference: Floats
    rounds: int = 0  # that it has judged
    bad: int = 0
    spread: float = 0.0  # of outputs, the widest of the first round that had any
    dead: int = 0
    backs: tuple[int, ...] = ()  # the rounds, from 1, after which the server went back
    restarts: tuple[int, ...] = ()
    passes: float = 1.0  # of the usual passes over a client's rows in a round
    verdict: int = Verdict.NONE  # on the last round
    held_loss: float | None = None  # the last round's mean over clients
    factor: float = 1.0  # what the last verdict makes of the rate


def new_judge(clients: int) -> Judge:
    return Judge(np.full(clients, np.nan))


def describe(judge: Judge) -> str:
    """What the judge did in a run, as a sentence; "" where it did nothing."""
    if judge.rounds and np.isnan(judge.reference).all() and not judge.backs:
        return "No held-back rows told of the newest model, so nobody judged: rate and passes stayed."
    if not (judge.backs or judge.restarts):
        return ""
    rounds = ", ".join(map(str, (*judge.backs, *judge.restarts)[:10]))
    return (
        f"Times that the judge went back: {len(judge.backs)}, began again: {len(judge.restarts)} "
        f"(after rounds {rounds})."
    )


def is_whole(reading: Reading) -> bool:
    """Whether a round's work was finite."""
    parts = np.array([reading.loss, reading.grad_sq, reading.delta_sq], float)
    return bool(np.isfinite(parts).all())


def judge_round(
    old: Judge,
    cohort: Array,
    weights: Array,
    reading: Reading,
    modest: Callable[[Floats], Floats] = np.asarray,
) -> Judge:
    """The judge after one more round, of a cohort with these shares of the data.

    `modest` says what of clients' changes is believed.
    """
    held = np.asarray(reading.held_loss, float)
    now = old._replace(
        rounds=old.rounds + 1,
        verdict=Verdict.NONE,
        factor=1.0,
        held_loss=mean_of_known(held, np.asarray(weights, float)),
    )
    if not is_whole(reading):
        return _back(now, NUMBERS.halved**2)
    if now.held_loss is None:
        return now
    before = old.reference[cohort]
    change, base, error = _compared(held, before, np.asarray(weights, float), modest)
    better = change < 0
    bad = change > NUMBERS.worse * base and change > NUMBERS.sure * error
    reference = old.reference.copy()
    reference[cohort] = np.where(np.isfinite(held) & (better | ~np.isfinite(before)), held, before)
    now = now._replace(reference=reference, bad=0 if better else old.bad + bad)
    if better:
        now = now._replace(verdict=Verdict.BETTER, passes=min(old.passes / NUMBERS.halved, 1.0))
    elif change > NUMBERS.sure / 2 * error:
        now = now._replace(passes=max(old.passes * NUMBERS.halved, NUMBERS.least))
    if now.bad >= NUMBERS.patience:
        now = _back(now, NUMBERS.halved)
    spread = np.asarray(reading.spread, float)
    widest = spread[np.isfinite(spread)].max(initial=-1.0)
    first = old.spread or max(widest, 0.0)
    flat = 0 <= widest <= max(SAME, NUMBERS.least * first)
    now = now._replace(spread=first, dead=old.dead + 1 if flat else 0)
    if now.dead < NUMBERS.patience:
        return now
    return new_judge(len(reference))._replace(
        rounds=now.rounds,
        backs=old.backs,
        restarts=(*old.restarts, now.rounds),
        verdict=Verdict.RESTART,
        held_loss=now.held_loss,
        factor=NUMBERS.halved**2,
    )


def _compared(
    held: Floats, before: Floats, weights: Floats, modest: Callable[[Floats], Floats]
) -> tuple[float, float, float]:
    """How much worse those are who can compare, than what, and the standard error of it."""
    both = np.isfinite(held) & np.isfinite(before)
    if not both.any():
        return -1.0, 0.0, 0.0
    share = weights[both] / weights[both].sum()
    change = modest(held[both] - before[both])
    mean, base = float(share @ change), float(share @ before[both])
    spare = 1 - (share**2).sum()  # of one client nobody knows how sure
    error = np.sqrt((share**2 * (change - mean) ** 2).sum() / spare) if spare > 0 else np.inf
    return mean, base, float(error)


def _back(now: Judge, factor: float) -> Judge:
    return now._replace(
        reference=EASED * now.reference,
        bad=0,
        verdict=Verdict.BACK,
        factor=factor,
        backs=(*now.backs, now.rounds),
    )
