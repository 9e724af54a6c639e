"""Settings that only a simulation has."""

from typing import Literal

from pydantic import Field

from amsfl.settings.data_settings import Settings


class Simulation(Settings):
    """What only a simulation has: a virtual clock, an engine, checkpoints when it likes."""

    profile: str = Field(
        "mild", description="how fast clients are: a name, FILE.csv, lognormal:0.02,0.8; see `amsfl profiles`"
    )
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
    pieces: int | None = Field(
        None,
        ge=1,
        description="parts of a minibatch, one after another, for less memory; none: as a GPU's memory asks",
    )
    shard_model: int = Field(
        1, ge=1, description="devices that share a model, each with a part of every layer; see docs/scale.md"
    )
    local_accuracy: bool = Field(False, description="score every client's own model at the end")
    details: bool = Field(
        True, description="at the end: confusion, AUC, calibration, and scores of every client's own rows"
    )
    test_every: int = Field(
        1, ge=1, description="score the other splits at every so many evaluations of the hold-out"
    )
    checkpoint_every: int = Field(10, ge=1, description="rounds between checkpoints")
