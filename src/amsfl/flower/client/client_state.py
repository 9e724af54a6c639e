"""What a client remembers from round to round: its method's state, and the model that it was last sent.

The method's state (SCAFFOLD's c_i, FedDyn's g_i) must agree with what the server took, and an upload can come
late or be refused, and a killed server runs a round again. So a client keeps two: the state that the server
last accepted, and the pending one of its latest work. The next order says which round was accepted.
They live in Flower's context, which ends with a Flower run; with `state-dir` in the node-config also in a
file, so that a resumed server finds its clients as it left them.

A client that was in the round before has seen the anchor from which the last global step began; the server
sends the step to all others, and to everybody when it resumes a run. The anchor lives in Flower's context: a
node that was started anew has lost it, and its readings along the step then say nothing (NaN).
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ConfigRecord, Context
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as save_tensors

from amsfl.flower.arrays import scalars
from amsfl.flower.messages import GlobalModel, Order, Vector, arrays, pack_arrays
from amsfl.record.disk import make_folder, remove, safe_name, write_atomically
from amsfl.record.fingerprint import checksum_arrays

NEVER = -1
KEPT = 20  # state files of a Flower run, the latest: a server that names itself anew fills no disk


class StoredState(NamedTuple):
    settled: int  # round of the accepted state
    pending: int
    accepted: Vector
    latest: Vector


def settle(held: StoredState | None, order: Order, fresh: Vector) -> tuple[Vector, bool]:
    """The state to work from, and whether it was lost: held by nobody though the server counts on it."""
    if held is not None:
        if order.accepted == held.pending != NEVER:
            return held.latest, False
        if order.accepted == held.settled:
            return held.accepted, False
    return fresh, bool(fresh.size) and order.accepted != NEVER


def load(context: Context, order: Order) -> StoredState | None:
    if "amsfl" in context.state and context.state["amsfl"]["run"] == order.run:
        fields, parts = scalars(context.state, "amsfl"), arrays(context.state, "amsfl-state")
        return StoredState(int(fields["settled"]), int(fields["pending"]), **parts)
    path = _path(context, order)
    return _read(path) if path and path.exists() else None


def save(context: Context, order: Order, before: Vector, after: Vector) -> None:
    """`before` belongs to the accepted round, `after` to this one."""
    fields: dict[str, Any] = {"run": order.run, "settled": order.accepted, "pending": order.round}
    path = _path(context, order) if after.size else None
    files = list(scalars(context.state, "amsfl").get("files", [])) if "amsfl" in context.state else []
    if path:
        files = [*(name for name in files if name != path.name), path.name]
        for name in files[:-KEPT]:
            remove(path.with_name(name))
    context.state["amsfl"] = ConfigRecord(fields | {"files": files[-KEPT:]})
    context.state["amsfl-state"] = pack_arrays({"accepted": before, "latest": after})
    if path:
        make_folder(path.parent, private=True)
        parts = {"accepted": np.ascontiguousarray(before), "latest": np.ascontiguousarray(after)}
        notes = {key: str(value) for key, value in fields.items()} | {"crc": checksum_arrays(*parts.values())}
        write_atomically(path, save_tensors(parts, notes), 0o600)  # as near to the rows as a gradient is


def _path(context: Context, order: Order) -> Path | None:
    folder: Any = context.node_config.get("state-dir")
    if not folder:
        return None
    # the run's name comes from the server: it must not lead out of the folder
    return Path(str(folder)).expanduser() / f"{safe_name(order.run, 'The run')}-{order.client}.safetensors"


def _read(path: Path) -> StoredState | None:
    try:
        with safe_open(path, "numpy") as file:
            notes = file.metadata()
            parts = {name: file.get_tensor(name) for name in ("accepted", "latest")}
        if notes["crc"] != checksum_arrays(parts["accepted"], parts["latest"]):
            return None
        return StoredState(int(notes["settled"]), int(notes["pending"]), **parts)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError):
        return None  # unreadable is lost: the reply says so, and the run goes on


NOTES, ANCHOR = "amsfl-seen", "amsfl-seen-anchor"


def last_step(context: Context, order: Order, model: GlobalModel) -> Vector:
    """The last global step: as it was sent, or from the anchor before; NaN where that was lost."""
    if not order.readings or model.direction.size or order.round == 0:
        return model.direction
    if NOTES in context.state:
        notes = scalars(context.state, NOTES)
        if notes["run"] == order.run and notes["round"] == order.round - 1:
            return model.anchor - arrays(context.state, ANCHOR)["anchor"]
    return np.full_like(model.anchor, np.nan)


def keep_anchor(context: Context, order: Order, anchor: Vector) -> None:
    """So that `last_step` of the next round is known."""
    if order.readings:
        context.state[NOTES] = ConfigRecord({"run": order.run, "round": order.round})
        context.state[ANCHOR] = pack_arrays({"anchor": anchor})
