"""The judge: notices on rows that clients hold back when the model gets worse, and says to go back.

Every client has a reference loss: that of its held-back rows when they were last better. The same clients are
compared with themselves, so that partial cohorts say nothing by who is in them:

    d_i = L_i - ref_i;  d = sum q_i d_i;  base = sum q_i ref_i;  se = sqrt(sum q_i^2 (d_i - d)^2)
    better: d < 0 (or nobody has a reference): this anchor is the best one, references are this round's
    bad:    d > 0.05 base and d > 2 se.  Two bad rounds without a better one between: back to the best anchor

Going back halves the learning rate and lifts references by 2.5%, or one lucky round would be out of reach for
good. A round that is not finite goes back at once. A network whose outputs are the same for every held-back
row in three rounds running is dead: it begins again from the first model, at most three times.

Where labels are wrong or rows few, clients learn their rows by heart within a round or two. So the passes
over their rows that they may make are halved after every round that is not better, down to a tenth, and
doubled after one that is. Where that is not enough, no anchor to go back to is free of it: the third return
in the first half of a run opens a branch beside the best anchor, from the first model again, at the halved
rate, with a tenth of the passes. The best anchor stays what is scored. The branch is taken once its held-back
rows are better than the best anchor's. If they are not within twenty rounds, the server goes back to that
anchor and to all passes. From the second return on clients' drift is corrected, too (methods/amsfl.py), in
rounds that have all clients and come after one that had, but for the round straight after a return.

Where a round has less than three quarters of the clients, references are of many anchors, and a cohort can be
lucky: there no branch opens, and one that is open must be surely better (d < -2 se). Where clients pull apart
besides, a round leans to the classes of its cohort, and the next one, which has others, finds it worse though
nothing is wrong: there bad is d > 0.05 p^4 base, p how many times Polyak's length steps may be (rate.py). If
both rounds after a return are bad, too, the anchor that it went back to was one cohort's luck: references are
forgotten, and this round's anchor is the best one.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import Reading, Verdict
from amsfl.core.records import Array

Floats = np.ndarray[Any, np.dtype[np.float64]]

WORSE, SURE = 0.05, 2.0  # of the reference loss, and standard errors: from there a round is bad
PATIENCE = 2  # bad rounds until the server goes back
EASED = 1 + WORSE / 2  # what references are multiplied by then
HALVED, BROKEN = 0.5, 0.15  # what becomes of the rate: after bad rounds, after one that is not finite
DEAD, DEAD_ROUNDS = 1e-6, 3  # outputs that differ by less, for so many rounds
SMALLER, RESTARTS = 0.3, 3  # what becomes of the rate then, and how often
RETURNS, EARLY = 3, 0.5  # so many returns, in this part of a run, open a branch
CARE = 0.1  # of the passes: the least, and a branch's
TRIAL_ROUNDS = 20  # in which a branch must get better
AGAIN = 2  # returns from which on clients' drift is corrected: one may be by chance
PRESENT = 0.75  # of the clients: a round that has fewer is one of a part of them
LEAN = 4  # power of the cut by which such a round may be worse
MORE, LESS = 2.0, 0.5  # what becomes of the passes after a round: better, not better


class Judge(NamedTuple):
    """What it remembers. References are NaN for clients that have none."""

    reference: Floats
    rounds: int = 0  # that it has judged
    worse: int = 0
    dead: int = 0
    backs: tuple[int, ...] = ()  # the rounds, from 1, after which the server went back
    branched: int = 0  # the round after which the branch began; 0: never
    left: int = 0  # rounds that the branch has left to get better
    passes: float = 1.0  # of the usual passes over a client's rows in a round
    restarts: tuple[int, ...] = ()
    verdict: int = Verdict.NONE  # on the last round
    held_loss: float | None = None  # the last round's mean over clients
    factor: float = 1.0  # what the last verdict makes of the rate

    @property
    def returns(self) -> int:
        """How often it went back, or began again."""
        return len(self.backs) + len(self.restarts)

    @property
    def corrects(self) -> bool:
        """Whether clients' drift is to be corrected: it went back more than once, and what they last read is
        of the anchor that they are at, not of one that was left."""
        return self.returns >= AGAIN and self.verdict in (Verdict.NONE, Verdict.BETTER)


def new_judge(clients: int) -> Judge:
    return Judge(np.full(clients, np.nan))


def describe(judge: Judge, first: float | None, last: float | None) -> str:
    """What the judge did in a run, as a sentence; "" where it did nothing."""
    if not judge.returns or first is None or last is None:
        return ""
    backs, again = len(judge.backs), len(judge.restarts)
    rounds = ", ".join(map(str, (*judge.backs, *judge.restarts)[:10]))
    text = (
        f"Times that the judge went back: {backs}, began again: {again} (after rounds {rounds}); the "
        f"learning rate went from {first:.3g} to {last:.3g}, cooling aside."
    )
    if not judge.branched:
        return text
    ended = "was given up" if judge.passes == 1 else "was not better when the run ended"
    fate = "was better and taken" if judge.passes < 1 and not judge.left else ended
    return f"{text} A careful branch from the first model, after round {judge.branched}, {fate}."


def is_whole(reading: Reading) -> bool:
    """Whether a round's work was finite."""
    parts = (reading.loss, reading.grad_sq, reading.delta_sq)
    return bool(all(np.isfinite(np.asarray(part, float)).all() for part in parts))


def judge_round(
    old: Judge,
    cohort: Array,
    weights: Array,
    reading: Reading,
    over: float = 0.0,
    modest: Callable[[Floats], Floats] = np.asarray,
    cut: float = 1.0,
) -> Judge:
    """The judge after one more round, of a cohort with these shares of the data.

    `over` is the part of the run that is over; 0 where no end is known. `modest` says what of clients'
    changes is believed; `cut` is how many times Polyak's length this round's steps could be.
    """
    held = np.asarray(reading.held_loss, float)
    now = old._replace(
        rounds=old.rounds + 1, verdict=Verdict.NONE, factor=1.0, held_loss=_mean(held, weights)
    )
    if not is_whole(reading):
        return _back(now, BROKEN)._replace(left=0, passes=1.0 if old.left else old.passes)
    reference = old.reference.copy()
    before = reference[cohort]
    part = len(held) < PRESENT * len(reference)
    worse = WORSE * cut**LEAN if part else WORSE
    better, bad, surely = _compared(held, before, np.asarray(weights, float), modest, worse)
    if old.left and part:
        better = surely
    fresh = np.isfinite(held) & (better | ~np.isfinite(before))
    reference[cohort] = np.where(fresh, held, before)
    now = now._replace(reference=reference, worse=0 if better else old.worse + bad)
    if better:
        now = now._replace(verdict=Verdict.BETTER)
    if not old.branched:
        now = now._replace(passes=_next_passes(old.passes, better))
    if old.left:
        now = _tried(now, better)
    elif part and now.worse >= PATIENCE and old.backs and now.rounds - old.backs[-1] == PATIENCE:
        unknown = np.full_like(reference, np.nan)
        now = now._replace(reference=unknown, worse=0, verdict=Verdict.BETTER)
    elif now.worse >= PATIENCE:
        now = _back(now, HALVED)
        if len(now.backs) == RETURNS and not (part or now.branched) and over <= EARLY:
            now = now._replace(verdict=Verdict.BRANCH, branched=now.rounds, left=TRIAL_ROUNDS, passes=CARE)
    spread = np.asarray(reading.spread, float)
    spread = spread[np.isfinite(spread)]
    flat = old.rounds > 0 and spread.size > 0 and bool((spread <= DEAD).all())
    now = now._replace(dead=old.dead + 1 if flat else 0)
    if now.dead < DEAD_ROUNDS or len(old.restarts) >= RESTARTS:
        return now
    return new_judge(len(reference))._replace(
        rounds=now.rounds,
        backs=old.backs,
        branched=old.branched,
        restarts=(*old.restarts, now.rounds),
        verdict=Verdict.RESTART,
        held_loss=now.held_loss,
        factor=SMALLER,
    )


def _compared(
    held: Floats, before: Floats, weights: Floats, modest: Callable[[Floats], Floats], worse: float
) -> tuple[bool, bool, bool]:
    """Whether this anchor is better, clearly worse, and surely better, for those who can compare."""
    both = np.isfinite(held) & np.isfinite(before)
    if not both.any():
        return True, False, False
    share = weights[both] / weights[both].sum()
    change = modest(held[both] - before[both])
    mean, base = float(share @ change), float(share @ before[both])
    error = float(np.sqrt((share**2 * (change - mean) ** 2).sum()))
    return mean < 0, mean > worse * base and mean > SURE * error, mean < -SURE * error


def _next_passes(passes: float, better: bool) -> float:
    """Of the usual ones, after a round."""
    return min(MORE * passes, 1.0) if better else max(LESS * passes, CARE)


def _tried(now: Judge, better: bool) -> Judge:
    """After a round of the branch: taken, tried further, or given up for the best anchor."""
    if better:
        return now._replace(left=0)
    if now.left > 1:
        return now._replace(left=now.left - 1, worse=0)
    return _back(now, 1.0)._replace(left=0, passes=1.0)


def _back(now: Judge, factor: float) -> Judge:
    backs = (*now.backs, now.rounds)
    return now._replace(
        reference=EASED * now.reference, worse=0, dead=0, verdict=Verdict.BACK, factor=factor, backs=backs
    )


def _mean(held: Floats, weights: Array) -> float | None:
    some = np.isfinite(held)
    return float(np.average(held[some], weights=np.asarray(weights, float)[some])) if some.any() else None
