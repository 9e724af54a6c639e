"""Every setting, once: its name, type, bounds, default, a sentence, and its group in `--help`.

Flags and their help, TOML files, keywords in Python and docs/settings.md are made from these classes.
`parse.py` turns what a user writes into one of them. What is slow to import waits until a value is checked.
"""

import ast
from itertools import pairwise
from pathlib import Path
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

from amsfl.core.algorithm import ROUNDS
from amsfl.core.scores import check_name, check_target

ROUNDS_TO_TARGET = 1_000  # when only a target does, which may lie out of reach
ROUNDS_AT_MOST = 1_000_000  # a run must end
STEPS_AT_MOST = 100_000  # as planning has it, which is slow to import

DETAILS = ("scores", "models")  # each a part of what is worked out besides
DATA, METHOD, ENDS, CLIENTS = "Data", "Method and steps", "When it ends", "Clients and rounds"
UPLOADS, PRIVACY, RECORD, ENGINE, REAL = "Uploads", "Privacy", "Record", "Engine", "Real clients"


def setting(
    default: Any, group: str, *marks: Literal["first", "trial", "later", "own"], text: str = "", **bounds: Any
) -> Any:
    """A field; the line below it says what it is for. Its marks: `first`, one of the ten that most people
    need; `trial`, may differ among the trials of a batch; `later`, may change when a run goes on; `own`, may
    be an object, or code of somebody's own. `text` is how it is spelled where that is not its type.
    """
    return Field(default, json_schema_extra={"group": group, "marks": list(marks), "text": text}, **bounds)


def marked(kind: type[BaseModel], mark: str) -> tuple[str, ...]:
    """The settings that have a mark, or that stand in a group."""
    extra: dict[str, Any] = {name: field.json_schema_extra for name, field in kind.model_fields.items()}
    return tuple(name for name, each in extra.items() if mark in (each["group"], *each["marks"]))


def _clock(name: str) -> str:
    from amsfl.clock import check_clock

    return check_clock(name)


class Training(BaseModel):
    """What is trained, by which method and for how long: in a simulation and on real clients alike.

    Nothing unknown, nothing infinite, no text that files cannot hold.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    data: str = setting("nslkdd", DATA, "first", "own")
    """a name of `amsfl data` (nslkdd, digits ...), FILE.csv, a folder of tables, or module:attribute"""
    label: str | None = setting(None, DATA, "first")
    """label column of a table"""
    client_column: str | None = setting(None, DATA)
    """column of a table that says who owns a row"""
    drop: str = setting("", DATA)
    """columns of a table to leave out, with commas between"""
    columns: str = setting("", DATA)
    """how columns are read, as in zip=words,id=keep, label=number; or date, drop, day-first"""
    missing: str = setting("", DATA)
    """words and numbers of a table that mean a gap, as in -999,unclear"""
    partition: str = setting("auto", DATA, "trial")
    """iid, dirichlet:0.5, shards:2, labels:2, quantity:1, column; auto: column if any, else dirichlet:0.5"""

    method: str = setting("amsfl", METHOD, "first", "own")
    """how clients learn together; `amsfl methods` lists them"""
    model: str = setting("mlp", METHOD, "first", "own")
    """softmax, mlp (64-32), mlp:128-64, cnn, transformer, or module:attribute; see docs/models.md"""
    seed: int = setting(0, METHOD, "first", "trial", ge=0, lt=2**32)
    """seed of the partition, the first model and sampling"""
    options: dict[str, float] = setting({}, METHOD)
    """a hyper-parameter of the method, as in mu=0.1"""
    policy: str = setting("auto", METHOD, "own")
    """rule that chooses the steps; auto: the method's own"""
    budget: float | None = setting(None, METHOD, "trial", gt=0, le=1e12)
    """seconds a round may take; without it: the most worth per second"""
    steps: int = setting(20, METHOD, "trial", ge=1, le=STEPS_AT_MOST)
    """local steps a round, where the policy does not choose them"""
    epochs: float | None = setting(None, METHOD, gt=0, le=STEPS_AT_MOST)
    """in place of steps: passes over a client's own rows, each shuffled anew, as in 10 or 0.5"""
    lr: float | None = setting(None, METHOD, "trial", gt=0)
    """local learning rate; by default the method's own: 0.5 of amsfl, else 0.05"""
    lr_decay: float = setting(1.0, METHOD, "trial", gt=0, le=1)
    """factor on the learning rate after every round"""
    batch: int = setting(64, METHOD, ge=1, le=65_536)
    """rows of a minibatch"""
    client_optimizer: str = setting("", METHOD, "own")
    """clients' steps besides plain SGD, by optax: momentum:0.9, decay:1e-5, adamw:1e-3; ,kept: over rounds"""
    extrapolation: float = setting(0.0, METHOD, ge=0, le=1e6)
    """FedExP's largest server step, as in 4; 0: no FedExP"""
    server_optimizer: str = setting("", METHOD, "own")
    """the server's step over the method's: adam, yogi or momentum, as in adam:0.03"""

    rounds: int | None = setting(None, ENDS, "first", "trial", "later", ge=1, le=ROUNDS_AT_MOST)
    """stop after so many rounds; 50 if nothing else ends it"""
    seconds: float | None = setting(None, ENDS, "first", "trial", "later", gt=0, le=1e12)
    """stop after so many seconds: virtual ones, or real clients' own"""
    score: Annotated[str, AfterValidator(check_name)] = setting("", ENDS)
    """score of the hold-out that counts: accuracy, f1, auc, f1:CLASS, r2, mae; docs/scores.md"""
    target: float | None = setting(
        None, ENDS, "first", "trial", text="NUMBER or SCORE=NUMBER", gt=0
    )  # `split_target` takes it apart
    """stop at this score of the hold-out, as in 0.95, auc=0.9 or r2=0.8; alone: 1,000 rounds at most"""
    stop_at_target: bool = setting(True, ENDS, "trial", "later")
    """whether reaching the target ends the run"""
    stop_after: int = setting(0, ENDS, "later", ge=0, le=ROUNDS_AT_MOST)
    """stop after so many scored rounds without a better one; 0: never"""
    joules: float | None = setting(None, ENDS, "trial", "later", gt=0, le=1e18)
    """stop after so many joules of all clients together"""
    megabytes: float | None = setting(None, ENDS, "trial", "later", gt=0, le=1e18)
    """stop after so many megabytes, up and down together"""

    clients: int = setting(5, CLIENTS, "first", ge=1, le=1_000_000)
    """how many clients there are"""
    cohort: int | None = setting(None, CLIENTS, ge=1)
    """clients drawn for a round; all by default"""
    clock: Annotated[str, AfterValidator(_clock)] = setting("auto", CLIENTS, "trial")
    """sum: one client after another; makespan: all at once; auto: makespan for your own data"""
    round_end: str = setting("auto", CLIENTS, "own")
    """when the server moves: all, deadline:3, quorum:0.8, quorum:3,drop, buffer:10, groups (docs/time.md)"""

    transmit: str = setting("", UPLOADS, "own")
    """compression of uploads, as in topk:0.1,q8"""
    robust: str = setting("", UPLOADS, "own")
    """rules over uploads, against false clients; the advice: cap:0.1,clip,voices,trust:2"""
    held_back: float = setting(0.1, UPLOADS, ge=0, le=0.5)
    """share of a client's rows, 32 at most, to judge by and not to train on; 0: none"""

    privacy: str = setting("auto", PRIVACY)
    """record: rows clipped and noised at clients; client: deltas at the server; auto: by epsilon; none"""
    epsilon: float | None = setting(None, PRIVACY, "trial", gt=0, le=1e6)
    """privacy that a client's rows may lose in a run; see docs/privacy.md"""
    public_columns: bool = setting(False, PRIVACY)
    """under privacy: a table's words, ranges, medians and class names are public"""
    delta: float = setting(1e-5, PRIVACY, "trial", gt=0, lt=1)
    """chance that epsilon does not hold"""
    noise: float | None = setting(None, PRIVACY, "trial", ge=1e-3, le=1e6)
    """noise of a private step, as a multiple of the clip; without it: each client's least for its epsilon"""
    clip: float = setting(1.0, PRIVACY, gt=0, le=1e12)
    """norm that every row's gradient is cut to, if private; or every client's delta"""

    eval_every: int = setting(1, RECORD, ge=1)
    """rounds between evaluations"""

    @model_validator(mode="before")
    @classmethod
    def _together(cls, values: Any) -> Any:
        """Real clients work side by side; the named sources keep the paper's clock."""
        from amsfl.data import is_named

        if values.get("epochs") is not None and "steps" in values:
            raise ValueError(
                "a round has so many steps, or epochs of a client's own rows; leave one of them out"
            )
        if values.get("clock", cls.model_fields["clock"].default) != "auto":
            return values
        named = is_named(str(values.get("data", cls.model_fields["data"].default)))
        return values | {"clock": "sum" if named else "makespan"}

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without the steps that epochs stand in for: both would be refused when a record is read."""
        values: dict[str, Any] = write(self)
        return values if self.epochs is None else {key: values[key] for key in values if key != "steps"}

    @field_validator("*")
    @classmethod
    def _text(cls, value: Any) -> Any:
        if isinstance(value, str) and any(category(letter) in ("Cc", "Cs") for letter in value):
            raise ValueError("it has control characters")
        return value

    @field_validator("drop", "columns", "missing", "details", mode="before", check_fields=False)
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
    def ends(self) -> bool:
        """Whether anything but a target ends it."""
        return any(each is not None for each in (self.rounds, self.seconds, self.joules, self.megabytes))

    @property
    def known_rounds(self) -> int | None:
        """How many rounds this will have, unless something ends it earlier; None: nobody knows."""
        return self.rounds if self.ends or self.target is not None else ROUNDS

    @property
    def last_round(self) -> int:
        """The round after which this ends, whatever else happens."""
        if self.rounds is None and not self.ends:
            return ROUNDS if self.target is None else ROUNDS_TO_TARGET
        return self.rounds or ROUNDS_AT_MOST


class RunConfig(Training):
    """A simulation: besides, a virtual clock, what befalls clients, an engine."""

    profile: str = setting("mild", CLIENTS, "trial")
    """how fast clients are: a name, FILE.csv, lognormal:0.02,0.8; see `amsfl methods`"""
    availability: str = setting("always", CLIENTS, "trial")
    """when clients are there: always, chain:600,60, FILE.csv (client,from,to)"""
    jitter: float = setting(0.0, CLIENTS, "trial", ge=0, le=10)
    """sigma of the lognormal factor on a round's steps and on its link"""
    failure: float = setting(0.0, CLIENTS, "trial", ge=0, lt=1)
    """chance that a client's round comes to nothing"""
    loss: Literal["auto", "cross-entropy", "squared", "absolute"] = setting("auto", METHOD)
    """what clients minimise: cross-entropy of classes, squared or absolute error of numbers"""
    class_weights: Literal["", "balanced"] = setting("", METHOD)
    """balanced: by counts that sites can add up, every class counts as much as any other"""
    attack: str = setting("", UPLOADS, "trial", "own")
    """what attackers do, and how many there are, as in signflip:2; see docs/robust.md"""
    details: str = setting("scores", RECORD)
    """at the end: scores (confusion, AUC, calibration, clients' rows), models (their own)"""
    checkpoint_every: int = setting(10, RECORD, "later", ge=1)
    """rounds between checkpoints"""
    engine: Literal["auto", "jax", "loop"] = setting("auto", ENGINE)
    """jax: compiled, many clients at once; loop: numpy, one at a time; auto: loop for a small run"""
    precision: Literal["float32", "float64", "strict", "tf32", "bf16"] = setting("float32", ENGINE)
    """precision of arithmetic; strict, tf32, bf16: of products on GPUs (docs/scale.md)"""

    @field_validator("details")
    @classmethod
    def _details(cls, value: str) -> str:
        if {*value.split(",")} - {"", *DETAILS}:
            raise ValueError(f"it is some of {', '.join(DETAILS)}, with commas between, or nothing")
        return value


class ServeConfig(Training):
    """A server of real clients, who work side by side: its clock is makespan."""

    data: str = setting("own", DATA, "first")
    """what the record calls the clients' data"""
    clock: str = setting("makespan", CLIENTS)
    """makespan: real clients work at once"""
    evaluate_clients: int = setting(0, REAL, "later", ge=0, le=1)
    """1: clients score the model on their own test rows after every round"""

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


def _read_sentences(*kinds: type[BaseModel]) -> None:
    """Every field's description is the line below it; pydantic's own way to read it is slow."""
    for node in ast.parse(Path(__file__).read_bytes()).body:
        if isinstance(node, ast.ClassDef):
            heirs = [kind for kind in kinds if node.name in (each.__name__ for each in kind.__mro__)]
            for field, below in pairwise(node.body):
                if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                    name, sentence = ast.unparse(field.target), ast.literal_eval(below.value)
                    for kind in heirs:
                        kind.model_fields[name].description = sentence


_read_sentences(Training, RunConfig, ServeConfig)
OF_ROWS = {*marked(Training, DATA)} - {"partition"}  # which rows there are, and what they hold
