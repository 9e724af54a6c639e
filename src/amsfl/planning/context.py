"""What planners remember, decide and go by: records of numbers, so that checkpoints and real servers keep a
memory the same way."""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np

from amsfl import drift
from amsfl.clock import Costs
from amsfl.clock.sites import Floats
from amsfl.core import Reading, UserError
from amsfl.core.algorithm import NUMBERS
from amsfl.core.records import Json
from amsfl.drift import plausibility
from amsfl.methods import Method
from amsfl.planning.signals import ReportedMeans
from amsfl.schedule import Policy
from amsfl.settings.definitions import STEPS_AT_MOST, ServeConfig, Training

Ints = np.ndarray[Any, np.dtype[Any]]
Stale = Callable[[float], float] | None  # where clients do not wait, what work counts by its age

ROUNDING = 1e-9  # 0.1 x 60 / 2 is a little above 3


class PlannerMemory(NamedTuple):
    """All that a planner remembers."""

    lr: float  # cooling and decay aside
    estimates: drift.Estimates
    reported: ReportedMeans = ReportedMeans()
    judge: drift.Judge = drift.new_judge(0)

    def dump(self) -> dict[str, Json]:
        """As JSON holds it: None where a client was never read."""
        parts = self._asdict()
        for name in ("estimates", "reported", "judge"):
            parts[name] = parts[name]._asdict()
        parts["estimates"] = {key: _plain(column) for key, column in parts["estimates"].items()}
        parts["judge"]["reference"] = _plain(parts["judge"]["reference"])
        return parts

    def grown(self, larger: "PlannerMemory") -> "PlannerMemory":
        """For more clients: those behind the ones that it knows are as in `larger`, a fresh memory."""
        pairs = zip(self.estimates, larger.estimates, strict=True)
        judge = self.judge._replace(reference=_longer(self.judge.reference, larger.judge.reference))
        return self._replace(estimates=drift.Estimates(*(_longer(*pair) for pair in pairs)), judge=judge)

    @classmethod
    def load(cls, parts: dict[str, Json]) -> "PlannerMemory":
        columns = {key: np.array(column, float) for key, column in parts["estimates"].items()}
        judge = drift.Judge(**parts["judge"])
        judge = judge._replace(
            reference=np.array(judge.reference, float), backs=(*judge.backs,), restarts=(*judge.restarts,)
        )
        return cls(parts["lr"], drift.Estimates(**columns), ReportedMeans(**parts["reported"]), judge)


def _longer(old: Floats, larger: Floats) -> Floats:
    return np.concatenate([old, larger[len(old) :]])


class Decision(NamedTuple):
    steps: Ints  # one per client of the cohort
    lr: float
    predicted_seconds: float
    explain: Json


class PlannerContext(NamedTuple):
    """What a planner plans by: the settings, all clients' shares of the data, and what never changes."""

    config: Training
    method: Method
    policy: Policy
    weights: Floats
    steps: Ints  # of every client, where the policy does not choose them
    passes: Floats  # steps of every client that are the usual passes over its rows
    doubt: plausibility.Plausibility
    stale: Stale
    last: dict[tuple[str, Hashable], Any]  # the latest cohort's only: those of thousands would pile up


class PlanRequest(NamedTuple):
    """What a decision is made from; `allowed`: the most steps of each by privacy, None: no such limit."""

    memory: PlannerMemory
    number: int
    cohort: Ints
    costs: Costs
    allowed: Ints | None = None


class RoundReadings(NamedTuple):
    """What is learnt from."""

    memory: PlannerMemory
    cohort: Ints
    decision: Decision
    reading: Reading


def planner_context(
    config: Training,
    method: Method,
    policy: Policy,
    weights: Floats,
    rows: Floats | float = np.inf,
    stale: Stale = None,
) -> PlannerContext:
    """Of a policy; `weights` are all clients' shares of the data, `rows` how many they have."""
    passes = NUMBERS.passes * np.broadcast_to(np.asarray(rows, float), len(weights)) / config.batch
    doubt = plausibility.believing(method.combine, isinstance(config, ServeConfig))
    steps = steps_of(config, np.broadcast_to(np.asarray(rows, float), len(weights)))
    return PlannerContext(config, method, policy, weights, steps, passes, doubt, stale, {})


def steps_of(config: Training, rows: Any) -> Ints:
    """Steps of clients with so many rows: the setting, or what their epochs come to."""
    if config.epochs is None:
        return np.full(len(rows), config.steps)
    if not np.isfinite(rows).all():
        raise UserError(
            "Epochs are passes over a client's rows, and here nobody says how many; give --steps."
        )
    exact = config.epochs * np.asarray(rows) / config.batch
    return np.clip(np.ceil(exact - ROUNDING), 1, STEPS_AT_MOST).astype(np.int64)


def first_rate(config: Training, method: Method) -> float:
    """The user's learning rate, or the method's own."""
    return method.facts.lr if config.lr is None else config.lr


def start(context: PlannerContext) -> PlannerMemory:
    clients = len(context.weights)
    return PlannerMemory(
        first_rate(context.config, context.method),
        drift.start(clients if context.policy.readings else 0),
        judge=drift.new_judge(clients if context.method.judges else 0),
    )


def part_over(context: PlannerContext, memory: PlannerMemory, number: int) -> float:
    """The part of the run that is over before round `number`; 0 where no end is known."""
    by_rounds = number / last if (last := context.config.known_rounds) else 0.0
    by_seconds = memory.reported.spent / context.config.seconds if context.config.seconds else 0.0
    return max(by_rounds, by_seconds)


def _plain(column: Floats) -> list[float | None]:
    values = column.astype(object)
    values[np.isnan(column)] = None
    return list(values)
