"""A trace as the rounds that a run would have recorded."""

import numpy as np

from amsfl.core import Reading
from amsfl.core.records import Array
from amsfl.record import RoundRecord
from claims.problems import average, spread
from claims.trace import Trace


def _dot(x: Array, y: Array) -> list[float]:
    return [float(v) for v in np.sum(x * y, axis=-1)]


def rows_of(trace: Trace) -> list[RoundRecord]:
    """The rounds of a single run (no case axes) as a run records them, readings from full gradients."""
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
