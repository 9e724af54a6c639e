"""A trace as a run folder: rounds.jsonl as any run writes it, and theory.json with what else is known."""

from pathlib import Path

import numpy as np

from amsfl.core import Reading, UserError
from amsfl.core.records import Array
from amsfl.record import (
    Manifest,
    MethodFacts,
    RoundRecord,
    create,
    holds_record,
    read_manifest,
    read_run,
    read_sealed,
    write_sealed,
)
from amsfl.record.sealed_text import checksum
from amsfl.theory.check import check_run
from amsfl.theory.claim import ClaimResult
from amsfl.theory.problems import average, build, spread
from amsfl.theory.trace import Trace, replay

THEORY = "theory.json"
STORED = MethodFacts("fedavg", "FedAvg")  # what a trace is a run of


def _dot(x: Array, y: Array) -> list[float]:
    return [float(v) for v in np.sum(x * y, axis=-1)]


def rows_of(trace: Trace) -> list[RoundRecord]:
    """The rounds of a single run (no case axes) as a run records them, readings from full gradients.

    Args:
        trace: Of one run.

    Returns:
        Rounds as `rounds.jsonl` has them.
    """
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
            loss,
            [1.0] * clients,
            [0.0] * clients,
            [0.0] * clients,
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
                trace.problem.weights.tolist(),
            )
        )
        last = average(trace.problem.weights, delta)
    return rows


def write_trace(trace: Trace, folder: Path) -> None:
    """Leave a folder that `amsfl check` can read; a trace that it holds is replaced.

    Args:
        trace: Of one run.
        folder: Where to.
    """
    if trace.steps.ndim != 2:
        raise UserError("Only a single run can be stored; this trace holds many cases side by side.")
    if holds_record(folder):
        read_manifest(folder, "trace")
    content = {
        "kind": trace.problem.kind,
        "data": {k: v.tolist() for k, v in trace.problem.data.items()},
        "lr": float(trace.lr),
        "step_seconds": trace.step_seconds.tolist(),
        "steps": trace.steps.tolist(),
        "anchors": trace.anchors.tolist(),
        "points": trace.points.tolist(),
    }
    own = Manifest("trace", checksum(content), [THEORY], methods={STORED.name: STORED})
    with create(folder, own, force=True) as writer:
        for row in rows_of(trace):
            writer.append(row)
        write_sealed(folder / THEORY, content, own.identity)


def read_trace(folder: Path) -> Trace | None:
    """The trace stored in a folder.

    Args:
        folder: Of a recorded run.

    Returns:
        The trace, or None if it is an ordinary run.
    """
    own = read_manifest(folder, "run", "flower", "trace")
    if own.kind != "trace" or not (folder / THEORY).exists():
        return None
    content = read_sealed(folder / THEORY, "write it again with amsfl.theory.write_trace.", own.identity)
    problem = build(content["kind"], {k: np.array(v) for k, v in content["data"].items()})
    return replay(
        problem,
        np.array(content["lr"]),
        np.array(content["steps"]),
        np.array(content["anchors"]),
        np.array(content["points"]),
        np.array(content["step_seconds"]),
    )


def check_folder(folder: Path) -> list[ClaimResult]:
    """`check_run` on what a folder holds.

    Args:
        folder: Of a recorded run.

    Returns:
        Every claim and how it fared.
    """
    run = read_run(folder)
    clock, budget = run.settings.get("clock", "sum"), run.settings.get("budget")
    return check_run(run.rounds, run.method, clock=clock, budget=budget, trace=read_trace(folder))
