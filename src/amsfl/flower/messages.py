# ruff: noqa: RUF012  (nobody changes a default)
"""What travels: an order to a client, and its reply, as Flower records (docs/protocol.md has all of them).

Whatever holds nothing is left out, and whatever is missing is empty. Any client that reads and writes these
records takes part, whatever it is written in.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from flwr.app import ConfigRecord, MetricRecord, RecordDict

from amsfl.clock.profile import SPENDING
from amsfl.core import Parts, Reading
from amsfl.flower.arrays import LONGEST_TEXT as LONGEST_TEXT
from amsfl.flower.arrays import NOTHING, pack_nonempty, records
from amsfl.flower.arrays import Buffers as Buffers
from amsfl.flower.arrays import arrays as arrays
from amsfl.flower.arrays import check_sizes as check_sizes
from amsfl.flower.arrays import pack_arrays as pack_arrays
from amsfl.flower.arrays import scalars as scalars
from amsfl.flower.arrays import typed as typed
from amsfl.flower.vector_files import Vector as Vector
from amsfl.privacy import Terms

Kinds = dict[str, type]
OPTION = "option."  # prefix of a method's hyper-parameters in the order
SPENT = "privacy is spent"  # how a site begins that may not take a further step
OPTIONAL = {"momentum": 0.0, "weight_decay": 0.0, "cut": 1.0}  # fields of an order, left out at these values
PRIVACY = "privacy."  # prefix of the terms of privacy in the order
# the numbers of a reply and of a hello: those that are always there, and those that may be missing
REPORT = {"steps": int, "rows": int, "lost_state": int, "step_seconds": float, "compute_seconds": float}
REPORT_MORE = {"plain_steps": float, "skipped": int, "taken": int, "held_rows": int}
HELLO, HELLO_MORE = {"name": str, "rows": int}, {"step_seconds": float, "epsilon": float, "open": str}


class Order(NamedTuple):
    """What one client is to do this round."""

    run: str  # our own run id: it stays the same when a killed server comes back
    round: int  # counts from 0, as the engines do: it seeds the sampling
    accepted: int  # last round of which the server took this client's work, -1: none
    client: int
    steps: int  # at most; fewer where they would not end in time
    time_limit: float  # seconds that the steps may take together; the first one is always run
    lr: float
    lr_known: bool  # False: there is none yet, and lr is the part that the client takes of what it finds
    batch: int
    seed: int
    method: str
    options: dict[str, float]
    transmit: str  # by name; "" for none
    readings: bool
    own_optimizer: bool = False  # some clients move by optimizers of their own: the method's form for those
    held_back: float = 0.0  # share of its rows that the client does not train on, for the judge
    momentum: float = 0.0  # of its steps, from rest in every round
    weight_decay: float = 0.0
    cut: float = 1.0  # of the method's longest step, how many times; lr at most
    terms: Terms | None = None  # under privacy


class GlobalModel(NamedTuple):
    anchor: Vector
    server: Vector  # the method's server state
    direction: Vector  # last global step; empty where clients know it, or do not read along it
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
    compute_seconds: float = 0.0  # all of its work on this order
    lost_state: bool = False  # the method's client state was gone and began anew
    plain_steps: float | None = None  # plain steps that its own optimizer's steps amount to; None: as many
    skipped: int = 0  # batches left out, whose loss was not finite
    metrics: dict[str, float] = {}  # of the client's own
    taken: int = 0  # under privacy: steps of this run that the site has counted, lost ones as well
    held_rows: int = 0  # that it held back for the judge

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
    """Who a client is. By its `name` it is known when its SuperNode comes back under another node id."""

    name: str
    rows: int
    model: Vector  # initial parameters; empty unless asked for
    buffers: Buffers
    own_optimizer: bool = False  # it moves by an optimizer of its own
    tensors: tuple[TensorSpec, ...] = ()  # of the model, in its order: so that a file of it has names
    step_seconds: float = 0.0  # of one step, measured or known; 0: nobody knows
    epsilon: float | None = None  # what its own budget of privacy has left; None: it has none of its own
    open: str = ""  # why it cannot keep rows private, where that was asked; "": it can
    spends: dict[str, float] = {}  # what it says of its joules a step and a megabyte, and a megabyte's cost


def pack_order(order: Order, model: GlobalModel) -> RecordDict:
    return pack_orders([order], model)[0]


def pack_orders(orders: Sequence[Order], model: GlobalModel) -> list[RecordDict]:
    """A RecordDict each: Flower does not copy, and a shared one gives all the last one's steps.

    The arrays they share.
    """
    parts = {"anchor": model.anchor, "server": model.server, "direction": model.direction}
    vectors, buffers = pack_nonempty(parts), pack_arrays(model.buffers)
    return [records(order=_fields(order), model=vectors, buffers=buffers) for order in orders]


def _fields(order: Order) -> ConfigRecord:
    usual = [name for name, value in OPTIONAL.items() if getattr(order, name) == value]
    absent = ("options", "terms", *usual)
    fields: dict[str, Any] = {key: value for key, value in order._asdict().items() if key not in absent}
    fields |= {OPTION + key: float(value) for key, value in order.options.items()}
    terms = order.terms._asdict() if order.terms else {}
    return ConfigRecord(fields | {PRIVACY + key: value for key, value in terms.items()})


def unpack_order(content: RecordDict) -> tuple[Order, GlobalModel]:
    """Raises for anything that is not an order; what is one may still be refused, see site_policy.py."""
    check_sizes(content)
    fields = scalars(content, "order")
    options, terms = _popped(fields, OPTION), _popped(fields, PRIVACY)
    parts = arrays(content, "model")
    anchor, server, direction = (parts.get(name, NOTHING) for name in ("anchor", "server", "direction"))
    model = GlobalModel(anchor, server, direction, arrays(content, "buffers"))
    known = {key: value for key, value in fields.items() if key in Order._fields}  # a newer server's are not
    agreed = Terms(**typed(Terms.__annotations__, terms)) if terms else None
    numbers = typed(dict.fromkeys(options, float), options)
    return Order(**typed(Order.__annotations__, known), options=numbers, terms=agreed), model


def _popped(fields: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {key.removeprefix(prefix): fields.pop(key) for key in [*fields] if key.startswith(prefix)}


def _packed(record: Reply | Hello, always: Kinds, more: Kinds) -> dict[str, Any]:
    """Its fields as they travel: of those that may be missing only what says something."""
    given, usual = record._asdict(), record._field_defaults
    fields = [*always, *(name for name in more if given[name] != usual[name])]
    return {name: (always | more)[name](given[name]) for name in fields}


def _unpacked(fields: Mapping[str, Any], always: Kinds, more: Kinds) -> dict[str, Any]:
    own = {name: kind(fields[name]) for name, kind in always.items()}
    return own | {name: kind(fields[name]) for name, kind in more.items() if name in fields}


def pack_reply(reply: Reply) -> RecordDict:
    reading = {key: float(value) for key, value in reply.reading._asdict().items()}
    return records(
        echo=ConfigRecord({"run": reply.run, "round": reply.round, "client": reply.client}),
        upload=pack_nonempty(reply.parts),
        buffers=pack_arrays(reply.buffers),
        report=MetricRecord(reading | _packed(reply, REPORT, REPORT_MORE)),
        metrics=MetricRecord({key: float(value) for key, value in reply.metrics.items()}),
    )


def unpack_reply(content: RecordDict) -> Reply:
    """Raises for anything that is not a reply; what is one may still be refused, see reply_checks.py."""
    check_sizes(content)
    echo, report = scalars(content, "echo"), scalars(content, "report")
    numbers = _unpacked(report, REPORT, REPORT_MORE)
    metrics = scalars(content, "metrics") if "metrics" in content else {}
    return Reply(
        str(echo["run"]),
        int(echo["round"]),
        int(echo["client"]),
        arrays(content, "upload"),
        arrays(content, "buffers"),
        Reading(*(float(report[name]) for name in Reading._fields)),
        metrics={str(key): float(value) for key, value in metrics.items()},
        **numbers | {"lost_state": bool(numbers["lost_state"])},
    )


def pack_hello(hello: Hello) -> RecordDict:
    fields = _packed(hello, HELLO | {"own_optimizer": bool}, HELLO_MORE)
    leaves = hello.tensors
    names, aliases = [leaf.name for leaf in leaves], [leaf.alias for leaf in leaves]
    shapes = ["x".join(map(str, leaf.shape)) for leaf in leaves]
    named: dict[str, Any] = {"names": names, "shapes": shapes, "aliases": aliases}
    return records(
        hello=ConfigRecord(fields | {name: float(value) for name, value in hello.spends.items()}),
        model=pack_nonempty({"anchor": hello.model}),
        buffers=pack_arrays(hello.buffers),
        tensors=ConfigRecord(named if leaves else {}),
    )


def unpack_hello(content: RecordDict) -> Hello:
    check_sizes(content)
    hello, tensors = scalars(content, "hello"), scalars(content, "tensors") if "tensors" in content else {}
    columns = [tensors[name] for name in ("names", "shapes", "aliases")] if tensors else []
    return Hello(
        model=arrays(content, "model").get("anchor", NOTHING),
        buffers=arrays(content, "buffers"),
        tensors=tuple(
            TensorSpec(str(name), tuple(int(size) for size in shape.split("x") if size), str(alias))
            for name, shape, alias in zip(*columns, strict=True)
        ),
        spends={name: float(hello[name]) for name in SPENDING if name in hello},
        **_unpacked(hello, HELLO, HELLO_MORE | {"own_optimizer": bool}),
    )
