"""The settings as keywords, for editors and type checkers. Written by tools/settings.py."""

from typing import Literal, TypedDict

from amsfl.clock import RoundEnd
from amsfl.core import Combine, Transmit
from amsfl.methods import Method
from amsfl.planning import Policy


class TrainingKeywords(TypedDict, total=False):
    """What is trained, by which method and for how long: in a simulation and on real clients alike."""

    data: str
    data_dir: str | None
    label: str | None
    client_column: str | None
    drop: str
    columns: str
    missing: str
    task: Literal["auto", "classification", "regression"]
    binary: bool
    partition: str
    method: str | Method
    options: dict[str, float]
    policy: str | Policy
    policy_options: dict[str, float]
    budget: float | None
    joules: float | None
    megabytes: float | None
    transmit: str | Transmit
    held_back: float
    robust: str | Combine
    extrapolation: float
    server_optimizer: str
    model: str
    clients: int
    cohort: int | None
    clock: str
    round_end: str | RoundEnd
    late: Literal["auto", "stale", "drop"]
    staleness: str
    rounds: int | None
    seconds: float | None
    score: str
    target: str | float | None
    stop_at_target: bool
    stop_after: int
    judge_by: str
    steps: int
    epochs: float | None
    lr: float | None
    lr_decay: float
    client_momentum: float
    weight_decay: float
    batch: int
    seed: int
    readings: bool
    eval_every: int
    privacy: str
    epsilon: float | None
    public_columns: bool
    delta: float
    noise: float | None
    clip: float
    clip_quantile: float


class RunKeywords(TrainingKeywords, total=False):
    """All settings of a simulated run."""

    profile: str
    worth: bool
    availability: str
    jitter: float
    failure: float
    stragglers: float
    batches: Literal["random", "shuffled"]
    feature_skew: str
    attack: str
    loss: Literal["auto", "cross-entropy", "squared", "absolute"]
    class_weights: str
    engine: Literal["jax", "loop"]
    precision: Literal["float32", "float64", "strict", "tf32", "bf16"]
    local_accuracy: bool
    details: bool
    test_every: int
    checkpoint_every: int


class ServeKeywords(TrainingKeywords, total=False):
    """All settings of a Flower server. Real clients work side by side, so its clock is makespan."""

    give_up: str
    poll: float
    norm_limit: float
    patience: float
    evaluate_clients: int
    evaluate_quorum: float
    keyed: bool
    most_clients: int
