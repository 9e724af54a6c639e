"""Nothing that a client sends ends a run, stalls the server or gets into a model that is not finite."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from false_kinds import kinds
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict

from amsfl import methods
from amsfl.core import UserError
from amsfl.flower import NumpyTrainer, messages, numpy_client, serve, vector_files
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.server import reply_checks, transport
from amsfl.flower.server.registration import LONGEST_REASON, short
from amsfl.flower.server.scoring import checked
from amsfl.flower.server.server_state import load
from amsfl.record import reopen

LIAR = 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 30, 6)).astype(np.float32)
TRUTH = RNG.normal(size=6).astype(np.float32)
START = np.zeros(6, np.float32)
SETTINGS: dict[str, Any] = {"clients": 5, "poll": 0.001, "patience": 30.0, "batch": 8, "steps": 4}


def make(context: Any) -> NumpyTrainer:
    """Logistic regression on rows of its own; its accuracy is the score."""
    x = X[int(context.node_config["partition-id"])]
    y = (x @ TRUTH > 0).astype(np.float32)

    def gradient(model: Any, step: int, order: Any) -> Any:
        rows = np.random.default_rng([order.seed, order.round, step]).integers(len(x), size=order.batch)
        margin = (2 * y[rows] - 1) * (x[rows] @ model)
        slope = (1 - 2 * y[rows]) / (1 + np.exp(np.clip(margin, -50, 50)))
        return float(np.logaddexp(0, -margin).mean()), x[rows].T @ slope / len(rows)

    def scores(model: Any) -> dict[str, float]:
        return {"accuracy": float(((x @ model > 0) == (y > 0)).mean()), "loss": 1.0, "rows": float(len(x))}

    return NumpyTrainer(len(x), START, gradient, scores)


class LyingGrid(InProcessGrid):
    """The last client's answers are changed; `change(kind, content)` has the records."""

    def __init__(self, change: Any, liars: tuple[int, ...] = (LIAR,)):
        super().__init__(numpy_client(make), [{"partition-id": place} for place in range(5)])
        self.change, self.liars = change, {1000 + who for who in liars}

    def answer(self, message: Any) -> Any:
        answer = super().answer(message)
        if message.metadata.dst_node_id in self.liars and not answer.has_error():
            self.change(message.metadata.message_type, answer.content)
        return answer


def accuracy(model: Any) -> float:
    return float(np.mean([((x @ model > 0) == (x @ TRUTH > 0)).mean() for x in X]))


def judge(model: Any, buffers: Any) -> dict[str, dict[str, float]]:
    return {"holdout": {"accuracy": accuracy(model), "loss": 0.1}}


# -- losses, and models that are not finite (1) ------------------------------------------------------


@pytest.mark.parametrize("loss", [1e300, 3e38, 1e30, 1e6])
def test_one_loss_ends_no_run_and_no_checkpoint(loss: float, tmp_path: Path) -> None:
    """1e300 is finite as a double and infinite as float32."""

    def change(kind: str, content: Any) -> None:
        if kind == "train" and content["echo"]["round"] == 3:
            content["report"]["loss"] = loss

    settings = {**SETTINGS, "method": "amsfl", "rounds": 12, "out": str(tmp_path / "run")}
    state, records = serve(LyingGrid(change), settings, judge)
    assert state.status == "finished" and [record.round for record in records] == list(range(1, 13))
    assert accuracy(state.anchor) > 0.9 and np.isfinite(state.anchor).all()
    refused = [item for record in records for item in record.plan["refused"]]
    assert {item["client"] for item in refused} == {LIAR}
    with reopen(tmp_path / "run", "flower") as writer:
        held, _ = load(writer)
    assert held is not None and np.isfinite(held.anchor).all() and np.isfinite(held.server).all()


def test_a_model_that_would_not_be_finite_is_made_without_its_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every check was passed: FedAdam's server squares the sum, which overflows."""
    monkeypatch.setattr(reply_checks, "oversized", lambda *arguments: {})
    monkeypatch.setattr("amsfl.flower.server.open_orders.oversized", lambda *arguments: {})

    def change(kind: str, content: Any) -> None:
        if kind == "train":
            parts = messages.arrays(content, "upload")
            content["upload"] = messages.pack_arrays(parts | {"delta": 0 * parts["delta"] + np.float32(1e30)})

    settings = {**SETTINGS, "method": "fedadam", "lr": 0.5, "rounds": 4}
    state, records = serve(LyingGrid(change, (0, LIAR)), settings, judge)
    assert state.status == "finished" and np.isfinite(state.anchor).all() and len(records) == 4
    named = {item["client"] for record in records for item in record.plan["refused"]}
    assert named == {0, LIAR}


# -- sizes (3) ---------------------------------------------------------------------------------------


def reply_of(content: RecordDict) -> transport.Arrival:
    order = messages.Order("run", 0, -1, 0, 1, 9.0, 0.1, True, 4, 0, "amsfl", {}, "", True)
    model = messages.GlobalModel(START, START[:0], START, {})
    InProcessGrid(numpy_client(make), [{"partition-id": 0}])
    asked = Message(messages.pack_order(order, model), 1000, "train")
    message = Message(content, reply_to=asked)
    return transport.Arrival(transport.SentMessage(1000, "train", order, 0.0), message, 1.0)


@pytest.mark.parametrize(
    "record",
    [
        ConfigRecord({"run": "é" * 2_000_000}),
        ConfigRecord({"run": ["x" * 100] * 100_000}),
        ConfigRecord({f"key {number}": 1 for number in range(100_000)}),
        MetricRecord({"n" * 2_000_000: 1.0}),
    ],
)
def test_a_malformed_record_is_refused_before_it_is_walked(record: Any) -> None:
    arrival = reply_of(RecordDict({"echo": record}))
    method, order = methods.make("amsfl"), arrival.sent.order
    assert order is not None
    began = time.process_time()
    job = reply_checks.OpenOrder(order, messages.GlobalModel(START, START[:0], START, {}))
    verdict = reply_checks.accept(method, job, arrival)
    assert isinstance(verdict, str) and len(verdict) < 5000 and short(verdict).isprintable()
    assert time.process_time() - began < 1.0  # milliseconds; it was seconds a megabyte


def test_a_reason_is_cut_before_it_is_made_printable() -> None:
    began = time.process_time()
    assert len(short("\x00é" * 20_000_000)) == LONGEST_REASON
    assert time.process_time() - began < 0.5


# -- scores (4) --------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [0.0, 1.0])
def test_one_client_s_scores_end_no_run(told: float) -> None:
    def change(kind: str, content: Any) -> None:
        if kind == "evaluate":
            content["scores"]["rows"] = 1e18
            content["scores"]["accuracy"] = told

    settings = {**SETTINGS, "method": "amsfl", "policy": "fixed", "rounds": 12, "evaluate_clients": 1}
    settings |= {"stop_after": 3}
    honest, _ = serve(LyingGrid(lambda kind, content: None), settings)
    state, records = serve(LyingGrid(change), settings)
    assert accuracy(state.anchor) > 0.9 and state.round >= honest.round - 3
    assert told or all(record.metrics["clients"]["accuracy"] > 0.3 for record in records)  # one of five
    aimed = {**SETTINGS, "method": "fedavg", "lr": 1e-6, "rounds": 3, "evaluate_clients": 1, "target": 0.95}
    state, _ = serve(LyingGrid(change), aimed)
    assert state.reached is None and state.round == 3


@pytest.mark.parametrize("name", ["mse", "mae", "rmse"])
def test_an_error_below_zero_makes_no_round_the_best(name: str) -> None:
    """Of two clients' scores the mean decides: -1e30 would win, and in every report be the error."""

    def change(kind: str, content: Any) -> None:
        if kind == "evaluate":
            told = -1e30 if content["echo"]["round"] == 1 else 1.0
            content["scores"].update({"mse": 1.0, "mae": 1.0, "rmse": 1.0, name: told})

    settings = {**SETTINGS, "clients": 2, "method": "fedavg", "rounds": 4, "evaluate_clients": 1}
    _, records = serve(LyingGrid(change, (1,)), {**settings, "judge_by": f"-{name}"})
    found = [record.metrics["clients"].get(name) for record in records]
    assert len(records) == 4 and min(each for each in found if each is not None) >= 0
    refused = [item["reason"] for item in records[0].plan["refused"]]
    assert any(f"{name} -1e+30 is below 0" in reason for reason in refused)


def test_scores_of_a_model_that_is_lost_are_no_mistake_of_the_server_s() -> None:
    lost = {"holdout": {"mse": float("nan"), "rmse": float("inf"), "mae": 0.0}}
    assert checked(lost) is lost
    with pytest.raises(UserError, match="below 0"):
        checked({"holdout": {"mse": -1.0}})


# -- the first model (5) -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", [np.ones(5, np.float32), np.full(6, 1e30, np.float32), np.full(6, 100, np.float32)]
)
def test_the_first_model_is_not_one_client_s_word(wrong: Any) -> None:
    def change(kind: str, content: Any) -> None:
        if kind == "query" and "model" in content:
            content["model"] = messages.pack_arrays({"anchor": wrong})

    settings = {**SETTINGS, "method": "amsfl", "rounds": 10}
    state, _ = serve(LyingGrid(change, (0,)), settings)
    assert state.anchor.size == 6 and accuracy(state.anchor) > 0.9


def test_clients_that_do_not_agree_on_a_form_are_told() -> None:
    sizes = iter([3, 4, 5, 6, 7])

    def change(kind: str, content: Any) -> None:
        if kind == "query" and "model" in content:
            content["model"] = messages.pack_arrays({"anchor": np.zeros(next(sizes), np.float32)})

    with pytest.raises(UserError, match="agree"):
        serve(LyingGrid(change, (0, 1, 2, 3, 4)), {**SETTINGS, "method": "amsfl", "rounds": 1})


# -- uploads on disk (10) ----------------------------------------------------------------------------


def test_uploads_on_disk_make_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {**SETTINGS, "method": "fednova", "lr": 0.2, "rounds": 3}
    state, _ = serve(LyingGrid(lambda kind, content: None), settings)
    for name in ("MOST", "PIECE"):
        monkeypatch.setattr(vector_files, name, 10)
    again, _ = serve(LyingGrid(lambda kind, content: None), settings)
    np.testing.assert_array_equal(state.anchor, again.anchor)


# -- all of them -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_three_thousand_false_replies_of_a_hundred_kinds() -> None:
    """Each is refused with a reason, or is an upload like any other."""
    every, method = list(kinds().values()), methods.make("amsfl")
    assert len(every) >= 100
    order = messages.Order("run", 0, -1, 0, 4, 9.0, 0.1, True, 8, 0, "amsfl", {}, "", True)
    model = messages.GlobalModel(START, START[:0], START, {})
    grid = InProcessGrid(numpy_client(make), [{"partition-id": 0}])
    asked = Message(messages.pack_order(order, model), 1000, "train")
    honest = messages.unpack_reply(grid.answer(asked).content)
    sent, refused = transport.SentMessage(1000, "train", order, 0.0), 0
    for number in range(3000):
        reply = Message(messages.pack_reply(honest), reply_to=asked)
        every[number % len(every)](reply.content)
        verdict = reply_checks.accept(
            method, reply_checks.OpenOrder(order, model), transport.Arrival(sent, reply, 5.0)
        )
        if isinstance(verdict, str):
            refused += 1
            assert 0 < len(short(verdict)) <= LONGEST_REASON
        else:
            assert np.isfinite(verdict.upload.delta).all()
            reading = verdict.reply.reading._asdict().items()
            said = [value for name, value in reading if name not in reply_checks.MAY_BE_NAN or value == value]
            assert np.isfinite(np.float32(said)).all()
    assert refused > 2000


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["amsfl", "fedavg"])
def test_a_run_with_false_replies_ends_as_an_honest_one(method: str) -> None:
    """Two of five send every kind of false reply once; three are honest."""
    every, sent = list(kinds().values()), 0

    def change(kind: str, content: Any) -> None:
        nonlocal sent
        if kind == "train":
            every[sent % len(every)](content)
            sent += 1

    settings = {**SETTINGS, "method": method, "rounds": len(every) // 2 + 1, "lr": 0.2, "eval_every": 50}
    state, records = serve(LyingGrid(change, (0, LIAR)), settings, judge)
    assert state.status == "finished" and len(records) == settings["rounds"] and sent >= len(every)
    assert all({1, 2, 3} <= {*record.cohort} for record in records)
    honest, _ = serve(LyingGrid(lambda kind, content: None, ()), settings, judge)
    assert accuracy(state.anchor) > accuracy(honest.anchor) - 0.05
    reasons = [item["reason"] for record in records for item in record.plan["refused"]]
    assert len(reasons) > 0.6 * sent and max(map(len, reasons)) <= LONGEST_REASON
