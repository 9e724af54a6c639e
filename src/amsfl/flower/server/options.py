"""What a run on real clients has besides its settings."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from amsfl.flower.messages import Buffers, Vector
from amsfl.planning.planner import Planner
from amsfl.portable import PortableModel
from amsfl.record import RoundRecord
from amsfl.settings.custom import CustomParts

Evaluate = Callable[[Vector, Buffers], dict[str, dict[str, Any]]]  # the server's own scores
RowScores = Callable[[Vector, Buffers], Vector]  # the server's own: every row's score by a model


class NetworkDescription(NamedTuple):
    """What a server that knows the network itself says of it: then its file runs without clients' code."""

    like: PortableModel  # layers, classes, features, preprocessing; its tensors are not looked at
    tensors: Callable[[Vector], Mapping[str, Vector]]  # a flat vector's, by the names that the layers have


class ServerOptions(NamedTuple):
    """All of it."""

    evaluate: Evaluate | None = None  # evaluate(params, buffers) scores the model on the server
    start: Vector | None = None  # the first model; None: clients are asked for it
    plan_by: Callable[[Any], Planner] | None = None  # plan_by(weights) replaces the planner of the settings
    out: Path | None = None  # the record folder
    watch: Callable[[RoundRecord], None] | None = None  # called with every round's record
    own: CustomParts = CustomParts()  # settings that are objects and no names
    on_refusal: Callable[[int | None, str | None, str], None] | None = None  # client, its name, why; at once
    force: bool = False  # replace a run that `out` holds
    network: NetworkDescription | None = None  # what the server knows of it, for the model's files
