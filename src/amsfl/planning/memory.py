"""What planners remember, decide and go by: records of numbers, so that checkpoints and real servers keep a
memory the same way."""

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol

import numpy as np

from amsfl.clock import Costs
from amsfl.core import UserError
from amsfl.core.algorithm import NUMBERS
from amsfl.core.records import Json
from amsfl.methods import Method
from amsfl.planning.believed import Believed, believing
from amsfl.planning.judge import Judge, new_judge
from amsfl.planning.policies import Policy
from amsfl.planning.problem import MOST_STEPS, Floats
from amsfl.planning.readings import Estimates, Means, new_estimates

Ints = np.ndarray[Any, np.dtype[Any]]
Stale = Callable[[float], float] | None  # where clients do not wait, what work counts by its age

ROUNDING = 1e-9  # 0.1 x 60 / 2 is a little above 3


class PlanSettings(Protocol):
    """What is planned by, of a run's settings (settings/training.py)."""

    policy: str
    clock: str
    budget: float | None
    seconds: float | None
    steps: int
    epochs: float | None
    batch: int
    lr: float | None
    lr_decay: float

    @property
    def known_rounds(self) -> int | None: ...

    @property
    def real_clients(self) -> bool: ...


class PlannerMemory(NamedTuple):
    """All that a planner remembers."""

    lr: float  # cooling and decay aside
    estimates: Estimates
    means: Means = Means()
    judge: Judge = new_judge(0)
    planned_seconds: float = 0.0  # of all rounds that are over

    def dump(self) -> Json:
        """As JSON holds it: None where a client was never read."""
        parts = self._asdict()
        for name in ("estimates", "means", "judge"):
            parts[name] = parts[name]._asdict()
        parts["estimates"] = {key: _plain(column) for key, column in parts["estimates"].items()}
        parts["judge"]["reference"] = _plain(parts["judge"]["reference"])
        return parts

    def grown(self, larger: "PlannerMemory") -> "PlannerMemory":
        """For more clients: those behind the ones that it knows are as in `larger`, a fresh memory."""
        pairs = zip(self.estimates, larger.estimates, strict=True)
        judge = self.judge._replace(reference=_longer(self.judge.reference, larger.judge.reference))
        return self._replace(estimates=Estimates(*(_longer(*pair) for pair in pairs)), judge=judge)

    @classmethod
    def load(cls, parts: Json) -> "PlannerMemory":
        columns = {key: np.array(column, float) for key, column in parts["estimates"].items()}
        judge = Judge(**parts["judge"])
        judge = judge._replace(
            reference=np.array(judge.reference, float), backs=(*judge.backs,), restarts=(*judge.restarts,)
        )
        means = Means(**parts["means"])
        return cls(parts["lr"], Estimates(**columns), means, judge, parts["planned_seconds"])


def _longer(old: Floats, larger: Floats) -> Floats:
    return np.concatenate([old, larger[len(old) :]])


class Decision(NamedTuple):
    steps: Ints  # one per client of the cohort
    lr: float
    predicted_seconds: float
    explain: Json


class PlannerContext(NamedTuple):
    """What a planner plans by: the settings, all clients' shares of the data, and what never changes."""

    config: PlanSettings
    method: Method
    policy: Policy
    weights: Floats
    steps: Ints  # of every client, where the policy does not choose them
    passes: Floats  # steps of every client that are the usual passes over its rows
    believed: Believed
    stale: Stale
    last: dict[tuple[str, Hashable], Any]  # the latest cohort's only: those of thousands would pile up


class PlanRequest(NamedTuple):
    """What a decision is made from; `allowed`: the most steps of each by privacy, None: no such limit."""

    memory: PlannerMemory
    number: int
    cohort: Ints
    costs: Costs
    allowed: Ints | None = None


def planner_context(
    config: PlanSettings,
    method: Method,
    policy: Policy,
    weights: Floats,
    rows: Floats | float = np.inf,
    stale: Stale = None,
) -> PlannerContext:
    """Of a policy; `weights` are all clients' shares of the data, `rows` how many they have."""
    rows_each = np.broadcast_to(np.asarray(rows, float), len(weights))
    passes, steps = NUMBERS.passes * rows_each / config.batch, steps_of(config, rows_each)
    believed = believing(method.combine, config.real_clients)
    return PlannerContext(config, method, policy, weights, steps, passes, believed, stale, {})


def steps_of(config: PlanSettings, rows: Any) -> Ints:
    """Steps of clients with so many rows: the setting, or what their epochs come to."""
    if config.epochs is None:
        return np.full(len(rows), config.steps)
    if not np.isfinite(rows).all():
        raise UserError(
            "Epochs are passes over a client's rows, and here nobody says how many; give --steps."
        )
    exact = config.epochs * np.asarray(rows) / config.batch
    return np.clip(np.ceil(exact - ROUNDING), 1, MOST_STEPS).astype(np.int64)


def start(context: PlannerContext) -> PlannerMemory:
    """At the user's learning rate, or the method's own."""
    clients, lr = len(context.weights), context.config.lr
    return PlannerMemory(
        context.method.facts.lr if lr is None else lr,
        new_estimates(clients if context.policy.readings else 0),
        judge=new_judge(clients if context.method.judges else 0),
    )


def _plain(column: Floats) -> list[float | None]:
    values = column.astype(object)
    values[np.isnan(column)] = None
    return list(values)
