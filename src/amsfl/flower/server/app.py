"""ServerApps: settings from Flower's run-config, the server's work from server.py."""

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from amsfl.core import UserError
from amsfl.flower import internals
from amsfl.flower import scores as flower_scores
from amsfl.flower.messages import Buffers, Vector
from amsfl.flower.server.options import Evaluate, NetworkDescription, ServerOptions
from amsfl.flower.server.run_record import summary
from amsfl.flower.server.server import FlowerServer
from amsfl.flower.server.server_state import ServerState
from amsfl.flower.server.telemetry import Telemetry
from amsfl.record import RoundRecord, read_manifest
from amsfl.settings.custom import split_custom
from amsfl.settings.definitions import RunConfig
from amsfl.settings.parse import merge_settings
from amsfl.simulation import ServeConfig, serve_config
from amsfl.simulation.observers import observers
from amsfl.track import trackers_of

UPLOAD = 30.0  # seconds that the parts of a reply may take at least, however soon the deadline
RUN = ("resume", "force", "track", "log", "metrics_port")  # asked of one start, and no setting of the run
LENGTH = ("rounds", "seconds", "target")  # what may change when a run goes on


def server_app(
    evaluate: Evaluate | None = None,
    start: Vector | Callable[[ServeConfig], Vector] | None = None,
    plan_by: Callable[[Any], Any] | None = None,
    **settings: Any,
) -> ServerApp:
    """A ServerApp that trains by any of our methods: `server_app(method="amsfl", clients=5, rounds=30)`.

    Args:
        evaluate: `evaluate(params, buffers)` scores the model on the server, as `evaluator` does; without it,
            and without evaluate_clients=1, the run ends by rounds or seconds.
        start: The first model, or a function that makes it from the settings; asked of a client if left out.
        plan_by: `plan_by(weights)` replaces the planner.
        **settings: Those of ServeConfig (docs/settings.md); method, policy, robust and transmit may be
            objects, which the clients need as well (their `own`). Besides `out` (the record folder),
            `resume`, `force`, `track` (docs/trackers.md), `log` ("json") and `metrics_port`. The same
            keys in Flower's run-config win.

    Returns:
        The app that a pyproject.toml names as `serverapp`.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        serve(grid, merged(settings, context.run_config), evaluate, start, plan_by)

    return app


def serve(
    grid: Grid,
    settings: Mapping[str, Any],
    evaluate: Evaluate | None = None,
    start: Any = None,
    plan_by: Callable[[Any], Any] | None = None,
    network: NetworkDescription | None = None,
) -> tuple[ServerState, list[RoundRecord]]:
    """Run one federation to its end; `settings` as in server_app.

    Args:
        grid: Flower's, or an InProcessGrid.
        settings: As in server_app.
        evaluate: Scores the model on the server.
        start: The first model, or what makes it.
        plan_by: Replaces the planner.
        network: What the server itself knows of it, for the model's files.

    Returns:
        Where the run stands at its end, and its rounds.
    """
    own, rest = split_custom(settings)
    rest |= own.names()
    out, again, force = rest.pop("out", None), bool(rest.pop("resume", False)), bool(rest.pop("force", False))
    trackers = trackers_of(rest.pop("track", None))
    log, port = str(rest.pop("log", "") or "text"), int(rest.pop("metrics_port", 0) or 0)
    where = Path(str(out)).expanduser() if out else None
    if again and where is None:
        raise UserError("To resume, say which record folder: out=FOLDER.")
    if again and where:
        # the settings that the folder's run began with, and how long it is to go on now
        checked = serve_config({key: value for key, value in rest.items() if value is not None})
        asked = checked.model_dump(include=checked.model_fields_set)
        rest = merge_settings(read_manifest(where, "flower"), asked)
    config = serve_config(rest)
    wait = config.straggler_seconds(0)
    internals.patch_grid(max(wait, UPLOAD) if wait else None)
    telemetry = Telemetry(log, port)

    def on_round(record: RoundRecord) -> None:
        telemetry.on_round(record, server.names)

    def watch(record: RoundRecord) -> None:
        for hear in watchers.on_round:
            hear(record)

    with closing(telemetry), observers(config, on_round, trackers, out=where) as watchers:
        first = start(config) if callable(start) else start
        options = ServerOptions(evaluate, first, plan_by, where, watch, own)
        options = options._replace(force=force, network=network)
        options = options._replace(on_refusal=telemetry.on_refusal)
        server, first, options = FlowerServer(grid, config, options), None, ServerOptions()
        state, records = server.run(again)
        watchers.on_end(summary(server.orders, state, records))
    return state, records


def merged(defaults: Mapping[str, Any], run_config: Mapping[str, Any]) -> dict[str, Any]:
    """Flower's run-config over the app's defaults. Keys may be written with dashes; "" means not set.

    Keys that are no setting of ours are the app's own and left alone.
    """
    ours = {*ServeConfig.model_fields, *RunConfig.model_fields, "out", *RUN}  # the second are refused
    settings: dict[str, Any] = dict(defaults)
    for key, value in run_config.items():
        name, _, option = key.replace("-", "_").partition(".")
        if name in ("options", "policy_options") and option:
            settings[name] = {**settings.get(name, {}), option: value}
        elif name in ours and value != "":
            settings[name] = value
    return settings


def evaluator(apply: Callable[[Vector, Any], Any], splits: Mapping[str, tuple[Any, Any]]) -> Evaluate:
    """Scores of `apply(params, rows)` on the given splits, for `server_app`.

    Args:
        apply: `apply(params, rows)` from the flat model to logits, or to one number a row.
        splits: By name rows and labels. Whole numbers are classes, and scored by accuracy and cross-entropy;
            fractions (a float array) are amounts, and scored by R², mae, rmse and half the squared error.

    Returns:
        `evaluate(params, buffers)` as `server_app` takes it.
    """

    def evaluate(params: Vector, buffers: Buffers) -> dict[str, dict[str, Any]]:
        scores: dict[str, dict[str, Any]] = {}
        for name, (x, y) in splits.items():
            logits = np.asarray(apply(params, x), np.float64)
            if flower_scores.are_numbers(y):
                scores[name] = flower_scores.judged(logits, y)
                continue
            hits = (logits.argmax(1) == y).mean()
            scores[name] = {"accuracy": float(hits), "loss": flower_scores.cross_entropy(logits, y)}
        return scores

    return evaluate
