"""The settings of a run: one record, from flags, a TOML file or Python, checked in one place."""

import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from amsfl.clock import check_clock
from amsfl.core import UserError, nearest

ROUNDS = 50  # when nothing says when to stop
ROUNDS_AT_MOST = 100_000  # when only a target or a time does: a run must end


class RunConfig(BaseModel):
    """Field by field what `amsfl run` takes; names are those of the flags."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    method: str = "amsfl"
    options: dict[str, float] = Field({}, description="hyper-parameters of the method, as in mu=0.1")
    extrapolation: float = Field(0.0, ge=0, description="FedExP: largest server step, 0 for none")
    data: str = Field("nslkdd", description="nslkdd, nslkdd-synth, digits or a CSV file")
    data_dir: str | None = None
    label: str | None = Field(None, description="label column of a CSV file")
    client_column: str | None = Field(None, description="column of a CSV file that says who owns a row")
    binary: bool = Field(False, description="normal against attack instead of five classes")
    model: str = Field("mlp", description="softmax, mlp, mlp:128-64, cnn")
    clients: int = Field(5, ge=1)
    cohort: int | None = Field(None, ge=1, description="clients a round; all by default")
    partition: str = Field(
        "auto",
        description="iid, dirichlet:A, shards:K, quantity:A, column; auto: column if there is one, else "
        "dirichlet:0.5",
    )
    profile: str = Field("mild", description="a built-in, a CSV file or lognormal:MEDIAN,SIGMA")
    clock: str = "sum"
    rounds: int | None = Field(None, ge=1)
    seconds: float | None = Field(None, gt=0, description="virtual seconds")
    target: float | None = Field(None, gt=0, le=1, description="hold-out accuracy")
    stop_at_target: bool = True
    steps: int = Field(20, ge=1, description="local steps a round, where the method does not plan them")
    lr: float = Field(0.05, gt=0)
    batch: int = Field(64, ge=1)
    seed: int = Field(0, ge=0, lt=2**32)
    policy: str = Field("auto", description="who chooses the steps: auto, or a policy of `amsfl plan`")
    policy_options: dict[str, float] = {}
    combine: str = Field("", description="rule over a cohort's uploads: median; several with commas")
    transmit: str = Field("", description="what happens to an upload on its way: topk:0.1,q8")
    budget: float | None = Field(None, gt=0, description="seconds a round; none: gain per second")
    engine: Literal["jax", "loop"] = "jax"
    precision: Literal["float32", "float64"] = "float32"
    readings: bool = Field(False, description="GDA readings as diagnostics, for any method")
    local_accuracy: bool = Field(False, description="score each client's own model at the end")
    eval_every: int = Field(1, ge=1)
    test_every: int = Field(
        1, ge=1, description="evaluations between those of splits other than the hold-out"
    )
    checkpoint_every: int = Field(10, ge=1)

    @field_validator("clock")
    @classmethod
    def _clock(cls, value: str) -> str:
        return check_clock(value)

    @property
    def last_round(self) -> int:
        if self.rounds is not None:
            return self.rounds
        return ROUNDS if self.seconds is None and self.target is None else ROUNDS_AT_MOST


def make_config(settings: dict[str, Any]) -> RunConfig:
    """Settings as a checked config; a mistake is one sentence that names the setting."""
    for key in settings:
        if key not in RunConfig.model_fields:
            raise UserError(f"Unknown setting {key!r}{nearest(key, RunConfig.model_fields)}.")
    try:
        config = RunConfig(**settings)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        why = first["msg"].removeprefix("Value error, ").rstrip(".")
        raise UserError(f"Setting {where!r} is {first['input']!r}: {why}.") from None
    return config


def read_toml(path: Path) -> dict[str, Any]:
    """The settings of a TOML file, as `make_config` takes them."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"The settings file {str(path)!r} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"The settings file {str(path)!r} is not valid TOML: {error}.") from None
