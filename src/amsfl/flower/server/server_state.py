"""Where a run stands: all that the next round needs, written after every round, read to go on."""

import uuid
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from amsfl.flower import vector_files
from amsfl.flower.messages import Buffers, GlobalModel, TensorSpec, Vector
from amsfl.flower.server.clients import RegisteredClient
from amsfl.flower.server.costs import MeasuredCosts
from amsfl.flower.server.reply_checks import PARTS, Sizes
from amsfl.methods import Method
from amsfl.planning.planner import PlannerMemory
from amsfl.record import Checkpoint, Manifest, RoundRecord, RunWriter, dumps, from_plain, plain
from amsfl.record.run import TROUBLE as TROUBLE
from amsfl.simulation import ServeConfig, provenance

BUFFERS = {"buffers": "buffer.", "best_buffers": "best-buffer."}  # fields, and their names in a checkpoint


@dataclass
class ServerState:
    """The fields up to `local` are those of a simulated trial, so that readers of a folder find them."""

    anchor: Vector
    server: Vector
    step: Vector  # the last global step; empty where nobody reads along it
    buffers: Buffers
    clients: list[RegisteredClient]
    memory: PlannerMemory  # the planner's
    measured: MeasuredCosts
    seed: int
    history: Vector = field(default_factory=lambda: np.zeros((0, 0), np.float32))  # a rule's, by client
    run: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    round: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: {"sum": 0.0, "makespan": 0.0})
    elapsed: float = 0.0  # wall-clock seconds since the start, pauses between server lives left out
    steps: list[int] = field(default_factory=list)
    ordered_steps: list[int] = field(default_factory=list)  # by client, as far as is known
    status: str = "running"
    spent: dict[str, float] = field(default_factory=dict)  # joules, megabytes, cost so far
    reached: dict[str, float] | None = None
    sizes: dict[str, Sizes] = field(default_factory=lambda: {part: [] for part in PARTS})
    refused: int = 0
    corrects_well: bool = True  # whether drift can be corrected by the clients' mean gradient (update.py)
    tensors: list[TensorSpec] = field(default_factory=list)  # their names, where a client sent them
    best: Vector = field(default_factory=lambda: np.zeros(0, np.float32))  # the model of the best round
    best_buffers: Buffers = field(default_factory=dict)
    best_round: int = 0
    best_score: float | None = None  # more is better
    stale: int = 0  # scored rounds since then

    def add_clients(self, some: list[RegisteredClient]) -> None:
        """Behind those who are there."""
        self.clients += some
        self.steps += [0] * len(some)
        self.ordered_steps += [0] * len(some)
        rows = np.zeros((len(some), *self.history.shape[1:]), np.float32)
        self.history = np.concatenate([self.history, rows])

    @property
    def model(self) -> GlobalModel:
        """What a round begins from."""
        return GlobalModel(self.anchor, self.server, self.step, self.buffers)


LIKE_A_TRIAL = ("anchor", "server", "step", "history")  # as a simulation's one trial has them
ARRAYS = (*LIKE_A_TRIAL, "buffers", "best", "best_buffers")
TRIAL = ("seed", "memory", "round", "seconds", "steps", "status", "reached")


def manifest(config: ServeConfig, state: ServerState, method: Method) -> Manifest:
    """record.json of a run on real clients: whose data it is from, only they know."""
    settings = config.model_dump()
    made = {
        "model": config.model,
        "parameters": int(state.anchor.size),
        "buffers": {name: f"{part.dtype} {part.shape}" for name, part in state.buffers.items()},
        "clients": len(state.clients),
    }
    return Manifest(
        kind="flower",
        settings=settings,
        methods={config.method: provenance.of_method(method)},
        made_from=made,
        about={
            "data": {"name": config.data, "synthetic": False, "note": ""},
            "clients": {"names": [client.name for client in state.clients]},
        },
    )


def save(writer: RunWriter, state: ServerState) -> None:
    """A checkpoint as a simulation writes it (one trial), with Flower's own facts under `flower`."""
    arrays = {name: getattr(state, name)[None] for name in LIKE_A_TRIAL}
    arrays |= dict.fromkeys(("client", "memory"), np.zeros((1, 0, 0), np.float32))  # stays with the clients
    for key, prefix in BUFFERS.items():
        held: Buffers = getattr(state, key)
        arrays |= {prefix + name: np.array(part, order="C") for name, part in held.items()}
    arrays["best"] = state.best
    host = {key: plain(part) for key, part in vars(state).items() if key not in (*ARRAYS, "memory")}
    host["memory"] = state.memory.dump()
    trial = {"index": 0, "local": None} | {key: host.pop(key) for key in TRIAL}
    writer.checkpoint(Checkpoint(state.round, arrays, trial | {"flower": host}))


def append_refusal(writer: RunWriter, item: dict[str, Any]) -> None:
    with (writer.where / TROUBLE).open("a", encoding="utf-8") as file:
        file.write(dumps(item) + "\n")


def load(writer: RunWriter) -> tuple[ServerState | None, list[RoundRecord]]:
    """The standing of the last finished round; the record is cut back to it."""
    point = writer.last_checkpoint()
    records = writer.rewind(point)
    if point is None:
        return None, records
    rest = point.host["flower"]
    rest |= {key: point.host[key] for key in TRIAL}
    nothing = np.zeros((1, len(rest["clients"]), 0), np.float32)  # in records of before rules remembered
    # copies, since this file is not there for long; large vectors are in files of their own then
    rest |= {name: vector_files.kept(point.arrays.get(name, nothing)[0]) for name in LIKE_A_TRIAL}
    rest["clients"] = [from_plain(RegisteredClient, client) for client in rest["clients"]]
    rest["measured"] = from_plain(MeasuredCosts, rest["measured"])
    rest["memory"] = PlannerMemory.load(rest["memory"])
    rest["tensors"] = [from_plain(TensorSpec, leaf) for leaf in rest["tensors"]]
    rest["best"] = vector_files.kept(point.arrays.get("best", nothing[0, 0]))
    rest |= {key: point.under(prefix) for key, prefix in BUFFERS.items()}
    return ServerState(**rest), records
