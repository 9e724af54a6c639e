"""A trace as a run folder: rounds.jsonl as any run writes it, and theory.json with what else is known."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from amsfl.core import Reading, RoundRecord, UserError
from amsfl.core.records import Array
from amsfl.theory.check import check_run
from amsfl.theory.claim import ClaimResult
from amsfl.theory.problems import average, build, spread
from amsfl.theory.trace import Trace, replay

THEORY, ROUNDS = "theory.json", "rounds.jsonl"


def _dot(x: Array, y: Array) -> list[float]:
    return [float(v) for v in np.sum(x * y, axis=-1)]


def rows_of(trace: Trace) -> list[dict[str, Any]]:
    """The rounds of a single run (no case axes) as `RoundRecord` dicts, readings from full gradients."""
    clients, clock = trace.steps.shape[-1], {"sum": 0.0, "makespan": 0.0}
    last, rows = np.zeros_like(trace.anchors[0]), []
    for k, steps in enumerate(trace.steps):
        g, dg = trace.grads[k, 0], trace.grads[k, -1] - trace.grads[k, 0]
        delta = trace.points[k, -1] - trace.points[k, 0]
        shared = spread(last, clients)
        loss = [float(x) for x in trace.problem.loss(trace.points[k, 0])]
        reading = Reading(
            loss,
            _dot(g, g),
            _dot(dg, dg),
            _dot(delta, delta),
            _dot(g, dg),
            _dot(g, delta),
            _dot(g, shared),
            _dot(dg, shared),
            _dot(delta, shared),
        )
        spent = trace.step_seconds * steps
        took = {"sum": float(spent.sum()), "makespan": float(spent.max())}
        clock = {kind: clock[kind] + took[kind] for kind in took}
        rows.append(
            RoundRecord(
                k,
                clock,
                took,
                took["sum"],
                {},
                list(range(clients)),
                [int(t) for t in steps],
                float(trace.lr),
                0.0,
                0.0,
                reading._asdict(),
                {"weights": trace.problem.weights.tolist()},
                {},
            )._asdict()
        )
        last = average(trace.problem.weights, delta)
    return rows


def _write(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def write_trace(trace: Trace, folder: Path) -> None:
    """Leave a folder that `amsfl check` can read."""
    if trace.steps.ndim != 2:
        raise UserError("Only a single run can be stored; this trace holds many cases side by side.")
    folder.mkdir(parents=True, exist_ok=True)
    known = {
        "kind": trace.problem.kind,
        "data": {k: v.tolist() for k, v in trace.problem.data.items()},
        "lr": float(trace.lr),
        "step_seconds": trace.step_seconds.tolist(),
        "steps": trace.steps.tolist(),
        "anchors": trace.anchors.tolist(),
        "points": trace.points.tolist(),
    }
    _write(folder / ROUNDS, "".join(json.dumps(row) + "\n" for row in rows_of(trace)))
    _write(folder / THEORY, json.dumps(known))


def read_trace(folder: Path) -> Trace | None:
    """The trace stored in a folder, None if it is an ordinary run."""
    path = folder / THEORY
    if not path.exists():
        return None
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        problem = build(known["kind"], {k: np.array(v) for k, v in known["data"].items()})
        return replay(
            problem,
            np.array(known["lr"]),
            np.array(known["steps"]),
            np.array(known["anchors"]),
            np.array(known["points"]),
            np.array(known["step_seconds"]),
        )
    except (ValueError, KeyError, TypeError, IndexError) as bad:
        if isinstance(bad, UserError):
            raise
        raise UserError(
            f"{path} is not a stored trace ({bad!r}); write it again with "
            "amsfl.theory.write_trace, or remove it to check the readings alone."
        ) from bad


def check_folder(folder: Path, config: Mapping[str, Any] | None = None) -> list[ClaimResult]:
    """`check_run` on what a folder holds; the caller passes the configuration it has read there."""
    path = folder / ROUNDS
    if not path.exists():
        raise UserError(
            f"{folder} has no {ROUNDS}, so it is not a recorded run; give the folder a run wrote."
        )
    rows = []
    *lines, _ = path.read_text(encoding="utf-8").split("\n")  # a killed run may end in half a line
    for number, line in enumerate(lines, 1):
        try:
            rows.append(json.loads(line))
        except ValueError as bad:
            raise UserError(
                f"Line {number} of {path} is damaged ({bad}); remove it and the lines after it "
                "to check the rounds before."
            ) from bad
    return check_run(rows, config or {}, read_trace(folder))
