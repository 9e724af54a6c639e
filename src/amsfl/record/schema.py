# ruff: noqa: RUF012 (defaults of a NamedTuple, which nobody changes in place)
"""What is on record: the typed shapes of a run, a study and a real federation, field by field.

Everything here is what JSON can hold. All that depends on the machine's speed is under `wall`.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import VERSION
from amsfl.core.records import Json

FORMAT = 9  # of all folders; raise it whenever an older folder must not be continued as it stands

Array = np.ndarray[Any, np.dtype[Any]]
# split -> accuracy, loss, macro_f1, and lists by class; r2, mae, rmse, loss of numbers; or a user's own
Metrics = dict[str, Json]


def flatten(metrics: Metrics) -> dict[str, float]:
    """Scores that are one number, as `split/name`: for curves, frames and trackers alike."""
    return {
        f"{split}/{name}": float(value)
        for split, scores in metrics.items()
        for name, value in scores.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


class RoundRecord(NamedTuple):
    """One line of rounds.jsonl. A study keeps fewer fields of a round; what it left out has its default."""

    round: int
    seconds: dict[str, float]  # virtual time since the start by both clocks: sum, makespan
    round_seconds: dict[str, float] = {}  # this round's share of it
    predicted_seconds: float = math.nan  # what the plan expected of this round on the run's clock
    metrics: Metrics = {}  # empty if not evaluated
    cohort: list[int] = []
    steps: list[int] = []
    lr: float | None = None  # None: nobody knew one yet, and each client found its own
    bytes_up: float = 0.0
    bytes_down: float = 0.0
    readings: dict[str, list[float | None]] = {}  # Reading field -> one value per client of the cohort
    plan: Json = {}  # gain, drift, price, objective, bound, why; whatever the planner explains
    wall: dict[str, float] = {}
    mix: list[float] = []  # how much each client's upload counted, in the cohort's order
    # under a rule: how much each counted by what it claimed, and after every link; None: a rule did not say
    weighed: dict[str, list[float | None]] = {}
    # where rounds end before all are in, for each of the cohort: how many moves ago it began, when it did,
    # and when it came; and [client, from, to] of work that was not used
    staleness: list[int] = []
    started: list[float] = []
    arrived: list[float] = []
    dropped: list[list[float]] = []
    joules: float | None = None  # of all clients together; None where the profile does not say
    epsilon: list[float] = []  # of all clients: privacy lost so far, at most; [] if not private

    @property
    def scores(self) -> dict[str, float]:
        """Every score of this round that is one number, as in `holdout/accuracy`."""
        return flatten(self.metrics)

    @classmethod
    def of(cls, row: Json) -> "RoundRecord":
        """From JSON, which has no NaN."""
        if row.get("predicted_seconds", 0.0) is None:
            row = row | {"predicted_seconds": math.nan}
        return cls(**row)


class Summary(NamedTuple):
    """summary.json: the end of a run, as `--json` prints it."""

    method: str
    data: str
    synthetic: bool
    note: str
    seed: int
    status: str  # finished, diverged, abandoned (by all real clients)
    rounds: int
    accuracy: float | None  # of the hold-out, or of what stands for it; None where numbers are predicted
    test_accuracy: float | None
    metrics: Metrics
    local_accuracy: dict[str, list[float | None]] | None  # of each client's own model at the end, by split
    clock: str
    virtual_seconds: float
    virtual_seconds_by_clock: dict[str, float]
    target: float | None
    seconds_to_target: float | None
    rounds_to_target: int | None
    steps: dict[str, int]  # by client
    bytes_up: float
    bytes_down: float
    epsilon: dict[str, float] = {}  # by client: privacy lost, where it is counted
    noise: dict[str, float] = {}  # by client: of a private step, over the clipping norm
    refused: int = 0  # replies of real clients that were not taken
    wall: dict[str, float | None] = {}
    score: str = "accuracy"  # what target and curves are of: accuracy, f1, f1:CLASS, r2, mae, ...
    local_scores: dict[str, list[float | None]] | None = None  # as local_accuracy, R² of numbers
    joules: float | None = None  # of all clients together; None where the profile does not say
    joules_to_target: float | None = None
    megabytes_to_target: float | None = None
    details: Json = {}  # of the last model: confusion, AUC, calibration; each client's own rows
    best: Json = {}  # the best round by the hold-out: round, score, by; {}: nobody scored any
    files: dict[str, str] = {}  # SHA-256 of the model's files: so they belong to this run


class TrialRecord(NamedTuple):
    """One line of a study's trials/ENTRY/FIRST-LAST.jsonl."""

    entry: str
    trial: int
    summary: Summary
    rounds: list[RoundRecord]

    @property
    def seed(self) -> int:
        return self.summary.seed


class Checkpoint(NamedTuple):
    round: int  # rounds finished
    arrays: dict[str, Array]
    host: Json  # planner and clock, as JSON; `flower` in it for real clients

    def under(self, prefix: str) -> dict[str, Array]:
        """Copies of the arrays whose names begin so, by the rest of their names."""
        return {
            name.removeprefix(prefix): np.array(part)
            for name, part in self.arrays.items()
            if name.startswith(prefix)
        }


class Manifest(NamedTuple):
    """record.json: what the folder is, and what the record was made from."""

    kind: str  # run, flower, study
    settings: Json = {}  # as they are now; config.toml or study.toml says the same to people
    # by entry, of which a run has one: name, title, and note, what must be said beside its numbers
    methods: dict[str, dict[str, str]] = {}
    made_from: Json = {}  # checksums of data, partition, model, costs: nothing means much without
    machine: Json = {}  # what else the same bits depend on
    about: Json = {}  # data and clients in words and numbers, for readers
    changed: list[Json] = []  # settings that a resume changed: {"round": 7, "rounds": [7, 20]}
    version: str = VERSION  # of the amsfl that began it
    format: int = FORMAT


class RunRecord(NamedTuple):
    """All that a run's folder says, the arrays left on the disk."""

    manifest: Manifest
    rounds: list[RoundRecord]
    summary: Summary | None  # None while it has not ended

    @property
    def settings(self) -> Json:
        return self.manifest.settings

    @property
    def method(self) -> dict[str, str]:
        return next(iter(self.manifest.methods.values()))


class StudyRecord(NamedTuple):
    """All that a study's folder says; `settings` is study.toml."""

    manifest: Manifest
    trials: dict[str, list[TrialRecord]]  # by entry, in the order of their numbers
    folder: str = ""  # its name in a report, where several are told apart

    @property
    def settings(self) -> Json:
        return self.manifest.settings
