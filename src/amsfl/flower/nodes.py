"""What the server knows of its nodes (speed, what steps are worth, how large changes are), and the plan that
follows. Gains, fading, the judge and the plan are the simulation's own (planning/).

The size of a change is ||change|| / (lr sqrt(steps)), the mean length of its steps if they were a walk: an
honest walk of t steps ends between one step and t steps from its start, so that by sqrt(t) one step and 64
are never more than a factor 8 apart. A change is refused when its size passes `limit` times the usual: the
largest of the last rounds' medians, this one's included, and of the node's own last one. A node that was away
is held against the largest size that ever was usual: it begins from a model that it does not fit yet. Refused
sizes are part of the medians, which grow twofold a round at most, so that a bound that most nodes pass moves.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from amsfl import planning
from amsfl.core import Reading
from amsfl.core.algorithm import NUMBERS
from amsfl.core.records import Json
from amsfl.planning.planner import PlannerMemory

FIRST_STEPS = 5  # of everybody, while nobody was measured
OLD = 0.5  # part of old seconds that stays
LINE_OLD, FIRST_POINT = 0.7, (0.3, 0.5)  # how old rounds fade; weight and height of the point at no steps
FAR = 100.0  # times the others' median: nobody's word about its rows counts for more
HISTORY = 5  # rounds whose medians are remembered
GROWTH = 2.0  # times the usual that a median counts at most


@dataclass
class Node:
    """One node. `line` are sums over its rounds of 1, t, s, t t, t s: steps and seconds."""

    id: int
    rows: float = math.nan
    step_seconds: float = math.nan
    rest_seconds: float = math.nan
    rounds: int = 0
    line: list[float] = field(default_factory=lambda: [0.0] * 5)
    size: float = 0.0  # of its last change that was accepted
    taken: int = 0  # the round of it
    done: int = 0  # its steps in all

    def time(self, steps: int, took: float, trained: float | None, least: float) -> None:
        """A round of so many steps took so long, of which it `trained` so long; `least` is anybody's round.

        The first round imports, compiles and starts processes: the second one replaces it. Who does not say
        how long its steps took has a line through its rounds' steps and seconds.
        """
        self.rounds += 1
        warm = self.rounds > 2
        if trained is not None:
            keep = OLD if warm and math.isfinite(self.step_seconds) else 0.0
            self.step_seconds = mixed(self.step_seconds, trained / steps, keep)
            self.rest_seconds = mixed(self.rest_seconds, max(took - trained, 0.0), keep)
            return
        point = (1, steps, took, steps * steps, steps * took)
        self.line = [LINE_OLD * warm * old + new for old, new in zip(self.line, point, strict=True)]
        n, t, s, tt, ts = self.line
        n, s = n + FIRST_POINT[0], s + FIRST_POINT[0] * FIRST_POINT[1] * least
        self.step_seconds = max((n * ts - t * s) / (n * tt - t * t), 1e-3 * s / t)
        self.rest_seconds = max((s - self.step_seconds * t) / n, 0.0)


def mixed(old: float, new: float, keep: float) -> float:
    """The old number and the new one; `keep` is 0 where nothing is known."""
    return keep * old + (1 - keep) * new if keep else new


class Nodes:
    """All nodes that were ever asked, in the order in which they came."""

    def __init__(self, policy: planning.Policy, batch: int, limit: float):
        self.policy, self.batch, self.limit = policy, batch, limit
        self.medians, self.largest = list[float](), 0.0  # of sizes of changes; ever
        self.each: dict[int, Node] = {}
        self.known = PlannerMemory(0.0, planning.new_estimates(0))  # estimates and judge, a place a node

    def places(self, ids: Sequence[int]) -> Any:
        """Where they are in arrays of all nodes; who is new joins."""
        fresh = [node for node in ids if node not in self.each]
        self.each |= {node: Node(node) for node in fresh}
        nothing, judge = np.full(len(fresh), np.nan), self.known.judge
        estimates = planning.Estimates(*(np.append(part, nothing) for part in self.known.estimates))
        judge = judge._replace(reference=np.append(judge.reference, nothing))
        self.known = self.known._replace(estimates=estimates, judge=judge)
        order = {node: place for place, node in enumerate(self.each)}
        return np.array([order[node] for node in ids], int)

    def rows(self, ids: Sequence[int]) -> Any:
        """As far as they are believed; who has not said has as many as the others."""
        said = self._column(ids, "rows", 1.0)
        if len(said) < 3:
            return said
        others = np.array([np.median(np.delete(said, place)) for place in range(len(said))])
        return np.minimum(said, FAR * others)

    def plan(
        self, ids: Sequence[int], lr: float, overhead: float, stale: Callable[[float], float] | None = None
    ) -> Any:
        """Steps of each at this lr; `overhead` comes to everybody's round, and `stale` says what work counts
        by its age, where nobody waits for the others."""
        places, rows = self.places(ids), self.rows(ids)
        step, rest = self._column(ids, "step_seconds", math.nan), self._column(ids, "rest_seconds", 0.0)
        if not np.isfinite(step).all():
            return np.full(len(ids), FIRST_STEPS)
        gain, fading = planning.gain_and_fading(self.known.estimates, places, lr)
        most = np.clip(self.known.judge.passes * NUMBERS.passes * rows / self.batch, 2, NUMBERS.steps)
        worth = (rows / rows.sum(), step, rest + overhead, gain, fading)
        task = planning.problem(*worth, most=most, clock="makespan")
        return self.policy(task, planning.Signals(stale=stale)).steps

    def seconds(self, ids: Sequence[int], steps: Any) -> float:
        """That the slowest of these takes for so many steps; NaN where nobody knows."""
        step, rest = self._column(ids, "step_seconds", math.nan), self._column(ids, "rest_seconds", 0.0)
        return float(np.max(step * steps + rest, initial=0.0))

    def learn(self, ids: Sequence[int], steps: Any, lr: Any, reading: Reading) -> None:
        """From a round's replies what steps are worth."""
        rows = self.rows(ids)
        with np.errstate(all="ignore"):
            places, shares = self.places(ids), rows / rows.sum()
            estimates = planning.update(self.known.estimates, places, steps, lr, reading, shares)
        self.known = self.known._replace(estimates=estimates)

    def judged(self, ids: Sequence[int], reading: Reading) -> planning.Judge:
        """The judge after a round whose replies had this to say of held-back rows."""
        rows = self.rows(ids)
        judge = planning.judge_round(self.known.judge, self.places(ids), rows / rows.sum(), reading)
        self.known = self.known._replace(judge=judge)
        return judge

    def _column(self, ids: Sequence[int], name: str, unknown: float) -> Any:
        """One number a node: its own, else the mean of all that are known, else `unknown`."""
        values = {node: getattr(each, name) for node, each in self.each.items()}
        known = [value for value in values.values() if math.isfinite(value)]
        usual = float(np.mean(known)) if known else unknown
        own = np.array([values.get(node, math.nan) for node in ids], float)
        return np.where(np.isfinite(own), own, usual)

    def oversized(self, sizes: Mapping[str, tuple[int, float]], now: int) -> dict[str, str]:
        """Replies of round `now` whose change is out of all proportion, and why; by their message, whose each
        is and its size."""
        if not sizes:
            return {}
        # of one reply there is no median: it is held against those before
        middle = sorted(size for _, size in sizes.values())[(len(sizes) - 1) // 2]
        usual = max([*self.medians, middle if len(sizes) > 1 or not self.medians else 0.0])
        reasons = {}
        for key, (who, size) in sizes.items():
            node = self.each.get(who, Node(who))
            common = max(usual, node.size, self.largest if node.taken < now - 1 else 0.0)
            if size > self.limit * common > 0:
                reasons[key] = f"norm: {size:.3g} is more than {self.limit:g} times the usual {common:.3g}"
        before = max(self.medians, default=0.0)
        self.medians = [*self.medians, min(middle, GROWTH * before) if before else middle][-HISTORY:]
        self.largest = max(self.largest, *self.medians)
        return reasons

    def dump(self) -> Json:
        """All of it as JSON."""
        sizes = {"medians": self.medians, "largest": self.largest}
        each = [vars(each) for each in self.each.values()]
        return {"each": each, "known": self.known.dump(), "sizes": sizes}

    def load(self, held: Json) -> None:
        self.known = PlannerMemory.load(held["known"])
        self.each = {each["id"]: Node(**each) for each in held["each"]}
        self.medians, self.largest = held["sizes"]["medians"], held["sizes"]["largest"]
