"""Sites as they are: malformed, lying, slow, failing; none of it ends a run or starves a client.

Clients are least squares in numpy over an in-process grid; where time matters, the clock is a fake one.
"""

import signal
import subprocess
import sys
import time
import zipfile
from functools import partial
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from amsfl import methods, record
from amsfl.clock.round_end import wait_for_all
from amsfl.core import UserError
from amsfl.flower import NumpyTrainer, arrays, messages, numpy_client, serve
from amsfl.flower.client import app as client_module
from amsfl.flower.client import step_loop as task_module
from amsfl.flower.deploy import certificates, leftovers
from amsfl.flower.deploy import run as deploying
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.server import clients, costs, orders, reply_checks, scoring, transport
from amsfl.flower.server import server as server_module
from amsfl.flower.server.privacy_budget import PrivacyBudget
from amsfl.planning.planner import policy_of
from amsfl.record import read_run
from amsfl.simulation import serve_config

SETTINGS: dict[str, Any] = {"method": "fedavg", "rounds": 3, "clients": 3, "steps": 2, "lr": 0.1}
SETTINGS |= {"poll": 0.001, "patience": 20.0, "clock": "makespan"}
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(5, 20, 4)).astype(np.float32)
TARGETS = FEATURES @ np.array([1, -2, 3, 0.5], np.float32) + RNG.normal(size=(5, 20)).astype(np.float32)


def nodes(count: int, **each: Any) -> list[dict[str, Any]]:
    return [{"partition-id": place, **{k: v[place] for k, v in each.items()}} for place in range(count)]


def trainer(context: Any) -> NumpyTrainer:
    a, b = (part[int(context.node_config["partition-id"])] for part in (FEATURES, TARGETS))

    def gradient(x: Any, step: int, order: Any) -> Any:
        left = a @ x - b
        return float((left**2).mean() / 2), a.T @ left / len(b)

    def evaluate(x: Any) -> dict[str, float]:
        return {"loss": float(((a @ x - b) ** 2).mean() / 2), "rows": float(len(b))}

    return NumpyTrainer(len(b), np.zeros(4, np.float32), gradient, evaluate)


CLIENT = numpy_client(trainer)


class Changed(InProcessGrid):
    """What nodes reply passes through `change(kind of message, node, content)`."""

    def __init__(self, change: Any, *args: Any):
        super().__init__(*args)
        self.change = change

    def answer(self, message: Message) -> Message:
        reply = super().answer(message)
        if reply.has_content():
            self.change(message.metadata.message_type, message.metadata.dst_node_id - 1000, reply.content)
        return reply


# -- malformed replies ---------------------------------------------------------------------------------


def claimed(shape: tuple[int, ...], data: bytes = b"") -> Array:
    """An array that says it is larger than it is."""
    head = BytesIO()
    said = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(head, said)
    return Array("float32", (4,), "numpy.ndarray", head.getvalue() + data)


def zipped() -> Array:
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("arr_0.npy", bytes(10**6))
    return Array("float32", (4,), "numpy.ndarray", file.getvalue())


def test_sizes_are_held_against_the_bytes_before_memory_is_taken() -> None:
    for part in (claimed((10**13,)), claimed((10**13, 0, 5), b"x"), claimed((-1,)), zipped()):
        with pytest.raises(ValueError):
            arrays.numbers(part.data)
    for value in (
        np.array(3, np.int64),
        np.asfortranarray(RNG.normal(size=(2, 3))),
        np.zeros((0, 7), np.int8),
    ):
        found = arrays.numbers(Array(value).data)
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value)


def test_small_arrays_travel_within_their_record_and_large_ones_by_flower_s_own_way() -> None:
    parts = {"delta": RNG.normal(size=(3, 4)), "count": np.array(7)}
    large = parts | {"rest": np.zeros(arrays.SMALL, np.int8)}
    for sent, kind in ((parts, ConfigRecord), (large, ArrayRecord)):
        record = messages.pack_arrays(sent)
        assert isinstance(record, kind)
        found = messages.arrays(RecordDict({"upload": record}), "upload")
        assert found.keys() == sent.keys()
        for name, part in sent.items():
            np.testing.assert_array_equal(found[name], part)
    for wrong in (ConfigRecord({"delta": "text"}), MetricRecord({"delta": 1.0})):
        with pytest.raises(TypeError, match="holds no arrays"):
            messages.arrays(RecordDict({"upload": wrong}), "upload")


ZIPPED, CLAIMED = zipped(), claimed((10**13,))
SCALARS = [float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 1e308, -(2**62), 2**62, 10**9, 0.5]
WORDS = ["", "x" * 10**5, "\x1b[2J\n", "0", b"\x00", [1, 2], ["a"], True]


def garbled(array: Array, rng: Any) -> Array:
    data = bytearray(array.data)
    for place in rng.integers(len(data), size=int(rng.integers(1, 6))):
        data[place] = int(rng.integers(256))
    cut = data[: int(rng.integers(len(data)))] if rng.random() < 0.2 else data
    return Array(array.dtype, array.shape, array.stype, bytes(cut))


def mutate(content: Any, rng: Any) -> None:
    """One of many small and large damages to one record of a reply."""
    name = list(content)[rng.integers(len(content))]
    record, kind = content[name], rng.integers(5)
    if kind == 0:
        del content[name]
    elif kind == 1:
        swapped = [
            ConfigRecord({"a": 1}),
            MetricRecord({"a": 1.0}),
            ArrayRecord({"delta": Array(RNG.normal(size=3))}),
        ]
        content[name] = swapped[rng.integers(3)]
    elif name == "upload":
        parts: dict[str, Any] = {key: Array(part) for key, part in messages.arrays(content, name).items()}
        key = [*parts, "more"][rng.integers(len(parts) + 1)]
        old = parts.get(key, Array(np.ones(4, np.float32)))
        values = [1e30, np.nan, 1e3, -1.0]
        other = Array(
            (values[rng.integers(4)] * np.ones(4)).astype(["f4", "f8", "i8", "f2"][rng.integers(4)])
        )
        parts[key] = [garbled(old, rng), ZIPPED, CLAIMED, other][rng.integers(4)]
        inside = ConfigRecord({key: part.data for key, part in parts.items()})
        content[name] = ArrayRecord(parts) if rng.random() < 0.5 else inside
    elif isinstance(record, MetricRecord):
        key = list(record)[rng.integers(len(record))]
        record[key] = SCALARS[rng.integers(len(SCALARS))]
    else:
        key = list(record)[rng.integers(len(record))]
        record[key] = WORDS[rng.integers(len(WORDS))] if kind < 4 else SCALARS[rng.integers(len(SCALARS))]


@pytest.mark.filterwarnings("ignore")
def test_two_thousand_mutated_replies_are_refused_with_a_reason_or_harmless() -> None:
    rng, grid, method = np.random.default_rng(7), InProcessGrid(CLIENT, nodes(1)), methods.make("amsfl")
    order = messages.Order("run", 0, -1, 0, 1, 9.0, 0.1, True, 4, 0, "amsfl", {}, "", True)
    zero = np.zeros(4, np.float32)
    model = messages.GlobalModel(zero, zero[:0], zero, {})
    refused, measured = 0, costs.start(1)
    asked = Message(messages.pack_order(order, model), 1000, "train")
    honest = messages.unpack_reply(grid.answer(asked).content)
    for _ in range(2000):
        reply = Message(messages.pack_reply(honest), reply_to=asked)
        mutate(reply.content, rng)
        arrival = transport.Arrival(transport.SentMessage(1000, "train", order, 0.0), reply, 5.0)
        verdict = reply_checks.accept(method, reply_checks.OpenOrder(order, model), arrival)
        measured = costs.learn_late(measured, arrival, 0.2)  # the same reply after its round
        if isinstance(verdict, str):
            refused += 1
        else:
            assert np.isfinite(verdict.upload.delta).all() and verdict.reply.reading.loss >= 0
    assert 1000 < refused < 2000
    assert min(measured.step[0]) >= 0 and max(measured.step[0] + measured.rest[0]) <= 5


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["fedavg", "amsfl"])
def test_damaged_replies_do_not_end_the_run(method: str) -> None:
    """Two of five clients send damaged replies to every order."""
    rng, count = np.random.default_rng(11), 0

    def change(kind: str, node: int, content: Any) -> None:
        nonlocal count
        if kind == "train" and node >= 3:
            mutate(content, rng)
            count += 1

    settings = {**SETTINGS, "method": method, "clients": 5, "rounds": 30}
    state, records = serve(Changed(change, CLIENT, nodes(5)), settings)
    assert state.status == "finished" and len(records) == 30 and count == 60
    assert all({0, 1, 2} <= set(record.cohort) for record in records)
    assert np.isfinite(state.anchor).all() and np.abs(state.anchor).max() < 100
    refused = [item["reason"] for record in records for item in record.plan["refused"]]
    assert len(refused) > 20 and max(map(len, refused)) <= 300 and all(map(str.isprintable, refused))
    if method == "amsfl":
        assert 0 < state.memory.rate.lr < 100  # honest clients alone find some 3


@pytest.mark.filterwarnings("ignore")
def test_hellos_and_scores_may_be_anything() -> None:
    rng, damaged = np.random.default_rng(5), 0

    def change(kind: str, node: int, content: Any) -> None:
        nonlocal damaged
        if node == 3 and kind in ("query", "evaluate"):
            mutate(content, rng)
            damaged += 1

    for _ in range(15):  # the fourth may get a seat or not; the run needs three
        settings = {**SETTINGS, "rounds": 2, "evaluate_clients": 1}
        state, _ = serve(Changed(change, CLIENT, nodes(4)), settings)
        assert state.status == "finished"
    assert damaged >= 15


def test_a_hello_with_infinite_rows_has_no_seat() -> None:
    def change(kind: str, node: int, content: Any) -> None:
        if kind == "query" and node == 2:
            content["hello"]["rows"] = float("inf")

    with pytest.raises(UserError, match="2 of 3 clients came"):
        serve(Changed(change, CLIENT, nodes(3)), {**SETTINGS, "patience": 0.05})


# -- lies ----------------------------------------------------------------------------------------------


def lying(record: str, key: str, value: Any, kind: str = "train") -> Any:
    def change(asked: str, node: int, content: Any) -> None:
        if asked == kind and node == 2:
            content[record][key] = value

    return change


def test_a_loss_below_zero_is_refused_where_step_lengths_come_from_losses() -> None:
    settings = {**SETTINGS, "method": "amsfl", "clients": 5, "rounds": 4}
    state, records = serve(Changed(lying("report", "loss", -100.0), CLIENT, nodes(5)), settings)
    assert state.memory.rate.lr > 0
    assert [record.cohort for record in records] == [[0, 1, 3, 4]] * 4
    assert all("loss: -100 is below zero" in record.plan["refused"][0]["reason"] for record in records)


def test_a_gaussian_likelihood_below_zero_is_said_to_be_unsupported() -> None:
    def make(context: Any) -> NumpyTrainer:
        return NumpyTrainer(9, np.ones(2, np.float32), lambda x, step, order: (-3.0, x))

    with pytest.raises(UserError, match=r"The loss is -3; amsfl .* add a constant"):
        serve(InProcessGrid(numpy_client(make), nodes(3)), {**SETTINGS, "method": "amsfl", "patience": 0.05})
    serve(InProcessGrid(numpy_client(make), nodes(3)), SETTINGS)  # a method with an lr does not mind


def test_claimed_seconds_are_held_against_the_servers_clock() -> None:
    grid = Changed(lying("report", "step_seconds", 1e9), CLIENT, nodes(3))
    state, records = serve(grid, {**SETTINGS, "method": "amsfl"})
    longest = max(max(record.plan["client_seconds"]) for record in records)
    assert max(state.measured.step[2]) <= longest
    assert all(record.predicted_seconds < 60 for record in records)


def test_claimed_rows_weigh_at_most_a_hundred_times_the_others() -> None:
    grid = Changed(lying("hello", "rows", 10**12, "query"), CLIENT, nodes(3))
    state, records = serve(grid, SETTINGS)
    np.testing.assert_allclose(clients.weights(state.clients), np.array([1, 1, 100]) / 102)
    assert "client 2 says it has 1000000000000 rows" in records[0].plan["notes"][0]


def test_deadlines_have_an_upper_bound() -> None:
    config, method = serve_config(SETTINGS), methods.make("fedavg")
    budget = PrivacyBudget(config, policy_of(config, method), None)
    writer = orders.OrderWriter(config, method, budget, wait_for_all())
    assert writer.deadline(1e9) == 86400 and writer.deadline(1.0) == 30 and writer.deadline(None) == 300


def test_who_always_answers_just_in_time_makes_deadlines_longer_within_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two others take some seconds. Without the bound deadlines come to a day."""
    deadlines = list[float]()

    class Dawdling(Clocked):
        def answer(self, message: Message) -> Message:
            if "order" in message.content and message.metadata.dst_node_id == 1002:
                deadlines.append((message.metadata.ttl - 60) / 4)
                self.local += 0.9 * deadlines[-1]
            return super().answer(message)

    settings = {**SETTINGS, "rounds": 20, "poll": 5.0, "patience": 1e6, "give_up": ""}
    _, records = serve(Dawdling(monkeypatch, CLIENT, nodes(3)), settings)
    assert [record.cohort for record in records] == [[0, 1, 2]] * 20
    others = max(max(record.plan["client_seconds"][:2]) for record in records)
    assert max(deadlines[1:]) <= orders.TIMES * clients.MOST * others


# -- the bound on what moves the model -----------------------------------------------------------------


def test_by_the_bound_one_step_and_sixty_four_are_both_honest() -> None:
    """Walks of t steps of length lr: straight on t, at random sqrt(t), back and forth 1. None jumps."""
    lr = 0.1
    walks = [(t, length) for t in (1, 8, 64) for length in (1.0, t**0.5, float(t))]
    sizes = [reply_checks.size(np.array([lr * length]), lr, t) for t, length in walks]
    assert max(sizes) / min(sizes) == pytest.approx(64)  # the worst pair: one walks in circles, one straight
    single = reply_checks.size(np.array([lr]), lr, 1)
    assert all(reply_checks.too_large(single, size, 10) is None for size in sizes)
    assert reply_checks.usual([], [1.0, 99.0]) == 1 and reply_checks.usual([], [5.0]) == 0
    assert reply_checks.usual([[2.0], [3.0, 0.1]], [99.0, 1.0, 1.0]) == 3


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_wild_delta_is_refused_in_the_first_round(count: int) -> None:
    def change(kind: str, node: int, content: Any) -> None:
        if kind == "train" and node == 1:
            delta = messages.arrays(content, "upload")["delta"]
            content["upload"] = messages.pack_arrays({"delta": delta * np.float32(1e6), "extra": delta[:0]})

    state, records = serve(Changed(change, CLIENT, nodes(count)), {**SETTINGS, "clients": count})
    assert all(1 not in record.cohort for record in records)
    assert records[0].plan["refused"][0]["reason"].endswith("(delta)")
    assert np.abs(state.anchor).max() < 10


@pytest.mark.parametrize("name", ["mean", "count"])
def test_wild_buffers_are_refused_in_the_first_round(name: str) -> None:
    """Running statistics of 1e30, and a counter of 2^60, from one of two clients."""

    class Buffered(NumpyTrainer):
        def start(self, seed: int) -> Any:
            return np.zeros(4, np.float32), {"mean": np.ones(2, np.float32), "count": np.array(0, np.int64)}

        def buffers(self) -> Any:
            return {"mean": np.full(2, 1.5, np.float32), "count": np.array(2, np.int64)}

    def make(context: Any) -> NumpyTrainer:
        plain = trainer(context)
        return Buffered(plain.rows, np.zeros(4, np.float32), plain._gradient)

    wild = {"mean": np.full(2, 1e30, np.float32), "count": np.array(2**60, np.int64)}

    def change(kind: str, node: int, content: Any) -> None:
        if kind == "train" and node == 1:
            content["buffers"] = messages.pack_arrays(
                {**messages.arrays(content, "buffers"), name: wild[name]}
            )

    state, records = serve(Changed(change, numpy_client(make), nodes(2)), {**SETTINGS, "clients": 2})
    assert [record.cohort for record in records] == [[0]] * 3
    assert state.buffers["mean"].tolist() == [1.5, 1.5] and int(state.buffers["count"]) == 2


# -- time ----------------------------------------------------------------------------------------------


class Clocked(InProcessGrid):
    """Nodes work side by side on a clock of our own: a reply is there when its work would have ended."""

    START = 3.0  # seconds from an order to the first step

    def __init__(self, monkeypatch: Any, *args: Any):
        super().__init__(*args)
        self.now, self.local, self.done = 0.0, 0.0, dict[str, tuple[float, Message]]()
        theirs = SimpleNamespace(monotonic=lambda: self.local, sleep=partial(self.wait, "local"))
        monkeypatch.setattr(task_module, "time", theirs)
        monkeypatch.setattr(client_module, "time", theirs)
        ours = partial(transport.Transport, now=lambda: self.now, sleep=partial(self.wait, "now"))
        monkeypatch.setattr(server_module, "Transport", ours)

    def wait(self, which: str, seconds: float) -> None:
        setattr(self, which, getattr(self, which) + seconds)

    def push_messages(self, messages: Any) -> Any:
        ids = list(super().push_messages(messages))
        for key in ids:
            self.local = self.now + self.START
            reply = self.answer(self.posted.pop(key))
            self.done[key] = self.local, reply
        return ids

    def pull_messages(self, message_ids: Any) -> Any:
        due = [key for key in message_ids if key in self.done and self.done[key][0] <= self.now]
        return [self.done.pop(key)[1] for key in due]


SLOW = {"slowdown": [1.0, 1.0, 40.0], "step-seconds": [0.1] * 3}
UNEQUAL = {**SETTINGS, "method": "amsfl", "rounds": 6, "give_up": 45.0, "poll": 0.2, "patience": 600.0}
UNEQUAL["batch"] = 1  # three passes over the rows are no bound here


def test_a_client_forty_times_slower_is_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 4 s, a deadline of 45 s: every round is planned, the first by a step and an empty exchange."""
    grid = Clocked(monkeypatch, CLIENT, nodes(3, **SLOW))
    _, records = serve(grid, UNEQUAL)
    assert [record.cohort for record in records] == [[0, 1, 2]] * 6
    assert all(record.round_seconds["makespan"] < 45 for record in records)
    assert all(4 * record.steps[2] <= 0.8 * 45 for record in records)
    for each in records:
        assert each.round_seconds["makespan"] == pytest.approx(each.predicted_seconds, rel=0.35)


def test_the_first_round_knows_how_long_steps_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody measures a step when it comes, or brings what it knows; nobody is asked for a guess of 25."""
    found = {}
    for kind, more in {"measured": {}, "known": {"known-step-seconds": [0.1, 0.1, 4.0]}}.items():
        state, (record,) = serve(
            Clocked(monkeypatch, CLIENT, nodes(3, **SLOW, **more)), {**UNEQUAL, "rounds": 1}
        )
        found[kind] = record.plan["predicted_client_seconds"]
        assert record.steps[2] < record.steps[0] and 4 * record.steps[2] <= 0.8 * 45
        assert record.cohort == [0, 1, 2] and len(state.measured.step[2]) == 2
    assert found["measured"] == pytest.approx(found["known"], rel=0.2)


def test_a_run_s_seconds_are_those_that_rounds_took(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A site whose steps last longer than it may work does one step, whatever was planned for it: a run that
    has so many seconds must not be cooled as if the planned ones were over."""
    (tmp_path / "site.toml").write_text("most_seconds = 1.0")
    policy = {"policy": [str(tmp_path / "site.toml")] * 3}
    grid = Clocked(monkeypatch, CLIENT, nodes(3, **SLOW, **policy))
    state, records = serve(grid, {**UNEQUAL, "give_up": "", "seconds": 500})
    took = sum(record.round_seconds["makespan"] for record in records)
    assert {record.steps[2] for record in records} == {1}
    assert sum(record.predicted_seconds for record in records) > 1.01 * took
    assert state.memory.reported.spent == pytest.approx(took)


def test_a_late_reply_teaches_what_its_client_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does all it is asked for, however long it takes, is late once and then never."""

    class Stubborn(Clocked):
        def answer(self, message: Message) -> Message:
            if "order" in message.content:
                message.content["order"]["time_limit"] = 1e9
            elif "ask" in message.content:
                message.content["ask"]["probe"] = False  # nor does it say how slow it is
            return super().answer(message)

    _, records = serve(Stubborn(monkeypatch, CLIENT, nodes(3, **SLOW)), {**UNEQUAL, "rounds": 25})
    missing = [record.round for record in records if 2 not in record.cohort]
    assert missing and missing == list(range(1, 1 + len(missing)))
    told = [item["reason"] for record in records for item in record.plan["refused"] if item["client"] == 2]
    assert sum(reason.startswith("late: ") for reason in told) == 1
    assert sum(reason.startswith("late reply: work for round 1") for reason in told) == 1


def test_a_quorum_ends_a_round_and_the_rest_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = {"slowdown": [1.0, 1.0, 100.0], "step-seconds": [0.1] * 3}
    quorum = {"round_end": "quorum:0.6", "late": "drop"}
    settings = {**UNEQUAL, "method": "fedavg", "steps": 2, "rounds": 2, **quorum}
    _, records = serve(Clocked(monkeypatch, CLIENT, nodes(3, **slow)), settings)
    assert [record.cohort for record in records] == [[0, 1]] * 2
    assert all(record.round_seconds["makespan"] < 5 for record in records)


def test_scoring_takes_as_long_as_it_was_seen_to_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scoring takes 50 s, more than the 30 s that were once waited: nobody is lost for the next round."""

    class Thorough(Clocked):
        def answer(self, message: Message) -> Message:
            if message.metadata.message_type == "evaluate":
                self.local += 50.0
            return super().answer(message)

    settings = {**UNEQUAL, "method": "fedavg", "evaluate_clients": 1, "rounds": 3, "give_up": ""}
    state, records = serve(Thorough(monkeypatch, CLIENT, nodes(3)), settings)
    assert [record.cohort for record in records] == [[0, 1, 2]] * 3
    assert all(record.metrics["clients"]["rows"] == 60 for record in records)
    assert all(53 <= seconds < 54 for past in state.measured.score for seconds in past)


def test_the_next_orders_are_out_before_this_round_s_scores_are_in() -> None:
    """Unless scores may end the run: the same rounds and models either way."""

    class Watched(InProcessGrid):
        def push_messages(self, messages: Any) -> Any:
            each = list(messages)
            happened.extend({message.metadata.message_type for message in each} - {"query"})
            return super().push_messages(each)

    def judged(x: Any, buffers: Any) -> Any:
        happened.append("judged")
        return {"holdout": {"loss": float((x**2).sum())}}

    settings = {**SETTINGS, "evaluate_clients": 1, "rounds": 3}
    found = []
    for more in ({}, {"stop_after": 100}):
        happened = list[str]()
        found.append((serve(Watched(CLIENT, nodes(3)), settings | more, judged), happened))
    (ahead, early), (plain, late_) = found
    assert early == [*["train", "evaluate"], *["train", "judged", "evaluate"] * 2, "judged"]
    assert late_ == ["train", "evaluate", "judged"] * 3
    np.testing.assert_array_equal(ahead[0].anchor, plain[0].anchor)
    assert [each.metrics for each in ahead[1]] == [each.metrics for each in plain[1]]
    assert [each.cohort for each in ahead[1]] == [[0, 1, 2]] * 3 and not ahead[0].refused


# -- errors, names, scores -----------------------------------------------------------------------------


def test_a_round_s_line_has_the_clients_names_and_missing_test_rows_are_noted(capsys: Any) -> None:
    def untested(context: Any) -> NumpyTrainer:
        whole = trainer(context)
        return NumpyTrainer(whole.rows, np.zeros(4, np.float32), lambda *at: whole._gradient(*at))

    sites = [{"client": "Köln Nord", "partition-id": 0}, {"client": "St. Anna", "partition-id": 1}]
    settings = {**SETTINGS, "method": "fedavg", "clients": 2, "rounds": 1, "steps": 3, "evaluate_clients": 1}
    _, records = serve(InProcessGrid(numpy_client(untested), sites), settings)
    assert "steps Köln Nord:3 St. Anna:3  took" in capsys.readouterr().out
    assert any("no client has test rows" in note for note in records[0].plan["notes"])


def test_a_clients_error_is_said_at_once_and_on_record(capfd: Any, tmp_path: Path) -> None:
    def broken(context: Any) -> NumpyTrainer:
        plain = trainer(context)

        def gradient(x: Any, step: int, order: Any) -> Any:
            raise RuntimeError("the disk\nis full")

        return NumpyTrainer(plain.rows, np.zeros(4, np.float32), gradient)

    out = tmp_path / "run"
    named = [{"partition-id": 0}, {"partition-id": 1}]
    with pytest.raises(UserError, match="the disk is full"):
        serve(
            InProcessGrid(numpy_client(broken), named),
            {**SETTINGS, "clients": 2, "patience": 600.0, "out": str(out)},
        )
    said = capfd.readouterr()
    assert "  refused client 0: failed: RuntimeError: the disk is full" in said.out
    assert 'raise RuntimeError("the disk\\nis full")' in said.err and said.err.count("Traceback") == 1
    lines = (out / "refused.jsonl").read_text().splitlines()
    assert len(lines) == 2 and '"name": "1"' in lines[1].replace('":"', '": "')
    assert read_run(out).summary.status == "abandoned"


class Joined(InProcessGrid):
    """One more node comes in round 2 and says that it is client 0; node 1000 may leave with it."""

    leaves = False

    def get_node_ids(self) -> Any:
        late = [node for node in self.contexts if node >= 1003]
        here = [node for node in self.contexts if node < 1003]
        rounds = self.rounds
        return [node for node in here if not (self.tensors and node == 1000 and rounds >= 2)] + (
            late if rounds else []
        )

    rounds = 0

    def push_messages(self, messages: Any) -> Any:
        todo = list(messages)
        self.rounds += any("order" in message.content for message in todo)
        return super().push_messages(todo)


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("keyed", [False, True])
def test_a_name_belongs_to_who_said_it_first(leaves: bool, keyed: bool) -> None:
    grid = Joined(CLIENT, [*nodes(3), {"partition-id": 0}])
    grid.tensors = leaves
    state, records = serve(grid, {**SETTINGS, "rounds": 6, "keyed": keyed})
    taken = leaves and not keyed
    assert state.clients[0].node == (1003 if taken else 1000)
    reasons = [item["reason"] for record in records for item in record.plan["refused"]]
    assert any(reason.startswith("node 1003: the name '0' is node 1000's") for reason in reasons)
    assert records[-1].cohort == ([0, 1, 2] if taken or not leaves else [1, 2])


def test_scores_outside_their_range_are_errors() -> None:
    grid = Changed(lying("scores", "accuracy", 15.7, "evaluate"), CLIENT, nodes(3))
    _, records = serve(grid, {**SETTINGS, "evaluate_clients": 1})
    assert records[0].metrics["clients"]["rows"] == 40
    reasons = [item["reason"] for record in records for item in record.plan["refused"]]
    assert reasons[0] == "no score: accuracy 15.7 does not lie between 0 and 1"
    good = {"holdout": {"accuracy": 0.9, "recall": [0.5, 1.0], "macro_f1": 1.0}}
    assert scoring.checked(good) == good
    with pytest.raises(UserError, match=r"evaluate gave accuracy 15.7 .*\(holdout\)"):
        serve(InProcessGrid(CLIENT, nodes(3)), SETTINGS, lambda *_: {"holdout": {"accuracy": 15.7}})


# -- sites' own files ----------------------------------------------------------------------------------


def test_keys_are_never_written_over_and_good_for_this_machine(tmp_path: Path) -> None:
    """The page's command names one host; Flower's SuperExec connects to 127.0.0.1 all the same."""
    from cryptography import x509

    keys = certificates.make(tmp_path / "keys", 2, ["superlink.example.org"])
    certificate = x509.load_pem_x509_certificate(keys.certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["superlink.example.org", "localhost"]
    assert [str(found) for found in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    before = {path: path.read_bytes() for path in (tmp_path / "keys").iterdir()}
    with pytest.raises(UserError, match="is there already"):
        certificates.make(tmp_path / "keys", 3)
    with pytest.raises(UserError, match="is there already"):
        certificates.node_key(keys.nodes[0])
    assert {path: path.read_bytes() for path in (tmp_path / "keys").iterdir()} == before


def test_client_state_is_its_owners_alone_and_stays_in_its_folder(tmp_path: Path) -> None:
    where = tmp_path / "state"
    settings = {**SETTINGS, "method": "scaffold"}
    serve(InProcessGrid(CLIENT, [{**node, "state-dir": str(where)} for node in nodes(3)]), settings)
    files = list(where.iterdir())
    assert sum(path.suffix == ".safetensors" for path in files) == 3
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
    grid = InProcessGrid(CLIENT, [{"partition-id": 0, "state-dir": str(where)}])
    order = messages.Order("../../away", 0, -1, 0, 1, 9.0, 0.1, True, 4, 0, "scaffold", {}, "", False)
    zero = np.zeros(4, np.float32)
    reply = grid.answer(
        Message(messages.pack_order(order, messages.GlobalModel(zero, zero, zero[:0], {})), 1000, "train")
    )
    assert reply.has_error() and "cannot name a folder" in reply.error.reason
    assert not list(tmp_path.parent.glob("away*"))


def test_what_a_killed_deployment_left_is_ended_by_its_own_ids(tmp_path: Path) -> None:
    """A process with a child is in the book; so is an id that by now belongs to somebody else."""
    sleep = "import time; time.sleep(99)"
    code = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', '{sleep}']).wait()"
    left = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    other = subprocess.Popen([sys.executable, "-c", sleep])
    try:
        book, until = tmp_path / "book.json", time.monotonic() + 30
        leftovers.note(book, {"superlink": left.pid, "node": other.pid})
        while not leftovers.descendants(left.pid) and time.monotonic() < until:
            time.sleep(0.01)
        (child,) = leftovers.descendants(left.pid)
        held = record.read_sealed(book, "")
        held["node"][1] += 1  # began at another time: not the process that was written down
        record.write_sealed(book, held)
        assert leftovers.end(book) == ["superlink"] and not book.exists()
        assert left.wait(30) == -signal.SIGKILL and other.poll() is None
        while leftovers.began(child) and time.monotonic() < until:
            time.sleep(0.01)
        state = Path(f"/proc/{child}/stat")
        assert not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z"
        assert leftovers.end(book) == []
    finally:
        for process in (left, other):
            process.kill()
            process.wait()


def test_what_clients_were_refused_for_is_no_failure_of_the_run() -> None:
    refused = "  refused client 2: failed: UserError: The loss was nan; ERROR : lower the learning rate.\n"
    assert deploying.complaint(f"round 1  took 1 s\n{refused}round 2  took 1 s\n", False) is None
    ours = "amsfl.core.errors.UserError: Every client failed (failed: UserError: no batch); mend it.\n"
    assert deploying.complaint(refused + ours, False) == (
        "Every client failed (failed: UserError: no batch); mend it."
    )
    for text, code in (("ERROR :     it fell over\n", False), ("nothing more\n", True)):
        assert str(deploying.complaint(refused + text, code)).startswith("The run failed")


def test_one_deployment_a_folder(tmp_path: Path) -> None:
    with record.Lock(tmp_path, deploying.LOCK), pytest.raises(UserError, match="is being written by"):
        deploying.deploy({"data": "digits", "clients": 2}, tmp_path)


def test_force_replaces_a_finished_run(tmp_path: Path) -> None:
    settings = {**SETTINGS, "out": str(tmp_path / "run")}
    serve(InProcessGrid(CLIENT, nodes(3)), settings)
    with pytest.raises(UserError, match="holds"):
        serve(InProcessGrid(CLIENT, nodes(3)), {**settings, "rounds": 1})
    serve(InProcessGrid(CLIENT, nodes(3)), {**settings, "rounds": 1, "force": True})
    assert len(read_run(tmp_path / "run").rounds) == 1


# -- PyTorch -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["classes", "binary", "regression", "pixels"])
def test_scores_follow_the_task(task: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'amsfl[torch]'")
    from amsfl.flower.scores import ScoreSums

    tally = ScoreSums()
    if task == "classes":
        outputs, targets = torch.tensor([[3.0, 1.0], [0.0, 2.0], [5.0, 1.0]]), torch.tensor([0, 1, 1])
        want = {"accuracy": 2 / 3}
    elif task == "binary":  # one logit a row, a column of targets: 15.7 was a broadcast
        outputs, targets = (
            torch.tensor([[2.0], [-1.0], [0.5], [-3.0]]),
            torch.tensor([[1.0], [0.0], [0.0], [0.0]]),
        )
        want = {"accuracy": 3 / 4}
    elif task == "regression":
        outputs, targets = torch.tensor([[1.0], [2.0]]), torch.tensor([3.0, 2.0])
        want = {"mse": 2.0, "mae": 1.0}
    else:
        outputs, targets = torch.zeros(2, 3, 4, 4), torch.zeros(2, 4, 4, dtype=torch.long)
        outputs[:, 1, :2], want = 1.0, {"accuracy": 0.5}
    tally.add(outputs, targets)
    assert tally.scores() == pytest.approx(want) and tally.rows == len(targets)
    with pytest.raises(UserError, match="have no score"):
        tally.add(torch.zeros(4, 3), torch.zeros(4, 2))


@pytest.mark.parametrize("kind", ["torch", "numpy"])
def test_a_client_imports_no_more_than_what_trains(kind: str) -> None:
    """Flower starts a process a message: jax where torch trains would be seconds of every round."""
    if kind == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'amsfl[torch]'")
        make = """import torch
rows = torch.utils.data.TensorDataset(torch.ones(4, 2), torch.ones(4, dtype=torch.long))
app = torch_client(lambda: torch.nn.Linear(2, 2), lambda context: torch.utils.data.DataLoader(rows))"""
    else:
        make = """start, gradient = np.ones(2, np.float32), lambda x, step, order: (1.0, x)
app = numpy_client(lambda context: NumpyTrainer(4, start, gradient))"""
    code = f"""
import sys
import numpy as np
from flwr.app import Message
from amsfl.flower import NumpyTrainer, messages, numpy_client, torch_client
from amsfl.flower.in_process import InProcessGrid
{make}
grid = InProcessGrid(app, [{{"partition-id": 0}}])
zero = np.zeros({6 if kind == "torch" else 2}, np.float32)
order = messages.Order("run", 0, -1, 0, 2, 9.0, 0.1, True, 4, 0, "amsfl", {{}}, "", True)
content = messages.pack_order(order, messages.GlobalModel(zero, zero, zero, {{}}))
reply = grid.answer(Message(content, 1000, "train"))
assert not reply.has_error(), reply.error
print(*[name for name in ("jax", "torch", "sklearn", "pandas", "matplotlib") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == (["torch"] if kind == "torch" else [])


def test_batches_may_be_dictionaries() -> None:
    """The same rows as pairs and as dictionaries give the same model; without batch_loss it is a sentence."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'amsfl[torch]'")
    from amsfl.flower import torch_client

    x, y = torch.from_numpy(FEATURES), (torch.from_numpy(TARGETS) > 0).long()

    def loader(context: Any) -> Any:
        part = context.node_config["partition-id"]
        rows = [{"x": a, "more": {"y": b}} for a, b in zip(x[part], y[part], strict=True)]
        pairs = torch.utils.data.TensorDataset(x[part], y[part])
        return torch.utils.data.DataLoader(rows if context.node_config["kind"] else pairs, batch_size=8)

    def batch_loss(module: Any, batch: Any) -> Any:
        return torch.nn.functional.cross_entropy(module(batch["x"]), batch["more"]["y"])

    def model() -> Any:
        return torch.nn.Linear(4, 2)

    def end(kind: int, **settings: Any) -> Any:
        app = torch_client(model, loader, test_loader=loader, **settings)
        asked = {**SETTINGS, "evaluate_clients": 1, "patience": 0.05 if kind and not settings else 20.0}
        return serve(InProcessGrid(app, nodes(3, kind=[kind] * 3)), asked)

    (pairs, first), (dictionaries, second) = end(0), end(1, batch_loss=batch_loss)
    np.testing.assert_array_equal(pairs.anchor, dictionaries.anchor)
    scores = first[-1].metrics["clients"], second[-1].metrics["clients"]
    assert scores[0]["loss"] == scores[1]["loss"] and scores[1]["rows"] == 60 and "accuracy" not in scores[1]
    with pytest.raises(UserError, match="A batch is a dict"):
        end(1)
