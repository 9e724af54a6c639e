"""Whether a reply may touch the model: what of it is used, or a sentence that says why nothing is.

The size of a change is ||change|| / (lr sqrt(steps)), the mean length of its steps if they were a walk: an
honest walk of t steps ends between one step and t steps from its start, so that by sqrt(t) one step and 64
are never more than a factor 8 apart. A change is refused when its size passes `limit` times the usual: the
largest of the last rounds' medians, this one's included, and of the node's own last one. A node that was away
is held against the largest size that ever was usual: it begins from a model that it does not fit yet. Refused
sizes are part of the medians, which grow twofold a round at most, so that a bound that most nodes pass moves.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord

from amsfl.core.records import Array

MOST_METRICS = 1_000  # numbers of a reply besides its arrays
SPENT = "privacy is spent"  # how a site begins that may not take a further step
LONGEST = 300  # characters of a reason: nodes write parts of it
HISTORY = 5  # rounds whose medians are remembered
GROWTH = 2.0  # times the usual that a median counts at most
OURS = ("train-seconds", "local-steps", "fading", "held-loss", "output-spread", "epsilon")
LARGEST = 1e9  # of a number that a node says of its training


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
    claims = {key: metrics.pop(key) for key in OURS if key in metrics}
    notes = [
        f"{key} is {str(value)[:40]}, which is not believed"
        for key, value in claims.items()
        if not _good(key, value)
    ]
    said = {key: float(value) for key, value in claims.items() if _good(key, value)}
    asked = sent.steps[node]
    steps = int(said.pop("local-steps", asked))
    if not 1 <= steps <= asked:
        return f"{steps} steps were run, and {asked} were asked for"
    if said.get("train-seconds", 0.0) > seconds:
        notes.append(
            f"train-seconds is {said.pop('train-seconds'):.3g}, and the whole reply took {seconds:.3g}"
        )
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


class SizeHistory:
    """What changes are held against."""

    def __init__(self, limit: float):
        self.limit, self.medians, self.largest = limit, list[float](), 0.0

    def oversized(
        self, taken: Mapping[str, Taken], own: Mapping[int, float], away: set[int]
    ) -> dict[str, str]:
        """Replies whose change is out of all proportion, and why; `own` are nodes' last accepted sizes."""
        if not taken:
            return {}
        # of one reply there is no median: it is held against those before
        middle = sorted(each.size for each in taken.values())[(len(taken) - 1) // 2]
        usual = max([*self.medians, middle if len(taken) > 1 or not self.medians else 0.0])
        reasons = {}
        for key, each in taken.items():
            common = max(usual, own.get(each.node, 0.0), self.largest if each.node in away else 0.0)
            if each.size > self.limit * common > 0:
                reasons[key] = (
                    f"norm: {each.size:.3g} is more than {self.limit:g} times the usual {common:.3g}"
                )
        before = max(self.medians, default=0.0)
        self.medians = [*self.medians, min(middle, GROWTH * before) if before else middle][-HISTORY:]
        self.largest = max(self.largest, *self.medians)
        return reasons
