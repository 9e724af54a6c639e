# ruff: noqa: RUF012 (defaults of a NamedTuple, which nobody changes in place)
"""What travels: an order to a client, and its reply, as Flower records. Arrays are plain numpy; no pickle.

Order: `order` (ConfigRecord, the fields of Order), `model` (arrays: anchor, server, direction, all
flat float32), `buffers` (arrays, by name, only for models that have some).
Reply: `echo` (ConfigRecord: run, round, client), `upload` (arrays: delta, extra, or what the order's
`transmit` encodes them to), `buffers`,
`report` (MetricRecord: the reading, steps, rows, step_seconds, compute_seconds, lost_state; plain_steps and
skipped where a client has an optimizer of its own, taken under privacy), `metrics` (MetricRecord of the
client's own; may be missing).
An array that holds nothing is left out, and so is `buffers` where a model has none: whatever is missing is
empty. Small arrays are bytes in a ConfigRecord, large ones an ArrayRecord: Flower sends every record in a
request of its own and every array of an ArrayRecord in two, and those add up.
Any client that reads and writes these records takes part, whatever it is written in.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
from math import prod
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from amsfl.clock.profile import SPENDING
from amsfl.core import Parts, Reading
from amsfl.privacy import Terms

Vector = np.ndarray[Any, np.dtype[Any]]
Buffers = dict[str, Vector]
Record = ArrayRecord | ConfigRecord | MetricRecord
OPTION = "option."  # prefix of a method's hyper-parameters in the order
HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
NOTHING = np.zeros(0, np.float32)
SMALL = 1 << 20  # bytes: arrays that weigh less together travel within their record
SPENT = "privacy is spent"  # how a site begins that may not take a further step
PRIVACY = "privacy."  # prefix of the terms of privacy in the order
NUMBERS = "fiub"  # kinds of dtype that travel: floats, integers, truth


class Order(NamedTuple):
    """What one client is to do this round."""

    run: str  # our own run id: it stays the same when a killed server comes back
    round: int  # counts from 0, as the engines do: it seeds the sampling
    accepted: int  # last round of which the server took this client's work, -1: none
    client: int
    steps: int  # at most; fewer where they would not end in time
    time_limit: float  # seconds that the steps may take together; the first one is always run
    lr: float
    lr_known: bool  # False: there is none yet, and lr times the first step's own length is the longest
    batch: int
    seed: int
    method: str
    options: dict[str, float]
    transmit: str  # by name; "" for none
    readings: bool
    own_optimizer: bool = False  # some clients move by optimizers of their own: the method's form for those
    terms: Terms | None = None  # under privacy


class GlobalModel(NamedTuple):
    anchor: Vector
    server: Vector  # the method's server state
    direction: Vector  # last global step; empty where no readings are taken
    buffers: Buffers


class Reply(NamedTuple):
    run: str
    round: int
    client: int
    parts: Parts  # the upload as it travels
    buffers: Buffers
    reading: Reading
    steps: int
    rows: int
    step_seconds: float  # one step, by the client's monotonic clock
    compute_seconds: float  # all of its work on this order
    lost_state: bool  # the method's client state was gone and began anew
    plain_steps: float | None = None  # plain steps that its own optimizer's steps amount to; None: as many
    skipped: int = 0  # batches left out, whose loss was not finite
    metrics: dict[str, float] = {}  # of the client's own
    taken: int = 0  # under privacy: steps of this run that the site has counted, lost ones as well

    @property
    def effective(self) -> float:
        """Steps as averages count them."""
        return float(self.steps if self.plain_steps is None else self.plain_steps)


class TensorSpec(NamedTuple):
    """One tensor of a model: its name and shape; `alias` names the one that it is tied to, if any."""

    name: str
    shape: tuple[int, ...]
    alias: str = ""


class Hello(NamedTuple):
    """Who a client is. `name` keeps its seat when its SuperNode comes back under another node id."""

    name: str
    rows: int
    model: Vector  # initial parameters; empty unless asked for
    buffers: Buffers
    own_optimizer: bool = False  # it moves by an optimizer of its own
    tensors: tuple[TensorSpec, ...] = ()  # of the model, in its order: so that a file of it has names
    step_seconds: float = 0.0  # of one step, measured or known; 0: nobody knows
    epsilon: float | None = None  # what its own budget of privacy has left; None: it has none of its own
    open: str = ""  # why it cannot keep rows private, where that was asked; "": it can
    spends: dict[
        str, float
    ] = {}  # joules of a step and of a megabyte, a megabyte's cost: what it says of them


def pack_order(order: Order, model: GlobalModel) -> RecordDict:
    return pack_orders([order], model)[0]


def pack_orders(orders: Sequence[Order], model: GlobalModel) -> list[RecordDict]:
    """A RecordDict each: Flower does not copy, and a shared one gives all the last one's steps.

    The arrays they share.
    """
    parts = {"anchor": model.anchor, "server": model.server, "direction": model.direction}
    vectors, buffers = laden(parts), pack_arrays(model.buffers)
    return [records(order=_fields(order), model=vectors, buffers=buffers) for order in orders]


def _fields(order: Order) -> ConfigRecord:
    fields: dict[str, Any] = {
        key: value for key, value in order._asdict().items() if key not in ("options", "terms")
    }
    fields |= {OPTION + key: float(value) for key, value in order.options.items()}
    terms = order.terms._asdict() if order.terms else {}
    return ConfigRecord(fields | {PRIVACY + key: value for key, value in terms.items()})


def unpack_order(content: RecordDict) -> tuple[Order, GlobalModel]:
    fields = scalars(content, "order")
    options, terms = _popped(fields, OPTION), _popped(fields, PRIVACY)
    parts = arrays(content, "model")
    anchor, server, direction = (parts.get(name, NOTHING) for name in ("anchor", "server", "direction"))
    model = GlobalModel(anchor, server, direction, arrays(content, "buffers"))
    return Order(**fields, options=options, terms=Terms(**terms) if terms else None), model


def _popped(fields: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {key.removeprefix(prefix): fields.pop(key) for key in [*fields] if key.startswith(prefix)}


def pack_reply(reply: Reply) -> RecordDict:
    report: dict[str, Any] = {key: float(value) for key, value in reply.reading._asdict().items()}
    report |= {"steps": int(reply.steps), "rows": int(reply.rows), "lost_state": int(reply.lost_state)}
    report |= {"step_seconds": float(reply.step_seconds), "compute_seconds": float(reply.compute_seconds)}
    report |= {} if reply.plain_steps is None else {"plain_steps": float(reply.plain_steps)}
    report |= {"skipped": int(reply.skipped)} if reply.skipped else {}
    report |= {"taken": int(reply.taken)} if reply.taken else {}
    echo: dict[str, Any] = {"run": reply.run, "round": reply.round, "client": reply.client}
    return records(
        echo=ConfigRecord(echo),
        upload=laden(reply.parts),
        buffers=pack_arrays(reply.buffers),
        report=MetricRecord(report),
        metrics=MetricRecord({key: float(value) for key, value in reply.metrics.items()}),
    )


def unpack_reply(content: RecordDict) -> Reply:
    """Raises for anything that is not a reply; what is one may still be refused, see checks.py."""
    echo, report = scalars(content, "echo"), scalars(content, "report")
    return Reply(
        str(echo["run"]),
        int(echo["round"]),
        int(echo["client"]),
        arrays(content, "upload"),
        arrays(content, "buffers"),
        Reading(*(float(report[name]) for name in Reading._fields)),
        int(report["steps"]),
        int(report["rows"]),
        float(report["step_seconds"]),
        float(report["compute_seconds"]),
        bool(report["lost_state"]),
        float(report["plain_steps"]) if "plain_steps" in report else None,
        int(report.get("skipped", 0)),
        {str(key): float(value) for key, value in scalars(content, "metrics").items()}
        if "metrics" in content
        else {},
        int(report.get("taken", 0)),
    )


def pack_hello(hello: Hello) -> RecordDict:
    said: dict[str, Any] = {"name": hello.name, "rows": int(hello.rows), "own_optimizer": hello.own_optimizer}
    said |= {"step_seconds": float(hello.step_seconds)} if hello.step_seconds else {}
    said |= {} if hello.epsilon is None else {"epsilon": float(hello.epsilon)}
    said |= {"open": hello.open} if hello.open else {}
    said |= {name: float(value) for name, value in hello.spends.items()}
    return records(
        hello=ConfigRecord(said),
        model=laden({"anchor": hello.model}),
        buffers=pack_arrays(hello.buffers),
        tensors=_packed(hello.tensors),
    )


def _packed(tensors: tuple[TensorSpec, ...]) -> ConfigRecord:
    if not tensors:
        return ConfigRecord()
    return ConfigRecord(
        {
            "names": [leaf.name for leaf in tensors],
            "shapes": ["x".join(map(str, leaf.shape)) for leaf in tensors],
            "aliases": [leaf.alias for leaf in tensors],
        }
    )


def unpack_hello(content: RecordDict) -> Hello:
    hello, anchor = scalars(content, "hello"), arrays(content, "model").get("anchor", NOTHING)
    own_optimizer = bool(hello.get("own_optimizer", False))
    tensors = _leaves(scalars(content, "tensors")) if "tensors" in content else ()
    speed = float(hello.get("step_seconds", 0.0))
    return Hello(
        str(hello["name"]),
        int(hello["rows"]),
        anchor,
        arrays(content, "buffers"),
        own_optimizer,
        tensors,
        speed,
        float(hello["epsilon"]) if "epsilon" in hello else None,
        str(hello.get("open", "")),
        {name: float(hello[name]) for name in SPENDING if name in hello},
    )


def _leaves(said: Mapping[str, Any]) -> tuple[TensorSpec, ...]:
    rows = zip(said["names"], said["shapes"], said["aliases"], strict=True)
    return tuple(
        TensorSpec(str(name), tuple(int(size) for size in shape.split("x") if size), str(alias))
        for name, shape, alias in rows
    )


def records(**parts: Record) -> RecordDict:
    """Those that hold something."""
    return RecordDict({name: part for name, part in parts.items() if len(part)})


def laden(parts: Mapping[str, Any]) -> ArrayRecord | ConfigRecord:
    """Those arrays that hold something."""
    return pack_arrays({name: part for name, part in parts.items() if np.size(part)})


def pack_arrays(parts: Mapping[str, Any]) -> ArrayRecord | ConfigRecord:
    # np.array and not ascontiguousarray, which turns a scalar buffer into a vector of one
    plain = {name: np.array(part, order="C") for name, part in parts.items()}
    if sum(part.nbytes for part in plain.values()) < SMALL:
        return ConfigRecord({name: Array(part).data for name, part in plain.items()})
    return ArrayRecord({name: Array(part) for name, part in plain.items()})


def arrays(content: RecordDict, name: str) -> Buffers:
    """Arrays by name, whichever way they came."""
    record: Any = content.get(name, ArrayRecord())
    if isinstance(record, ArrayRecord):
        return {str(key): numbers(_bytes(part)) for key, part in record.items()}
    inside: dict[str, Any] = dict(record.items()) if isinstance(record, ConfigRecord) else {"": None}
    if all(isinstance(part, bytes) for part in inside.values()):
        return {str(key): numbers(part) for key, part in inside.items()}
    raise TypeError(f"{name} is a {type(record).__name__}, and holds no arrays")


def _bytes(part: Array) -> bytes:
    if part.stype != "numpy.ndarray":
        raise ValueError(f"an array of kind {part.stype!r}")
    return part.data


def numbers(data: bytes) -> Vector:
    """An array in numpy's own format and in no other; its size is held against the bytes that came.

    np.load opens zip archives and takes the memory that a header claims, before it looks for the bytes.
    """
    file = BytesIO(data)
    version = np.lib.format.read_magic(file)
    if version not in HEADERS:
        raise ValueError(f"an array of version {version}")
    shape, fortran, dtype = HEADERS[version](file)
    if dtype.kind not in NUMBERS or dtype.subdtype is not None or min(shape, default=0) < 0:
        raise ValueError(f"an array of {dtype} {shape}")
    here = len(data) - file.tell()
    if prod(shape) * dtype.itemsize != here:
        raise ValueError(f"an array of {dtype} {shape} has {here} bytes")
    flat = np.frombuffer(data, dtype, prod(shape), file.tell())
    return np.array(flat.reshape(shape, order="F" if fortran else "C"))


def scalars(content: RecordDict, name: str) -> dict[str, Any]:
    """A ConfigRecord or MetricRecord as a plain dict."""
    record = content[name]
    if isinstance(record, ArrayRecord):
        raise TypeError(f"{name} is an ArrayRecord, not numbers")
    return dict(record.items())
