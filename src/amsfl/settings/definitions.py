"""Every setting, once: its name, type, bounds, default, a sentence, and its group in `--help`.

Flags and their help, TOML files, keywords in Python and docs/settings.md are made from these classes.
`parse.py` turns what a user writes into one of them. What is slow to import waits until a value is checked.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal
from unicodedata import category

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from amsfl.core.score_names import check_name, check_target

ROUNDS = 50  # when nothing says when to stop
ROUNDS_TO_TARGET = 1_000  # when only a target does, which may lie out of reach
ROUNDS_AT_MOST = 1_000_000  # a run must end
STEPS_AT_MOST = 100_000  # as planning has it, which is slow to import

DATA, METHOD, ENDS, CLIENTS = "Data", "Method and steps", "When it ends", "Clients and rounds"
UPLOADS, PRIVACY, RECORD, ENGINE, REAL = "Uploads", "Privacy", "Record", "Engine", "Real clients"


def setting(
    default: Any,
    what: str,
    group: str,
    *marks: Literal["first", "trial", "later", "own"],
    text: str = "",
    **bounds: Any,
) -> Any:
    """A field. Its marks: `first`, one of the ten that most people need; `trial`, may differ among the trials
    of a batch; `later`, may change when a run goes on; `own`, may be an object, or code of somebody's own.

    `text` is how it is spelled where that is not its type.
    """
    extra: dict[str, Any] = {"group": group, "marks": list(marks), "text": text}
    return Field(default, description=what, json_schema_extra=extra, **bounds)


def marked(kind: type[BaseModel], mark: str) -> tuple[str, ...]:
    """The settings that have a mark, or that stand in a group."""
    return tuple(name for name, field in kind.model_fields.items() if mark in _marks(field.json_schema_extra))


def _marks(extra: Any) -> Iterator[str]:
    yield from (extra["group"], *extra["marks"])


def _clock(name: str) -> str:
    from amsfl.clock import check_clock

    return check_clock(name)


class Settings(BaseModel):
    """What all have in common: nothing unknown, nothing infinite, no text that files cannot hold."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    @field_validator("*")
    @classmethod
    def _text(cls, value: Any) -> Any:
        if isinstance(value, str) and any(category(letter) in ("Cc", "Cs") for letter in value):
            raise ValueError("it has control characters")
        return value


class Training(Settings):
    """What is trained, by which method and for how long: in a simulation and on real clients alike."""

    data: str = setting(
        "nslkdd",
        "a name of `amsfl data` (nslkdd, digits ...), FILE.csv, a folder of tables, or module:attribute",
        DATA,
        "first",
        "own",
    )
    label: str | None = setting(None, "label column of a table", DATA, "first")
    client_column: str | None = setting(None, "column of a table that says who owns a row", DATA)
    drop: str = setting("", "columns of a table to leave out, with commas between", DATA)
    columns: str = setting(
        "", "how columns are read, as in zip=words,id=keep; or number, date, hash, drop, day-first", DATA
    )
    missing: str = setting("", "words and numbers of a table that mean a gap, as in -999,unclear", DATA)
    task: Literal["auto", "classification", "regression"] = setting(
        "auto", "what a table's label is; auto: a number if it has fractions or over 20 values", DATA
    )
    partition: str = setting(
        "auto",
        "iid, dirichlet:0.5, shards:2, labels:2, quantity:1, column; auto: column if any, else dirichlet:0.5",
        DATA,
        "trial",
    )

    method: str = setting(
        "amsfl", "how clients learn together; `amsfl methods` lists them", METHOD, "first", "own"
    )
    model: str = setting(
        "mlp",
        "softmax, mlp (64-32), mlp:128-64, cnn, transformer, or module:attribute; see docs/models.md",
        METHOD,
        "first",
        "own",
    )
    seed: int = setting(
        0, "seed of the partition, the first model and sampling", METHOD, "first", "trial", ge=0, lt=2**32
    )
    options: dict[str, float] = setting({}, "a hyper-parameter of the method, as in mu=0.1", METHOD)
    policy: str = setting("auto", "rule that chooses the steps; auto: the method's own", METHOD, "own")
    budget: float | None = setting(
        None,
        "seconds a round may take; without it: the most worth per second",
        METHOD,
        "trial",
        gt=0,
        le=1e12,
    )
    steps: int = setting(
        20,
        "local steps a round, where the policy does not choose them",
        METHOD,
        "trial",
        ge=1,
        le=STEPS_AT_MOST,
    )
    epochs: float | None = setting(
        None,
        "in place of steps: passes over a client's own rows, each shuffled anew, as in 10 or 0.5",
        METHOD,
        gt=0,
        le=STEPS_AT_MOST,
    )
    lr: float | None = setting(
        None,
        "local learning rate; by default the method's own: 0.5 of amsfl, else 0.05",
        METHOD,
        "trial",
        gt=0,
    )
    lr_decay: float = setting(
        1.0, "factor on the learning rate after every round", METHOD, "trial", gt=0, le=1
    )
    batch: int = setting(64, "rows of a minibatch", METHOD, ge=1, le=65_536)
    client_momentum: float = setting(
        0.0, "momentum of clients' steps, as in 0.9; begins at 0 in every round", METHOD, ge=0, lt=1
    )
    weight_decay: float = setting(0.0, "weight decay of clients' steps, as in 1e-5", METHOD, ge=0, le=1e3)
    extrapolation: float = setting(
        0.0, "FedExP's largest server step, as in 4; 0: no FedExP", METHOD, ge=0, le=1e6
    )
    server_optimizer: str = setting(
        "", "the server's step over the method's: adam, yogi or momentum, as in adam:0.03", METHOD, "own"
    )

    rounds: int | None = setting(
        None,
        f"stop after so many rounds; {ROUNDS} if nothing else ends it",
        ENDS,
        "first",
        "trial",
        "later",
        ge=1,
        le=ROUNDS_AT_MOST,
    )
    seconds: float | None = setting(
        None,
        "stop after so many seconds: virtual ones, or real clients' own",
        ENDS,
        "first",
        "trial",
        "later",
        gt=0,
        le=1e12,
    )
    score: Annotated[str, AfterValidator(check_name)] = setting(
        "",
        "score of the hold-out that counts: accuracy, f1, auc, f1:CLASS, r2, mae; docs/scores.md",
        ENDS,
        "later",
    )
    target: float | None = setting(
        None,
        "stop at this score of the hold-out, as in 0.95, auc=0.9 or r2=0.8; alone: "
        f"{ROUNDS_TO_TARGET:,} rounds at most",
        ENDS,
        "first",
        "trial",
        "later",
        text="NUMBER or SCORE=NUMBER",  # `split_target` takes it apart
        gt=0,
    )
    stop_at_target: bool = setting(True, "whether reaching the target ends the run", ENDS, "trial", "later")
    stop_after: int = setting(
        0,
        "stop after so many scored rounds without a better one; 0: never",
        ENDS,
        "later",
        ge=0,
        le=ROUNDS_AT_MOST,
    )
    joules: float | None = setting(
        None, "stop after so many joules of all clients together", ENDS, "trial", "later", gt=0, le=1e18
    )
    megabytes: float | None = setting(
        None, "stop after so many megabytes, up and down together", ENDS, "trial", "later", gt=0, le=1e18
    )

    clients: int = setting(5, "how many clients there are", CLIENTS, "first", ge=1, le=1_000_000)
    cohort: int | None = setting(None, "clients drawn for a round; all by default", CLIENTS, ge=1)
    clock: Annotated[str, AfterValidator(_clock)] = setting(
        "auto",
        "sum: one client after another; makespan: all at once; auto: makespan for your own data",
        CLIENTS,
        "trial",
    )
    round_end: str = setting(
        "auto",
        "when the server moves: all, deadline:3, quorum:0.8, quorum:3,drop, buffer:10, groups (docs/time.md)",
        CLIENTS,
        "own",
    )

    transmit: str = setting("", "compression of uploads, as in topk:0.1,q8", UPLOADS, "own")
    robust: str = setting(
        "",
        "rules over uploads, against false clients; the advice: cap:0.1,clip,voices,trust:2",
        UPLOADS,
        "own",
    )
    held_back: float = setting(
        0.1,
        "share of a client's rows, 32 at most, to judge by and not to train on; 0: none",
        UPLOADS,
        ge=0,
        le=0.5,
    )

    privacy: str = setting(
        "auto",
        "record: rows clipped and noised at clients; client: deltas at the server; auto: by epsilon; none",
        PRIVACY,
    )
    epsilon: float | None = setting(
        None,
        "privacy that a client's rows may lose in a run; see docs/privacy.md",
        PRIVACY,
        "trial",
        gt=0,
        le=1e6,
    )
    public_columns: bool = setting(
        False, "under privacy: a table's words, ranges, medians and class names are public", PRIVACY
    )
    delta: float = setting(1e-5, "chance that epsilon does not hold", PRIVACY, "trial", gt=0, lt=1)
    noise: float | None = setting(
        None,
        "noise of a private step, as a multiple of the clip; without it: each client's least for its epsilon",
        PRIVACY,
        "trial",
        ge=1e-3,
        le=1e6,
    )
    clip: float = setting(
        1.0,
        "norm that every row's gradient is cut to, if private; or every client's delta",
        PRIVACY,
        gt=0,
        le=1e12,
    )

    eval_every: int = setting(1, "rounds between evaluations", RECORD, ge=1)

    @property
    def real_clients(self) -> bool:
        """Whether what clients say of themselves is their own word."""
        return False

    @model_validator(mode="before")
    @classmethod
    def _choose_clock(cls, values: Any) -> Any:
        """Real clients work side by side; the named sources keep the paper's clock."""
        from amsfl.data import is_named

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

    @field_validator("drop", "columns", "missing", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        """Lists of names are taken as the text with commas that they mean."""
        return ",".join(map(str, value)) if isinstance(value, list | tuple) else value

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


class RunConfig(Training):
    """A simulation: besides, a virtual clock, what befalls clients, an engine."""

    profile: str = setting(
        "mild",
        "how fast clients are: a name, FILE.csv, lognormal:0.02,0.8; see `amsfl methods`",
        CLIENTS,
        "trial",
    )
    availability: str = setting(
        "always",
        "when clients are there: always, chain:600,60, day:86400,0.6, FILE.csv (client,from,to)",
        CLIENTS,
        "trial",
    )
    jitter: float = setting(
        0.0, "sigma of the lognormal factor on a round's steps and on its link", CLIENTS, "trial", ge=0, le=10
    )
    failure: float = setting(
        0.0, "chance that a client's round comes to nothing", CLIENTS, "trial", ge=0, lt=1
    )
    loss: Literal["auto", "cross-entropy", "squared", "absolute"] = setting(
        "auto",
        "what clients minimise: cross-entropy of classes, squared or absolute error of numbers",
        METHOD,
    )
    class_weights: str = setting(
        "", "balanced (by counts that sites can add up), or as in yes=5,no=1; '': all alike", METHOD
    )
    attack: str = setting(
        "",
        "what attackers do, and how many there are, as in signflip:2; see docs/robust.md",
        UPLOADS,
        "trial",
        "own",
    )
    worth: bool = setting(False, "a ledger of what each client adds to the model and costs", RECORD)
    local_accuracy: bool = setting(False, "score every client's own model at the end", RECORD)
    details: bool = setting(
        True, "at the end: confusion, AUC, calibration, and scores of every client's own rows", RECORD
    )
    checkpoint_every: int = setting(10, "rounds between checkpoints", RECORD, "later", ge=1)
    engine: Literal["auto", "jax", "loop"] = setting(
        "auto",
        "jax: compiled, many clients at once; loop: numpy, one at a time; auto: loop for a small run",
        ENGINE,
    )
    precision: Literal["float32", "float64", "strict", "tf32", "bf16"] = setting(
        "float32", "precision of arithmetic; strict, tf32, bf16: of products on GPUs (docs/scale.md)", ENGINE
    )

    @property
    def last_round(self) -> int:
        if self.rounds is None and (self.joules is not None or self.megabytes is not None):
            return ROUNDS_AT_MOST
        return super().last_round

    @property
    def known_rounds(self) -> int | None:
        return self.rounds if self.joules is not None or self.megabytes is not None else super().known_rounds

    @property
    def ends(self) -> bool:
        """Whether anything but a target ends it."""
        return any(each is not None for each in (self.rounds, self.seconds, self.joules, self.megabytes))


class ServeConfig(Training):
    """A server of real clients, who work side by side: its clock is makespan."""

    data: str = setting("own", "what the record calls the clients' data", DATA, "first")
    clock: str = setting("makespan", "makespan: real clients work at once", CLIENTS)
    evaluate_clients: int = setting(
        0, "1: clients score the model on their own test rows after every round", REAL, "later", ge=0, le=1
    )

    @property
    def real_clients(self) -> bool:
        return True

    @field_validator("clock")
    @classmethod
    def _makespan(cls, value: str) -> str:
        if value != "makespan":
            raise ValueError("real clients work at once, by the clock makespan; leave it out")
        return value

    @field_validator("score")
    @classmethod
    def _score(cls, value: str) -> str:
        if ":" in value:
            raise ValueError("a server knows no class by its name; take accuracy, f1, auc, r2, mae or rmse")
        return value


OF_ROWS = {*marked(Training, DATA)} - {"partition"}  # which rows there are, and what they hold
