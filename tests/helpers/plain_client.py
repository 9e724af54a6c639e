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
    "fedbuff",
    "fedcompass",
    "amsfl-paper",
    "amsfl-steps",
)
app = ClientApp()
held = {}  # this process's clients: state by node
seen = {}  # and the last model that each was sent


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
        self.way = 0.0  # the lengths of all steps

    def option(self, name):
        return self.order["option." + name]

    def direction(self, y, g):
        if self.method in ("fedprox", "fedasync"):
            mu = self.option("mu" if self.method == "fedprox" else "rho")
            return [each + mu * way for each, way in zip(g, minus(y, self.a))]
        if self.method == "scaffold":
            return [each - own + all_ for each, own, all_ in zip(g, self.z, self.c)]
        if self.method == "amsfl" and self.c:
            return [each + drift for each, drift in zip(g, minus(self.c, self.z[len(g) :]))]
        if self.method == "feddyn":
            alpha = self.option("alpha")
            return [each - own + alpha * way for each, own, way in zip(g, self.z, minus(y, self.a))]
        return g

    def length(self, y, loss, g):
        if self.method == "fedsps":
            return min(self.eta, max(0.0, loss / (self.option("c") * dot(g, g) + 1e-12)))
        if self.method == "amsfl":
            times = self.order.get("cut", 1.0) * self.option("polyak")
            return min(self.eta, max(0.0, times * loss / (dot(g, g) + 1e-20)))
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

    def open(self, node, loss, g):
        """No rate is known: a trial step finds one."""
        square = dot(g, g) + 1e-20
        trial = max(0.0, 0.02 * loss / square)
        _, after = loss_and_gradient(node, [x - trial * each for x, each in zip(self.a, g)])
        curvature = dot(minus(g, after), g) / (trial * dot(g, g) + 1e-20)
        self.eta *= min(0.5 / max(curvature, 1e-12), max(0.0, 0.25 * loss / square))
        self.lr_known = True

    def step(self, y, loss, g):
        length = self.length(y, loss, g)
        self.way += length
        return [each - length * way for each, way in zip(y, self.direction(y, g))]


def begin_state(order, node, size):
    """The state whose round the server last took, and whether it is lost; AMSFL's is two vectors."""
    kept = held.get((order["run"], node), {})
    if order["accepted"] in kept:
        return kept[order["accepted"]], False
    counts = order["method"] in ("scaffold", "feddyn") or keeps_gradient(order)
    return [0.0] * (2 * size if keeps_gradient(order) else size), counts and order["accepted"] != -1


def keeps_gradient(order):
    return order["method"] == "amsfl" and order["option.search"] != 0


def corrects(order):
    needs = ("correction", "polyak", "search", "judge")
    return order["method"] == "amsfl" and all(order["option." + name] for name in needs)


def last_step(order, node, a, v):
    """The last global step: as it was sent, or from the model before; NaN where that is lost."""
    before = seen.get((order["run"], node))
    seen[order["run"], node] = order["round"], a
    if v or not order["round"]:
        return v
    known = before is not None and before[0] == order["round"] - 1
    return minus(a, before[1]) if known else [math.nan] * len(a)


@app.train()
def train(message, context):
    started = time.monotonic()
    order, node = dict(message.content["order"]), context.node_config["partition-id"]
    known = (*PLAIN, "fedprox", "fedasync", "scaffold", "feddyn", "fedsps", "delta-sgd", "amsfl")
    if order["method"] not in known or order["transmit"]:
        raise ValueError(f"I do not know {order['method']} {order['transmit']}")
    a, c, v = (read(message.content, "model", name) for name in ("anchor", "server", "direction"))
    v = last_step(order, node, a, v)
    z, lost = begin_state(order, node, len(a))
    if order["method"] == "amsfl" and (lost or order["accepted"] != order["round"] - 1):
        c = []  # its own part of that mean is not of the round before
    rule, y, timed, steps = Rule(order, a, c, z), a, [], 0
    while steps < order["steps"]:
        mean = sum(timed[1:] or timed) / max(len(timed[1:] or timed), 1)
        if steps and sum(timed) + (1 + order["readings"]) * mean > order["time_limit"]:
            break
        began = time.monotonic()
        loss, g = loss_and_gradient(node, y)
        if not steps:
            first = loss, g
            if order["method"] == "amsfl" and not rule.lr_known:
                rule.open(node, loss, g)
        y = rule.step(y, loss, g)
        timed.append(time.monotonic() - began)
        steps += 1
    report = dict.fromkeys(
        "loss grad_sq diff_sq delta_sq grad_diff grad_delta grad_dir diff_dir delta_dir held_loss spread "
        "way_begin opening length".split(),
        0.0,
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
        report |= {"diff_dir": dot(change, v), "delta_dir": dot(way, v), "opening": rule.eta}
        report |= {"held_loss": loss, "spread": 1.0, "way_begin": 0.0}  # no rows are held back
        if keeps_gradient(order):
            before = order["round"] and order["accepted"] == order["round"] - 1
            report["way_begin"] = -dot(z[: len(a)], v) if before else math.nan
        if order["method"] in ("amsfl", "amsfl-steps"):
            y = rule.step(y, after, last)
        report["length"] = rule.way if corrects(order) else 0.0
    upload = {"delta": write(minus(y, a))}
    fresh = z
    if order["method"] == "scaffold":
        fresh = [own - all_ - way / (steps * order["lr"]) for own, all_, way in zip(z, c, minus(y, a))]
        upload["extra"] = write(minus(fresh, z))
    elif order["method"] == "feddyn":
        fresh = [own - rule.option("alpha") * way for own, way in zip(z, minus(y, a))]
    elif keeps_gradient(order) and order["readings"]:
        drift = minus(c, z[len(a) :]) if c else [0.0] * len(a)
        mean = [-way / rule.way - more if rule.way else 0.0 for way, more in zip(minus(y, a), drift)]
        fresh = first[1] + mean
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
