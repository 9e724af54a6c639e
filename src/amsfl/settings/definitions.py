"""Every setting is defined once: its name, type, bounds, default and sentence.

Flags and their help, TOML files, Python keywords and docs/settings.md are made from these records
(tools/settings.py writes the last two). `parse.py` turns what a user writes into one of them.
"""

from typing import Any, Literal

from pydantic import Field, field_validator

from amsfl.settings.data_settings import Settings
from amsfl.settings.training import ROUNDS, ROUNDS_AT_MOST, ROUNDS_TO_TARGET, Training

__all__ = [
    "ROUNDS",
    "ROUNDS_AT_MOST",
    "ROUNDS_TO_TARGET",
    "RunConfig",
    "ServeConfig",
    "Serving",
    "Settings",
    "Simulation",
    "Training",
]


class Simulation(Settings):
    """What only a simulation has: a virtual clock, an engine, checkpoints when it likes."""

    profile: str = Field(
        "mild", description="how fast clients are: a name, FILE.csv, lognormal:0.02,0.8; see `amsfl methods`"
    )
    worth: bool = Field(False, description="a ledger of what each client adds to the model and costs")
    availability: str = Field(
        "always",
        description="when clients are there: always, chain:600,60, day:86400,0.6, FILE.csv (client,from,to)",
    )
    jitter: float = Field(
        0.0, ge=0, le=10, description="sigma of the lognormal factor on a round's steps and on its link"
    )
    failure: float = Field(0.0, ge=0, lt=1, description="chance that a client's round comes to nothing")
    stragglers: float = Field(
        0.0,
        ge=0,
        le=1,
        description="share of a round's clients that do only a part of their steps, by chance",
    )
    batches: Literal["random", "shuffled"] = Field(
        "random", description="minibatches: rows at random, or passes over all rows, each shuffled anew"
    )
    feature_skew: str = Field(
        "", description="how clients' features differ, more from client to client: noise:0.1, scale:2"
    )
    attack: str = Field(
        "", description="what attackers do, and how many there are, as in signflip:2; see docs/robust.md"
    )
    loss: Literal["auto", "cross-entropy", "squared", "absolute"] = Field(
        "auto",
        description="what clients minimise: cross-entropy of classes, squared or absolute error of numbers",
    )
    class_weights: str = Field(
        "", description="balanced (by counts that sites can add up), or as in yes=5,no=1; '': all alike"
    )
    engine: Literal["jax", "loop"] = Field(
        "jax", description="jax, or loop: one client and one step at a time, slow, for debugging"
    )
    precision: Literal["float32", "float64", "strict", "tf32", "bf16"] = Field(
        "float32",
        description="precision of arithmetic; strict, tf32, bf16: of products on GPUs (docs/scale.md)",
    )
    local_accuracy: bool = Field(False, description="score every client's own model at the end")
    details: bool = Field(
        True, description="at the end: confusion, AUC, calibration, and scores of every client's own rows"
    )
    test_every: int = Field(
        1, ge=1, description="score the other splits at every so many evaluations of the hold-out"
    )
    checkpoint_every: int = Field(10, ge=1, description="rounds between checkpoints")


class RunConfig(Simulation, Training):
    """All settings of a simulated run."""

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


class Serving(Settings):
    """What only a server of real clients has to settle."""

    give_up: str = Field(
        "",
        description="seconds that a round waits for a client, as in 60, or 600,120,60 by round; "
        "'': three times the plan",
    )
    poll: float = Field(0.2, gt=0, le=3600, description="seconds between two looks for replies")
    norm_limit: float = Field(
        10.0, gt=0, description="times the usual size at which an update is refused (docs/flower.md)"
    )
    patience: float = Field(
        600.0, ge=0, le=1e9, description="seconds without one good reply after which the server gives up"
    )
    evaluate_clients: int = Field(
        0, ge=0, description="every so many rounds clients score the model on their own test rows; 0: never"
    )
    evaluate_quorum: float = Field(
        1.0, gt=0, le=1, description="share of the clients whose scores are waited for"
    )
    keyed: bool = Field(
        False, description="SuperNodes have registered keys: a client's name stays with its node for good"
    )

    most_clients: int = Field(
        0, ge=0, description="clients beyond the first that may join later, up to so many in all; 0: nobody"
    )

    @field_validator("give_up", mode="before")
    @classmethod
    def _give_up(cls, value: Any) -> str:
        text = f"{value:g}" if isinstance(value, int | float) else value or ""
        try:
            good = all(0 < float(part) <= 86400 for part in text.split(",")) if text else True
        except (ValueError, AttributeError):
            good = False
        if not good:
            raise ValueError("write seconds, as in 60 or 600,120,60, a day at most")
        return str(text)

    def straggler_seconds(self, number: int) -> float | None:
        """Seconds that round `number` waits for a client; None: nobody has set them."""
        each = [float(part) for part in self.give_up.split(",") if part]
        return each[min(number, len(each) - 1)] if each else None


class ServeConfig(Serving, Training):
    """All settings of a Flower server. Real clients work side by side, so its clock is makespan."""

    data: str = Field("own", description="what the record calls the clients' data")
    clock: str = Field("makespan", description="makespan: real clients work at once")

    @property
    def real_clients(self) -> bool:
        return True

    @field_validator("clock")
    @classmethod
    def _clock(cls, value: str) -> str:
        if value != "makespan":
            raise ValueError("real clients work at once, by the clock makespan; leave it out")
        return value

    @field_validator("score")
    @classmethod
    def _score(cls, value: str) -> str:
        if ":" in value:
            raise ValueError("a server knows no class by its name; take accuracy, f1, auc, r2, mae or rmse")
        return value
