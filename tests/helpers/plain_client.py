# ruff: noqa: B905, SIM905 (plain as can be)
"""A client written from docs/protocol.md alone: Flower's records, struct and plain Python. Least squares."""

import math
import struct
import time

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

ROWS = 6
PLAIN = (
    "fedavg",
    "fednova",
    "fedavgm",
    "fedadam",
    "fedyogi",
    "feddua",
    "fedbuff",
    "fedcompass",
    "amsfl-paper",
    "amsfl-steps",
)
app = ClientApp()
held = {}  # this process's clients: state by node


def write(numbers):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(numbers)},), }}"
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode("ascii")
    data = start + struct.pack(f"<{len(numbers)}f", *numbers)
    return Array(dtype="float32", shape=(len(numbers),), stype="numpy.ndarray", data=data)


def read(content, record, name):
    if record not in content or name not in content[record]:
        return []
    part = content[record][name]
    data = part if isinstance(part, bytes) else part.data  # small ones are bytes in a ConfigRecord
    assert data[:6] == b"\x93NUMPY"
    size = 2 if data[6] == 1 else 4
    begin = 8 + size + int.from_bytes(data[8 : 8 + size], "little")
    return list(struct.unpack(f"<{(len(data) - begin) // 4}f", data[begin:]))


def rows_of(node):
    """a . x ~ b: three numbers a row, different at every site."""
    table = []
    for row in range(ROWS):
        a = [math.cos(1 + row * 3 + k * 2 + node) for k in range(3)]
        table.append((a, 2 * a[0] - a[1] + a[2] / 2 + 0.3 * math.sin(row + node)))
    return table


def loss_and_gradient(node, x):
    """All rows are every minibatch."""
    loss, grad = 0.0, [0.0] * len(x)
    for a, b in rows_of(node):
        left = dot(a, x) - b
        loss += left * left / 2 / ROWS
        grad = [g + left * each / ROWS for g, each in zip(grad, a)]
    return loss, grad


def dot(a, b):
    return sum(one * two for one, two in zip(a, b)) if a and b else 0.0


def minus(a, b):
    return [one - two for one, two in zip(a, b)]


@app.query()
def hello(message, context):
    name = context.node_config["partition-id"]
    found = {"hello": ConfigRecord({"name": str(name), "rows": ROWS})}
    if message.content["ask"]["model"]:
        found["model"] = ArrayRecord({"anchor": write([0.0, 0.0, 0.0])})
    return Message(RecordDict(found), reply_to=message)


class Rule:
    """One method's steps."""

    def __init__(self, order, a, c, z):
        self.order, self.method, self.a, self.c, self.z = order, order["method"], a, c, z
        self.eta, self.lr_known = order["lr"], order["lr_known"]
        self.last = None  # delta-sgd: y, g, length, growth

    def option(self, name):
        return self.order["option." + name]

    def direction(self, y, g):
        if self.method in ("fedprox", "fedasync"):
            mu = self.option("mu" if self.method == "fedprox" else "rho")
            return [each + mu * way for each, way in zip(g, minus(y, self.a))]
        if self.method == "scaffold":
            return [each - own + all_ for each, own, all_ in zip(g, self.z, self.c)]
        if self.method == "feddyn":
            alpha = self.option("alpha")
            return [each - own + alpha * way for each, own, way in zip(g, self.z, minus(y, self.a))]
        return g

    def length(self, y, loss, g):
        if self.method in ("fedsps", "amsfl"):
            scale = self.option("c") if self.method == "fedsps" else 1.0
            worth = 1.0 if self.method == "fedsps" else self.option("polyak")
            own = max(0.0, worth * loss / (scale * dot(g, g) + 1e-12))
            if not self.lr_known:
                self.eta, self.lr_known = self.eta * own, True
            return min(self.eta, own)
        if self.method == "delta-sgd":
            length, growth = self.eta, 1.0
            if self.last:
                before, old, past, growth = self.last
                way, change = minus(y, before), minus(g, old)
                grown = math.sqrt(1 + self.option("delta") * growth) * past
                smooth = self.option("gamma") / 2 * math.sqrt(dot(way, way) / (dot(change, change) or 1))
                length = min(smooth, grown) if dot(change, change) else grown
                growth = length / past
            self.last = (y, g, length, growth)
            return length
        return self.eta

    def step(self, y, loss, g):
        length = self.length(y, loss, g)
        return [each - length * way for each, way in zip(y, self.direction(y, g))]


def begin_state(order, node, size):
    """The state whose round the server last took, and whether it is lost."""
    if order["method"] not in ("scaffold", "feddyn"):
        return [], False
    kept = held.get((order["run"], node), {})
    if order["accepted"] in kept:
        return kept[order["accepted"]], False
    return [0.0] * size, order["accepted"] != -1


@app.train()
def train(message, context):
    started = time.monotonic()
    order, node = dict(message.content["order"]), context.node_config["partition-id"]
    known = (*PLAIN, "fedprox", "fedasync", "scaffold", "feddyn", "fedsps", "delta-sgd", "amsfl")
    if order["method"] not in known or order["transmit"]:
        raise ValueError(f"I do not know {order['method']} {order['transmit']}")
    a, c, v = (read(message.content, "model", name) for name in ("anchor", "server", "direction"))
    z, lost = begin_state(order, node, len(a))
    rule, y, timed, steps = Rule(order, a, c, z), a, [], 0
    while steps < order["steps"]:
        mean = sum(timed[1:] or timed) / max(len(timed[1:] or timed), 1)
        if steps and sum(timed) + (1 + order["readings"]) * mean > order["time_limit"]:
            break
        began = time.monotonic()
        loss, g = loss_and_gradient(node, y)
        if not steps:
            first = loss, g
        y = rule.step(y, loss, g)
        timed.append(time.monotonic() - began)
        steps += 1
    report = dict.fromkeys(
        "loss grad_sq diff_sq delta_sq grad_diff grad_delta grad_dir diff_dir delta_dir".split(), 0.0
    )
    if order["readings"]:
        after, last = loss_and_gradient(node, y)
        (loss, g), way = first, minus(y, a)
        change = minus(last, g)
        report = {
            "loss": loss,
            "grad_sq": dot(g, g),
            "diff_sq": dot(change, change),
            "delta_sq": dot(way, way),
        }
        report |= {"grad_diff": dot(g, change), "grad_delta": dot(g, way), "grad_dir": dot(g, v)}
        report |= {"diff_dir": dot(change, v), "delta_dir": dot(way, v)}
        if order["method"] in ("amsfl", "amsfl-steps"):
            y = rule.step(y, after, last)
    upload = {"delta": write(minus(y, a))}
    fresh = z
    if order["method"] == "scaffold":
        fresh = [own - all_ - way / (steps * order["lr"]) for own, all_, way in zip(z, c, minus(y, a))]
        upload["extra"] = write(minus(fresh, z))
    elif order["method"] == "feddyn":
        fresh = [own - rule.option("alpha") * way for own, way in zip(z, minus(y, a))]
    held[order["run"], node] = {order["accepted"]: z, order["round"]: fresh}
    report |= {"steps": steps, "rows": ROWS, "lost_state": int(lost)}
    report |= {"step_seconds": sum(timed) / steps, "compute_seconds": time.monotonic() - started}
    echo = ConfigRecord({key: order[key] for key in ("run", "round", "client")})
    answer = {"echo": echo, "upload": ArrayRecord(upload), "report": MetricRecord(report)}
    return Message(RecordDict(answer), reply_to=message)


@app.evaluate()
def evaluate(message, context):
    order = message.content["order"]
    x = read(message.content, "model", "anchor")
    loss, _ = loss_and_gradient(context.node_config["partition-id"], x)
    echo = ConfigRecord({key: order[key] for key in ("run", "round", "client")})
    scores = MetricRecord({"loss": loss, "rows": float(ROWS)})
    return Message(RecordDict({"echo": echo, "scores": scores}), reply_to=message)
