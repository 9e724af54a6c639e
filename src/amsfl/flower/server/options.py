"""What a run on real clients has besides its settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from amsfl.flower import messages
from amsfl.flower.server import best_model
from amsfl.flower.server.contributions import RowScores
from amsfl.flower.server.server_state import Evaluate
from amsfl.planning.planner import Planner
from amsfl.record import RoundRecord
from amsfl.settings.custom import CustomParts


class ServerOptions(NamedTuple):
    """All of it."""

    evaluate: Evaluate | None = None  # evaluate(params, buffers) scores the model on the server
    start: messages.Vector | None = None  # the first model; None: clients are asked for it
    plan_by: Callable[[Any], Planner] | None = None  # plan_by(weights) replaces the planner of the settings
    out: Path | None = None  # the record folder
    watch: Callable[[RoundRecord], None] | None = None  # called with every round's record
    own: CustomParts = CustomParts()  # settings that are objects and no names
    on_refusal: Callable[[int | None, str | None, str], None] | None = None  # client, its name, why; at once
    force: bool = False  # replace a run that `out` holds
    row_scores: RowScores | None = None  # row_scores(params, buffers): every row's score, for a ledger
    network: best_model.NetworkDescription | None = None  # what the server knows of it, for the model's files
