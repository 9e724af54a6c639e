"""The real ClientApps and the real server over an in-process grid: numbers, faults, state, resuming."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from flwr.app import Error, Message
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode

from amsfl import data, drift, methods
from amsfl.core import UserError
from amsfl.engines import Orders, models, task
from amsfl.engines.loop_engine import LoopEngine
from amsfl.flower import NumpyTrainer, Shard, jax_client, messages, numpy_client, serve
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.server.options import ServerOptions
from amsfl.flower.server.server import FlowerServer
from amsfl.planning.planner import Decision, Planner, PlannerMemory, planner, policy_of
from amsfl.record import read_run
from amsfl.simulation import serve_config

DIGITS = data.load("digits")
PARTS = data.partition("dirichlet:0.5", DIGITS.y, 3, 0)
TASK = task.make(DIGITS, models.make("softmax", 64, 10), [PARTS], [0])
STEPS = np.array([[3, 1, 5], [2, 4, 1], [1, 3, 2], [2, 2, 2], [1, 1, 1]])
NODES = [{"partition-id": place} for place in range(3)]
QUICK: dict[str, Any] = {"patience": 20.0, "clients": 3}
QUICK |= {"poll": 0.001, "batch": 16, "seed": 0, "held_back": 0.0}


def shard(context: Any) -> Shard:
    rows = PARTS[int(context.node_config["partition-id"])]
    return Shard(DIGITS.x[rows], DIGITS.y[rows], 10, "softmax", test=DIGITS.evals["holdout"])


CLIENT = jax_client(shard)
NOTHING = PlannerMemory(drift.Rate(), drift.start(0))
RETURNED = NOTHING._replace(judge=drift.new_judge(3)._replace(backs=(1, 3)))


def fixed_table(
    lr: float | None = 0.1, table: Any = STEPS, cut: float = 1.0, memory: PlannerMemory = NOTHING
) -> Any:
    """A planner with steps of our own, different for every client and round."""

    def decide(memory: Any, number: int, cohort: Any, costs: Any) -> Decision:
        return Decision(table[number][cohort], lr, 1.0, {}, cut=cut)

    return lambda weights: Planner(lambda: memory, decide, lambda memory, *_: memory)


def loop_rounds(
    name: str,
    count: int,
    cohorts: Any = None,
    lr: float | None = 0.1,
    optimizer: str = "",
    cut: float = 1.0,
    corrects: bool = False,
) -> list[Any]:
    """Anchors after each round of the reference engine, with the same steps."""
    method, server = methods.make(name), methods.server_optimizer(optimizer)
    method = methods.optimize(method, server) if server else method
    engine = LoopEngine(TASK, method, 16, method.facts.readings)
    state, anchors = engine.start(), []
    for number in range(count):
        cohort = np.arange(3) if cohorts is None else np.array(cohorts[number])
        weights = TASK.shards.weights[:, cohort]
        orders = Orders(
            cohort[None],
            STEPS[number][cohort][None],
            np.array([lr or 1.0]),
            weights,
            float(lr is not None),
            cut,
            float(corrects and number > 0),
        )
        state, _ = engine.round(state, orders, number)
        anchors.append(state.anchor[0].copy())
    return anchors


@pytest.mark.parametrize("name", methods.METHODS.table)
def test_rounds_equal_the_loop_engine(name: str) -> None:
    """Three rounds, so that states of server and clients have come back and been used."""
    want = loop_rounds(name, 3)
    for rounds in (1, 3):
        settings = {**QUICK, "method": name, "rounds": rounds, "round_end": "all"}
        grid = InProcessGrid(CLIENT, NODES)
        state, records = serve(grid, settings, start=TASK.start()[0], plan_by=fixed_table())
        np.testing.assert_allclose(state.anchor, want[rounds - 1], rtol=2e-5, atol=2e-6)
    assert [record.steps for record in records] == STEPS[:3].tolist()
    assert all(not record.plan["refused"] for record in records)


@pytest.mark.parametrize("name", ["scaffold", "feddyn", "amsfl"])
def test_a_server_optimizer_over_a_method_with_state_equals_the_loop_engine(name: str) -> None:
    settings = {**QUICK, "method": name, "server_optimizer": "adam:0.1", "rounds": 3}
    state, _ = serve(InProcessGrid(CLIENT, NODES), settings, start=TASK.start()[0], plan_by=fixed_table())
    want = loop_rounds(name, 3, optimizer="adam:0.1")
    np.testing.assert_allclose(state.anchor, want[2], rtol=2e-4, atol=2e-6)
    assert not np.allclose(want[2], loop_rounds(name, 3)[2], atol=1e-3)


def test_a_first_round_without_a_learning_rate_equals_the_loop_engine() -> None:
    settings = {**QUICK, "method": "amsfl", "rounds": 1}
    grid = InProcessGrid(CLIENT, NODES)
    state, _ = serve(grid, settings, start=TASK.start()[0], plan_by=fixed_table(None))
    want = loop_rounds("amsfl", 1, lr=None)
    assert not np.array_equal(want[0], TASK.start()[0])
    np.testing.assert_allclose(state.anchor, want[0], rtol=2e-4, atol=2e-6)


def test_a_longer_cut_equals_the_loop_engine() -> None:
    settings = {**QUICK, "method": "amsfl", "rounds": 2}
    grid, long = InProcessGrid(CLIENT, NODES), 50.0  # a rate that the cut decides about
    state, _ = serve(grid, settings, start=TASK.start()[0], plan_by=fixed_table(long, cut=3.0))
    want, usual = (loop_rounds("amsfl", 2, lr=long, cut=cut)[1] for cut in (3.0, 1.0))
    np.testing.assert_allclose(state.anchor, want, rtol=2e-4, atol=2e-5)
    assert not np.allclose(want, usual, atol=1e-2)


def test_drift_that_is_corrected_equals_the_loop_engine() -> None:
    """After two returns of the judge the mean gradient is sent beside the model, from the second round on."""
    settings = {**QUICK, "method": "amsfl", "rounds": 4}
    table = fixed_table(0.3, memory=RETURNED)
    state, records = serve(InProcessGrid(CLIENT, NODES), settings, start=TASK.start()[0], plan_by=table)
    want, usual = (loop_rounds("amsfl", 4, lr=0.3, corrects=each)[3] for each in (True, False))
    np.testing.assert_allclose(state.anchor, want, rtol=2e-4, atol=2e-5)
    assert not np.allclose(want, usual, atol=1e-2)
    one = 4.0 * 3 * state.anchor.size
    assert [record.bytes_down for record in records] == [one, 2 * one, 2 * one, 2 * one]
    assert [record.plan.get("correction", 0) for record in records] == [0, 1, 1, 1]
    assert all(not record.plan["refused"] for record in records)


def test_clients_that_pull_apart_are_sent_a_longer_cut() -> None:
    """Three parabolas with lowest points far from each other: around their mean, uploads undo each other."""

    def pulling(context: Any) -> NumpyTrainer:
        lowest = 10 * np.eye(3, dtype=np.float32)[int(context.node_config["partition-id"])]
        return NumpyTrainer(
            10,
            np.zeros(3, np.float32),
            lambda x, step, order: (1 + ((x - lowest) ** 2).sum() / 2, x - lowest),
        )

    settings = {**QUICK, "method": "amsfl", "rounds": 20, "policy": "price"}
    _, records = serve(InProcessGrid(numpy_client(pulling), NODES), settings)
    cuts = [record.plan["cut"] for record in records]
    assert cuts[:2] == [1.0, 1.0] and cuts[-1] > 2, "in the first round there is no rate yet"
    _, records = serve(InProcessGrid(numpy_client(pulling), NODES), settings | {"robust": "median"})
    assert {record.plan["cut"] for record in records} == {1.0}, "who may lie is not believed"


def test_a_part_of_the_clients_is_drawn_as_in_simulation() -> None:
    settings = {**QUICK, "method": "scaffold", "rounds": 3, "cohort": 2}
    state, records = serve(
        InProcessGrid(CLIENT, NODES), settings, start=TASK.start()[0], plan_by=fixed_table()
    )
    draws = [np.sort(np.random.default_rng([0, n, 0xC0]).choice(3, 2, replace=False)) for n in range(3)]
    assert [record.cohort for record in records] == [draw.tolist() for draw in draws]
    np.testing.assert_allclose(state.anchor, loop_rounds("scaffold", 3, draws)[-1], rtol=2e-5, atol=2e-6)


class Tampering(InProcessGrid):
    """Node 1001's replies to training pass through `tamper(content, round)`."""

    def __init__(self, tamper: Any, *args: Any):
        super().__init__(*args)
        self.tamper = tamper

    def answer(self, message: Message) -> Message:
        reply = super().answer(message)
        if message.metadata.dst_node_id == 1001 and "echo" in reply.content:
            self.tamper(reply.content, int(message.content["order"]["round"]))
        return reply


def arrays(content: Any, **parts: Any) -> None:

    content["upload"] = messages.pack_arrays({**messages.arrays(content, "upload"), **parts})


def poison(kind: str) -> Any:
    seen: dict[int, Any] = {}

    def tamper(content: Any, number: int) -> None:
        if number == 0:
            seen[0] = dict(content)
        if number != 1:
            return
        delta = messages.arrays(content, "upload")["delta"]
        if kind == "nan":
            arrays(content, delta=np.where(np.arange(delta.size) == 7, np.nan, delta).astype(np.float32))
        elif kind == "shape":
            arrays(content, delta=delta[:-1])
        elif kind == "dtype":
            arrays(content, delta=delta.astype(np.float64))
        elif kind == "norm":
            arrays(content, delta=delta * 1000)
        elif kind == "replay":
            for key, value in seen[0].items():
                content[key] = value
        elif kind == "run":
            content["echo"]["run"] = "somebody-elses"
        elif kind == "steps":
            content["report"]["steps"] = 99
        elif kind == "missing":
            del content["upload"]
        elif kind == "reading":
            content["report"]["loss"] = float("inf")

    return tamper


REASONS = {
    "nan": "not finite: delta holds 1",
    "shape": "shape: delta is (649,)",
    "dtype": "dtype: delta is float64",
    "norm": "norm:",
    "replay": "replayed round: the reply is round 1's, this is round 2",
    "run": "foreign run",
    "steps": "wrong steps: 99 were run",
    "missing": "parts: [] came",
    "reading": "not finite: the reading",
}


@pytest.mark.parametrize("kind", REASONS)
def test_a_poisoned_reply_is_refused_and_the_round_is_that_of_the_others(kind: str) -> None:
    settings = {**QUICK, "method": "scaffold", "rounds": 3}
    grid = Tampering(poison(kind), CLIENT, NODES)
    state, records = serve(grid, settings, start=TASK.start()[0], plan_by=fixed_table())
    (refused,) = records[1].plan["refused"]
    assert refused["client"] == 1 and refused["reason"].startswith(REASONS[kind])
    assert [record.cohort for record in records] == [[0, 1, 2], [0, 2], [0, 1, 2]]
    # client 1's state must go back to round 1's: the server never took its second upload
    want = loop_rounds("scaffold", 3, [[0, 1, 2], [0, 2], [0, 1, 2]])
    np.testing.assert_allclose(state.anchor, want[-1], rtol=2e-5, atol=2e-6)
    assert state.refused == 1


def test_a_client_that_raises_is_left_out_and_comes_back() -> None:
    def failing(message: Message, context: Any) -> Message:
        if context.node_config["partition-id"] == 2 and message.content["order"]["round"] == 0:
            raise RuntimeError("the disk is full")
        return CLIENT(message, context)

    app = ClientApp()
    app.train()(failing)
    app.query()(CLIENT)
    settings = {**QUICK, "method": "fedavg", "rounds": 2}
    _, records = serve(InProcessGrid(app, NODES), settings, start=TASK.start()[0], plan_by=fixed_table())
    assert [record.cohort for record in records] == [[0, 1], [0, 1, 2]]
    assert "the disk is full" in records[0].plan["refused"][0]["reason"]


class Fading(InProcessGrid):
    """Flower misses node 1002's heartbeat at its first hello and in round 2, and answers in its place."""

    greeted = False

    def answer(self, message: Message) -> Message:
        if message.metadata.dst_node_id == 1002:
            first, self.greeted = not self.greeted, True
            if first or ("order" in message.content and message.content["order"]["round"] == 1):
                return Message(Error(ErrorCode.NODE_UNAVAILABLE, "no heartbeat"), reply_to=message)
        return super().answer(message)


def test_a_node_without_heartbeat_is_gone_not_a_stranger_and_comes_back() -> None:
    settings = {**QUICK, "method": "fedavg", "rounds": 3}
    _, records = serve(Fading(CLIENT, NODES), settings, start=TASK.start()[0], plan_by=fixed_table())
    assert [record.cohort for record in records] == [[0, 1, 2], [0, 1], [0, 1, 2]]
    told = [item for record in records for item in record.plan["refused"]]
    assert told == [{"client": 2, "reason": "gone: no heartbeat"}]


class Lagging(InProcessGrid):
    """Node 1002 sits on its message of round 1 until round 3 has been sent."""

    def pull_messages(self, message_ids: Any) -> Any:
        ids = [key for key in message_ids if key in self.posted and not self.held(self.posted[key])]
        return super().pull_messages(ids)

    def held(self, message: Message) -> bool:
        if message.metadata.dst_node_id != 1002 or "order" not in message.content:
            return False
        newest = max(int(m.content["order"]["round"]) for m in self.posted.values() if "order" in m.content)
        return bool(message.content["order"]["round"] == 0 and newest < 2)

    def push_messages(self, messages: Any) -> Any:
        time.sleep(0.002)
        return super().push_messages(messages)


def test_a_late_client_is_left_out_counted_and_comes_back_with_the_right_state() -> None:
    settings = {**QUICK, "method": "scaffold", "rounds": 5, "give_up": 5.0}
    grid = Lagging(CLIENT, NODES)
    server_settings = {**settings, "give_up": 0.3}
    state, records = serve(grid, server_settings, start=TASK.start()[0], plan_by=fixed_table())
    cohorts = [record.cohort for record in records]
    assert cohorts[0] == cohorts[1] == [0, 1] and cohorts[-1] == [0, 1, 2]
    reasons = [item["reason"] for record in records for item in record.plan["refused"]]
    assert any(reason.startswith("late: no reply within") for reason in reasons)
    assert any(reason.startswith("late reply: work for round 1") for reason in reasons)
    want = loop_rounds("scaffold", 5, cohorts)
    np.testing.assert_allclose(state.anchor, want[-1], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["amsfl", "scaffold", "feddyn"])
def test_a_killed_server_resumes_as_if_it_had_never_stopped(name: str, tmp_path: Path) -> None:
    nodes = [{**node, "state-dir": str(tmp_path / "clients")} for node in NODES]
    settings = {**QUICK, "method": name, "steps": 3}
    chosen = None if name == "amsfl" else fixed_table()

    class Killed(Exception):
        pass

    def run(out: Path, rounds: int, resume: bool, die_after: int = 99) -> Any:
        def watch(record: Any) -> None:
            if record.round == die_after:
                raise Killed

        config = serve_config({**settings, "rounds": rounds})
        grid = InProcessGrid(CLIENT, nodes)  # new contexts: Flower forgets them when a run ends
        planned = chosen or (lambda weights: steady(config, weights))
        server = FlowerServer(grid, config, ServerOptions(None, TASK.start()[0], planned, out, watch))
        return server.run(resume)

    whole, _ = run(tmp_path / "whole", 4, False)
    with pytest.raises(Killed):
        run(tmp_path / "parts", 4, False, die_after=2)
    # a half-written line, as a kill may leave it
    with (tmp_path / "parts" / "rounds.jsonl").open("a") as file:
        file.write('{"round": 3, "sec')
    parts, records = run(tmp_path / "parts", 4, True)
    np.testing.assert_array_equal(parts.anchor, whole.anchor)
    assert [record.round for record in records] == [1, 2, 3, 4]
    assert not any(record.plan["notes"] for record in records)
    assert len(read_run(tmp_path / "parts").rounds) == 4
    assert read_run(tmp_path / "parts").settings["method"] == name
    assert parts.memory.dump().keys() == whole.memory.dump().keys()


def test_a_resumed_run_may_be_longer_and_is_otherwise_the_one_that_began(tmp_path: Path) -> None:
    settings = {**QUICK, "method": "fedavg", "rounds": 2, "out": str(tmp_path / "run")}
    serve(InProcessGrid(CLIENT, NODES), settings, start=TASK.start()[0], plan_by=fixed_table())
    longer = {**settings, "rounds": 4, "resume": True}
    with pytest.raises(UserError, match="began with method 'fedavg' and cannot go on with 'scaffold'"):
        serve(InProcessGrid(CLIENT, NODES), {**longer, "method": "scaffold"})
    state, records = serve(InProcessGrid(CLIENT, NODES), longer, start=TASK.start()[0], plan_by=fixed_table())
    assert [record.round for record in records] == [1, 2, 3, 4]
    kept = read_run(tmp_path / "run")
    assert kept.settings["rounds"] == 4 and kept.manifest.changed == [{"round": 2, "rounds": [2, 4]}]
    np.testing.assert_allclose(state.anchor, loop_rounds("fedavg", 4)[-1], rtol=2e-5, atol=2e-6)


def steady(config: Any, weights: Any) -> Planner:
    """AMSFL's own planner, told the same costs every time: measured ones differ from run to run."""
    from amsfl.clock import Costs

    method = methods.make(config.method)
    inner = planner(config, method, policy_of(config, method), weights)
    costs = Costs(np.array([0.01, 0.02, 0.04]), np.full(3, 0.5))
    return inner._replace(decide=lambda memory, n, cohort, _: inner.decide(memory, n, cohort, costs))


def test_lost_client_state_is_noticed() -> None:
    settings = {**QUICK, "method": "scaffold", "rounds": 2}

    class Forgetful(InProcessGrid):
        def answer(self, message: Message) -> Message:
            reply = super().answer(message)
            context = self.contexts[message.metadata.dst_node_id]
            if message.metadata.dst_node_id == 1000:
                for key in list(context.state):
                    del context.state[key]
            return reply

    _, records = serve(Forgetful(CLIENT, NODES), settings, start=TASK.start()[0], plan_by=fixed_table())
    assert records[1].plan["notes"] == ["client 0 had lost its state and began anew"]


def test_clients_score_the_model_and_the_target_stops_the_run() -> None:
    settings = {**QUICK, "method": "amsfl", "rounds": 50, "target": 0.85, "evaluate_clients": 1}
    state, records = serve(InProcessGrid(CLIENT, NODES), settings)
    assert state.status == "finished" and state.reached is not None and state.round < 50
    assert records[-1].metrics["clients"]["accuracy"] >= 0.85
    assert records[-1].metrics["clients"]["rows"] == 3 * len(DIGITS.evals["holdout"][1])


def test_seconds_stop_the_run() -> None:
    state, _ = serve(InProcessGrid(CLIENT, NODES), {**QUICK, "method": "fedavg", "seconds": 0.5, "steps": 2})
    assert state.status == "finished" and state.elapsed >= 0.5


def test_too_few_clients_is_a_sentence() -> None:
    with pytest.raises(UserError, match="2 of 3 clients came within"):
        serve(InProcessGrid(CLIENT, NODES[:2]), {**QUICK, "method": "fedavg", "patience": 0.05})


def test_plain_numpy_takes_part() -> None:
    """A least-squares client in a few lines; FedAvg with one full-batch step is gradient descent."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(3, 20, 4)).astype(np.float32)
    targets = features @ np.array([1, -2, 3, 0.5], np.float32)

    def make(context: Any) -> NumpyTrainer:
        a, b = (part[int(context.node_config["partition-id"])] for part in (features, targets))

        def gradient(x: Any, step: int, order: Any) -> Any:
            left = a @ x - b
            return float((left**2).mean() / 2), a.T @ left / len(b)

        return NumpyTrainer(len(b), np.zeros(4, np.float32), gradient)

    table = np.ones((40, 3), int)
    settings = {**QUICK, "method": "fedavg", "rounds": 40}
    state, _ = serve(InProcessGrid(numpy_client(make), NODES), settings, plan_by=fixed_table(0.5, table))
    a, b, x = features.reshape(-1, 4), targets.reshape(-1), np.zeros(4, np.float32)
    for _ in range(40):
        x = x - 0.5 * a.T @ (a @ x - b) / len(b)
    np.testing.assert_allclose(state.anchor, x, rtol=1e-4, atol=1e-5)
    with pytest.raises(UserError, match=r"Every client failed.*changes the loss itself"):
        serve(InProcessGrid(numpy_client(make), NODES), {**settings, "method": "fedcsda"})
