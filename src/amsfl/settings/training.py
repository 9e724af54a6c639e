"""Settings of what is trained, by which method and for how long, in simulations and on real clients."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from amsfl.clock import check_clock, staleness
from amsfl.combine import RECOMMENDED
from amsfl.core.score_names import check_name, check_target
from amsfl.data import is_named
from amsfl.methods import METHODS
from amsfl.planning.problem import MOST_STEPS
from amsfl.settings.data_settings import DataSettings

ROUNDS = 50  # when nothing says when to stop
ROUNDS_TO_TARGET = 1_000  # when only a target does, which may lie out of reach
ROUNDS_AT_MOST = 1_000_000  # a run must end


class Training(DataSettings):
    """What is trained, by which method and for how long: in a simulation and on real clients alike."""

    method: Annotated[str, AfterValidator(METHODS.spelling)] = Field(
        "amsfl", description="how clients learn together; `amsfl methods` lists them"
    )
    options: dict[str, float] = Field({}, description="a hyper-parameter of the method, as in mu=0.1")
    policy: str = Field("auto", description="rule that chooses the steps; auto: the method's own")
    policy_options: dict[str, float] = Field({}, description="a number of the policy's, as in steps=10")
    budget: float | None = Field(
        None, gt=0, le=1e12, description="seconds a round may take; without it: the most worth per second"
    )
    joules: float | None = Field(
        None, gt=0, le=1e18, description="stop after so many joules of all clients together"
    )
    megabytes: float | None = Field(
        None, gt=0, le=1e18, description="stop after so many megabytes, up and down together"
    )
    transmit: str = Field("", description="compression of uploads, as in topk:0.1,q8")
    held_back: float = Field(
        0.1,
        ge=0,
        le=0.5,
        description="share of a client's rows, 32 at most, to judge by and not to train on; 0: none",
    )
    robust: str = Field(
        "", description=f"rules over uploads, against false clients; the advice: {RECOMMENDED}"
    )
    extrapolation: float = Field(
        0.0, ge=0, le=1e6, description="FedExP's largest server step, as in 4; 0: no FedExP"
    )
    server_optimizer: str = Field(
        "", description="the server's step over the method's: adam, yogi or momentum, as in adam:0.03"
    )
    model: str = Field(
        "mlp",
        description="softmax, mlp (64-32), mlp:128-64, cnn, transformer; see docs/models.md",
    )
    clients: int = Field(5, ge=1, le=1_000_000, description="how many clients there are")
    cohort: int | None = Field(None, ge=1, description="clients drawn for a round; all by default")
    clock: Annotated[str, AfterValidator(check_clock)] = Field(
        "auto",
        description="sum: one client after another; makespan: all at once; auto: makespan for your own data",
    )
    round_end: str = Field(
        "auto",
        description="when the server moves: all, deadline:2.5, quorum:3, quorum:0.8, buffer:10, groups; "
        "see docs/time.md",
    )
    late: Literal["auto", "stale", "drop"] = Field(
        "auto",
        description="work that a deadline or quorum leaves behind: is used later or dropped; "
        "auto: as the round end says",
    )
    staleness: str = Field(
        "auto",
        description="what an upload t moves old counts: constant, sqrt, poly:0.5, hinge:10/4; auto: as the "
        "round end says",
    )
    rounds: int | None = Field(
        None,
        ge=1,
        le=ROUNDS_AT_MOST,
        description=f"stop after so many rounds; {ROUNDS} if nothing else ends it",
    )
    seconds: float | None = Field(
        None, gt=0, le=1e12, description="stop after so many seconds: virtual ones, or real clients' own"
    )
    score: Annotated[str, AfterValidator(check_name)] = Field(
        "",
        description="score of the hold-out that counts: accuracy, f1, auc, f1:CLASS, r2, mae; docs/scores.md",
    )
    target: float | None = Field(
        None,
        gt=0,
        description="stop at this score of the hold-out, as in 0.95, auc=0.9 or r2=0.8; alone: "
        f"{ROUNDS_TO_TARGET:,} rounds at most",
        json_schema_extra={"text": "NUMBER or SCORE=NUMBER"},  # `aimed` takes it apart
    )
    stop_at_target: bool = Field(True, description="whether reaching the target ends the run")
    stop_after: int = Field(
        0,
        ge=0,
        le=ROUNDS_AT_MOST,
        description="stop after so many scored rounds without a better one; 0: never",
    )
    judge_by: str = Field(
        "",
        description="number that chooses the best round, if not the score: loss, or a metric of your own; "
        "-error: less is better",
    )
    steps: int = Field(
        20, ge=1, le=MOST_STEPS, description="local steps a round, where the policy does not choose them"
    )
    epochs: float | None = Field(
        None,
        gt=0,
        le=MOST_STEPS,
        description="passes of a client over its own rows in a round, as in 10 or 0.5; in place of steps",
    )
    lr: float | None = Field(
        None, gt=0, description="local learning rate; by default the method's own: 0.5 of amsfl, else 0.05"
    )
    lr_decay: float = Field(1.0, gt=0, le=1, description="factor on the learning rate after every round")
    client_momentum: float = Field(
        0.0, ge=0, lt=1, description="momentum of clients' steps, as in 0.9; begins at 0 in every round"
    )
    weight_decay: float = Field(0.0, ge=0, le=1e3, description="weight decay of clients' steps, as in 1e-5")
    batch: int = Field(64, ge=1, le=65_536, description="rows of a minibatch")
    seed: int = Field(0, ge=0, lt=2**32, description="seed of the partition, the first model and sampling")
    readings: bool = Field(False, description="keep gradient-difference readings on record, for any method")
    eval_every: int = Field(1, ge=1, description="rounds between evaluations")
    privacy: str = Field(
        "auto",
        description="record: rows clipped and noised at clients; client: deltas at the server; auto: by "
        "epsilon; none",
    )
    epsilon: float | None = Field(
        None, gt=0, le=1e6, description="privacy that a client's rows may lose in a run; see docs/privacy.md"
    )
    public_columns: bool = Field(
        False,
        description="under privacy: a table's words, ranges, medians and class names are public",
    )
    delta: float = Field(1e-5, gt=0, lt=1, description="chance that epsilon does not hold")
    noise: float | None = Field(
        None,
        ge=1e-3,
        le=1e6,
        description="noise of a private step, as a multiple of the clip; without it: each client's least for "
        "its epsilon",
    )
    clip: float = Field(
        1.0,
        gt=0,
        le=1e12,
        description="norm that every row's gradient is cut to, if private; or every client's delta",
    )
    clip_quantile: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of clients whose deltas are to stay whole: their clip follows it; 0: it stays",
    )

    @property
    def real_clients(self) -> bool:
        """Whether what clients say of themselves is their own word."""
        return False

    @model_validator(mode="before")
    @classmethod
    def _choose_clock(cls, values: Any) -> Any:
        """Real clients work side by side; the named sources keep the paper's clock."""
        if isinstance(values, dict) and values.get("clock", cls.model_fields["clock"].default) == "auto":
            named = is_named(str(values.get("data", cls.model_fields["data"].default)))
            return values | {"clock": "sum" if named else "makespan"}
        return values

    @model_validator(mode="before")
    @classmethod
    def _steps_or_epochs(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("epochs") is not None and "steps" in values:
            raise ValueError(
                "a round has so many steps, or epochs of a client's own rows; leave one of them out"
            )
        return values

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without the steps that epochs stand in for: both would be refused when a record is read."""
        values: dict[str, Any] = write(self)
        return values if self.epochs is None else {key: values[key] for key in values if key != "steps"}

    @field_validator("extrapolation")
    @classmethod
    def _extrapolation(cls, value: float) -> float:
        if 0 < value <= 1:
            raise ValueError("FedExP's largest step is above 1, as in 4; 0 leaves it out")
        return value

    @field_validator("target")
    @classmethod
    def _target(cls, value: float | None, fields: ValidationInfo) -> float | None:
        return None if value is None else check_target(fields.data.get("score", ""), value)

    @field_validator("staleness")
    @classmethod
    def _staleness(cls, value: str) -> str:
        if value != "auto":
            staleness(value)
        return value

    @property
    def known_rounds(self) -> int | None:
        """How many rounds this will have, unless something ends it earlier; None: nobody knows."""
        open_end = self.seconds is not None or self.target is not None
        return ROUNDS if self.rounds is None and not open_end else self.rounds

    @property
    def last_round(self) -> int:
        """The round after which this ends, whatever else happens."""
        if self.rounds is not None:
            return self.rounds
        if self.seconds is not None:
            return ROUNDS_AT_MOST
        return ROUNDS if self.target is None else ROUNDS_TO_TARGET
