"""Where a run stands: all that the next round needs, written after every round, read to go on."""

import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from amsfl.core import RoundRecord, UserError
from amsfl.federation import ServeConfig, folder
from amsfl.federation.planner import Memory
from amsfl.flower.server.costs import Measured
from amsfl.flower.server.roster import Seat
from amsfl.flower.wire import Buffers, Vector

BUFFER = "buffer."


@dataclass
class Progress:
    """The fields up to `local` are those of a simulated trial, so that readers of a folder find them."""

    anchor: Vector
    server: Vector
    step: Vector  # the last global step
    buffers: Buffers
    seats: list[Seat]
    memory: Memory  # the planner's
    measured: Measured
    seed: int
    run: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    round: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: {"sum": 0.0, "makespan": 0.0})
    elapsed: float = 0.0  # wall-clock seconds since the start, pauses between server lives left out
    steps: list[int] = field(default_factory=list)
    status: str = "running"
    reached: dict[str, float] | None = None
    sizes: dict[str, list[list[float]]] = field(default_factory=lambda: {"delta": [], "extra": []})
    refused: int = 0


ARRAYS = ("anchor", "server", "step", "buffers")
TRIAL = ("seed", "memory", "round", "seconds", "steps", "status", "reached")


def save(where: Path, stand: Progress) -> None:
    """A checkpoint as a simulation writes it (one trial), with Flower's own facts under `flower`."""
    arrays = {name: getattr(stand, name)[None] for name in ("anchor", "server", "step")}
    arrays |= dict.fromkeys(("client", "memory"), np.zeros((1, 0, 0), np.float32))  # stays with the clients
    arrays |= {BUFFER + name: np.array(part, order="C") for name, part in stand.buffers.items()}
    host = {key: value for key, value in _plain(stand).items() if key not in ARRAYS}
    trial = {"index": 0, "local": None} | {key: host.pop(key) for key in TRIAL}
    folder.save_checkpoint(where, folder.Checkpoint(stand.round, arrays, trial | {"flower": host}))


def load(where: Path) -> Progress | None:
    """The standing of the last finished round; the record is cut back to it."""
    point = folder.load_checkpoint(where)
    folder.keep_rounds(where, point.round if point else 0)
    if point is None:
        return None
    if "flower" not in point.host:
        raise UserError(f"The folder {str(where)!r} holds a simulated run; continue it with 'amsfl resume'.")
    rest = point.host["flower"]
    rest |= {key: point.host[key] for key in TRIAL}
    rest |= {name: point.arrays[name][0] for name in ("anchor", "server", "step")}
    rest["seats"] = [Seat(*seat) for seat in rest["seats"]]
    rest["measured"] = Measured(*rest["measured"])
    rest["memory"] = Memory.load(rest["memory"])
    rest["buffers"] = {
        name.removeprefix(BUFFER): part for name, part in point.arrays.items() if name.startswith(BUFFER)
    }
    return Progress(**rest)


def summary(config: ServeConfig, stand: Progress, rounds: list[RoundRecord], note: str) -> dict[str, Any]:
    """summary.json, with the keys of a simulated run's."""
    last: dict[str, dict[str, Any]] = {}
    for record in rounds:
        last = record.metrics or last
    return {
        "method": config.method,
        "data": config.data,
        "synthetic": False,
        "note": note,
        "seed": stand.seed,
        "status": stand.status,
        "rounds": stand.round,
        "accuracy": deciding_split(last).get("accuracy"),
        "test_accuracy": last.get("test", {}).get("accuracy"),
        "metrics": last,
        "local_accuracy": None,
        "clock": config.clock,
        "virtual_seconds": stand.seconds[config.clock],
        "virtual_seconds_by_clock": stand.seconds,
        "target": config.target,
        "seconds_to_target": stand.reached["elapsed"] if stand.reached else None,
        "rounds_to_target": stand.reached["rounds"] if stand.reached else None,
        "steps": {str(who): steps for who, steps in enumerate(stand.steps)},
        "bytes_up": sum(record.bytes_up for record in rounds),
        "bytes_down": sum(record.bytes_down for record in rounds),
        "refused": stand.refused,
        "wall": {
            "seconds": stand.elapsed,
            "client_steps_per_second": sum(stand.steps) / max(stand.elapsed, 1e-9),
        },
    }


def deciding_split(metrics: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The split that targets are held against: the server's hold-out, else the clients' own test rows."""
    return metrics.get("holdout") or metrics.get("clients") or {}


def write_summary(where: Path, found: dict[str, Any]) -> None:
    folder.write_atomically(where / folder.SUMMARY, json.dumps(found, indent=1).encode())


def _plain(stand: Progress) -> dict[str, Any]:
    arrays = dict.fromkeys(ARRAYS)
    return (
        vars(stand)
        | arrays
        | {"memory": stand.memory.dump()}
        | {"seats": [list(seat) for seat in stand.seats]}
        | {"measured": [list(part) for part in stand.measured]}
    )
