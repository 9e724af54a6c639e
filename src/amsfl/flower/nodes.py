"""What the server knows of its nodes (how fast they are, what their steps are worth), and the plan that
follows.

Gains, fading, the judge and the plan are the simulation's own (planning/). And whether a reply may touch the
model: what of it is used, or a sentence that says why nothing is.

The size of a change is ||change|| / (lr sqrt(steps)), the mean length of its steps if they were a walk: an
honest walk of t steps ends between one step and t steps from its start, so that by sqrt(t) one step and 64
are never more than a factor 8 apart. A change is refused when its size passes `limit` times the usual: the
largest of the last rounds' medians, this one's included, and of the node's own last one. A node that was away
is held against the largest size that ever was usual: it begins from a model that it does not fit yet. Refused
sizes are part of the medians, which grow twofold a round at most, so that a bound that most nodes pass moves.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord

from amsfl import planning
from amsfl.core import Reading
from amsfl.core.algorithm import NUMBERS
from amsfl.core.records import Array, Json
from amsfl.flower.task import SAID
from amsfl.planning.planner import PlannerMemory

FIRST_STEPS = 5  # of everybody, while nobody was measured
OLD = 0.5  # part of old seconds that stays
LINE_OLD, FIRST_POINT = 0.7, (0.3, 0.5)  # how old rounds fade; weight and height of the point at no steps
FAR = 100.0  # times the others' median: nobody's word about its rows counts for more
MOST_METRICS = 1_000  # numbers of a reply besides its arrays
HISTORY = 5  # rounds whose medians are remembered
GROWTH = 2.0  # times the usual that a median counts at most
LARGEST = 1e9  # of a number that a node says of its training


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
        self.estimates, self.judge = planning.new_estimates(0), planning.new_judge(0)

    def places(self, ids: Sequence[int]) -> Any:
        """Where they are in arrays of all nodes; who is new joins."""
        fresh = [node for node in ids if node not in self.each]
        self.each |= {node: Node(node) for node in fresh}
        nothing = np.full(len(fresh), np.nan)
        self.estimates = planning.Estimates(*(np.append(part, nothing) for part in self.estimates))
        self.judge = self.judge._replace(reference=np.append(self.judge.reference, nothing))
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
        gain, fading = planning.gain_and_fading(self.estimates, places, lr)
        most = np.clip(self.judge.passes * NUMBERS.passes * rows / self.batch, 2, NUMBERS.steps)
        known = (rows / rows.sum(), step, rest + overhead, gain, fading)
        task = planning.problem(*known, most=most, clock="makespan")
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
            self.estimates = planning.update(self.estimates, places, steps, lr, reading, shares)

    def judged(self, ids: Sequence[int], reading: Reading) -> planning.Judge:
        """The judge after a round whose replies had this to say of held-back rows."""
        rows = self.rows(ids)
        self.judge = planning.judge_round(self.judge, self.places(ids), rows / rows.sum(), reading)
        return self.judge

    def _column(self, ids: Sequence[int], name: str, unknown: float) -> Any:
        """One number a node: its own, else the mean of all that are known, else `unknown`."""
        values = {node: getattr(each, name) for node, each in self.each.items()}
        known = [value for value in values.values() if math.isfinite(value)]
        usual = float(np.mean(known)) if known else unknown
        own = np.array([values.get(node, math.nan) for node in ids], float)
        return np.where(np.isfinite(own), own, usual)

    def oversized(self, taken: Mapping[str, "Taken"], now: int) -> dict[str, str]:
        """Replies of round `now` whose change is out of all proportion, and why."""
        if not taken:
            return {}
        # of one reply there is no median: it is held against those before
        middle = sorted(each.size for each in taken.values())[(len(taken) - 1) // 2]
        usual = max([*self.medians, middle if len(taken) > 1 or not self.medians else 0.0])
        reasons = {}
        for key, each in taken.items():
            node = self.each.get(each.node, Node(each.node))
            common = max(usual, node.size, self.largest if node.taken < now - 1 else 0.0)
            if each.size > self.limit * common > 0:
                many = f"{self.limit:g} times the usual {common:.3g}"
                reasons[key] = f"norm: {each.size:.3g} is more than {many}"
        before = max(self.medians, default=0.0)
        self.medians = [*self.medians, min(middle, GROWTH * before) if before else middle][-HISTORY:]
        self.largest = max(self.largest, *self.medians)
        return reasons

    def dump(self) -> Json:
        """All of it as JSON."""
        known = PlannerMemory(0.0, self.estimates, judge=self.judge).dump()
        sizes = {"medians": self.medians, "largest": self.largest}
        return {"each": [asdict(each) for each in self.each.values()], "known": known, "sizes": sizes}

    def load(self, held: Json) -> None:
        known = PlannerMemory.load(held["known"])
        self.estimates, self.judge = known.estimates, known.judge
        self.each = {each["id"]: Node(**each) for each in held["each"]}
        self.medians, self.largest = held["sizes"]["medians"], held["sizes"]["largest"]


class Sent(NamedTuple):
    """A round that was sent out."""

    round: int
    anchor: ArrayRecord  # where its nodes begin
    steps: dict[int, int]  # by node
    lr: float
    at: float


class Taken(NamedTuple):
    """A reply that may be used, without what its node said for us alone."""

    message: Message
    sent: Sent
    change: dict[str, Array]  # of its float arrays, as doubles
    steps: int
    seconds: float  # from the order to the reply
    said: dict[str, float]  # what it said besides, as far as it can be believed
    notes: tuple[str, ...]

    @property
    def node(self) -> int:
        return self.message.metadata.src_node_id

    @property
    def arrays_key(self) -> str:
        return next(iter(self.message.content.array_records))

    @property
    def metrics(self) -> MetricRecord:
        return next(iter(self.message.content.metric_records.values()))

    @property
    def size(self) -> float:
        return norm(self.change) / (self.sent.lr * math.sqrt(self.steps))


def norm(change: Mapping[str, Array]) -> float:
    return math.sqrt(sum(float(np.vdot(part, part)) for part in change.values()))


def difference(now: ArrayRecord, before: ArrayRecord) -> dict[str, Array]:
    """What became of the float arrays."""
    pairs = ((key, each.numpy(), before[key].numpy()) for key, each in now.items())
    return {key: np.subtract(x, y, dtype=np.float64) for key, x, y in pairs if x.dtype.kind == "f"}


def read(message: Message, sent: Sent, weight_key: str, seconds: float) -> Taken | str:
    """What a reply says, or why nothing of it can be used."""
    content, node = message.content, message.metadata.src_node_id
    if node not in sent.steps:
        return "a reply of a node that was not asked"
    if len(content.array_records) != 1 or len(content.metric_records) != 1:
        return "a reply has one ArrayRecord and one MetricRecord"
    arrays, metrics = (next(iter(each.values())) for each in (content.array_records, content.metric_records))
    if len(metrics) > MOST_METRICS:
        return f"{len(metrics)} metrics, and {MOST_METRICS:,} are taken at most"
    rows = metrics.get(weight_key)
    if not isinstance(rows, int | float) or not 0 < rows < math.inf:
        return f"{weight_key} is {str(rows)[:40]}, and should be a number above 0"
    if why := wrong_form(arrays, sent.anchor):
        return why
    with np.errstate(all="ignore"):
        change = difference(arrays, sent.anchor)
    for name, part in change.items():
        if not np.isfinite(part).all():
            return f"not finite: {name[:60]} holds {int((~np.isfinite(part)).sum())} NaN or infinite numbers"
    claims = {key: metrics.pop(key) for key in SAID if key in metrics}
    said = {key: float(value) for key, value in claims.items() if _good(key, value)}
    odd = claims.keys() - said
    notes = [f"{key} is {str(claims[key])[:40]}, which is not believed" for key in odd]
    asked = sent.steps[node]
    steps = int(said.pop("local-steps", asked))
    if not 1 <= steps <= asked:
        return f"{steps} steps were run, and {asked} were asked for"
    if said.get("train-seconds", 0.0) > seconds:
        claim = said.pop("train-seconds")
        notes.append(f"train-seconds is {claim:.3g}, and the whole reply took {seconds:.3g}")
    return Taken(message, sent, change, steps, seconds, said, tuple(notes))


def _good(key: str, value: object) -> bool:
    if not isinstance(value, int | float) or not math.isfinite(value):
        return False
    return abs(value) <= LARGEST and (value > 0 or key not in ("train-seconds", "local-steps", "fading"))


def wrong_form(arrays: ArrayRecord, anchor: ArrayRecord) -> str | None:
    """Names, shapes and types, before anything is made of them: nobody gets more memory than the model."""
    if set(arrays) != set(anchor):
        return f"the arrays {sorted(arrays)[:5]} came, and {sorted(anchor)[:5]} were sent"
    for name, ours in anchor.items():
        came, was = ((each.dtype, tuple(each.shape), each.stype) for each in (arrays[name], ours))
        if came != was:
            return f"{name[:60]} is {came[0]} {came[1]}, and was sent as {was[0]} {was[1]}"
    return None
