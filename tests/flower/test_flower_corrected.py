"""Rounds whose drift is corrected, with real clients that restart, leave, return or lie: the mean gradient
that they are corrected by stays that of the clients' own parts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from flwr.app import RecordDict

from amsfl import drift, methods, protocol
from amsfl.flower import NumpyTrainer, messages, numpy_client, serve
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.server.options import ServerOptions
from amsfl.flower.server.server import FlowerServer
from amsfl.flower.server.server_state import ServerState, load
from amsfl.flower.server.update import LONG
from amsfl.planning.planner import Decision, Planner, PlannerMemory
from amsfl.record import reopen
from amsfl.simulation import serve_config

CLIENTS, DIM = 5, 4
LOWEST = 3 * np.random.default_rng(1).normal(size=(CLIENTS, DIM)).astype(np.float32)
CURVATURE = np.linspace(0.3, 2, CLIENTS, dtype=np.float32)
BEST = (CURVATURE[:, None] * LOWEST).sum(0) / CURVATURE.sum()  # of the mean of all parabolas
START = np.zeros(DIM, np.float32)
SETTINGS: dict[str, Any] = {"clients": CLIENTS, "poll": 0.001, "patience": 20.0, "held_back": 0.0}
SETTINGS |= {"method": "amsfl", "rounds": 30, "batch": 4, "steps": 5}
RETURNED = drift.new_judge(CLIENTS)._replace(backs=(1, 3))  # from here on drift is corrected


def plan_by(weights: Any) -> Planner:
    """Five steps each, and no judge who would go back: what is corrected wrongly stays wrong."""
    memory = PlannerMemory(drift.Rate(), drift.start(0), judge=RETURNED)

    def decide(memory: Any, number: int, cohort: Any, costs: Any) -> Decision:
        return Decision(np.full(len(cohort), 5), 0.1, 1.0, {})

    return Planner(lambda: memory, decide, lambda memory, *_: memory)


def make(context: Any) -> NumpyTrainer:
    who = int(context.node_config["partition-id"])

    def gradient(x: Any, step: int, order: Any) -> Any:
        away = x - LOWEST[who]
        return float(1 + CURVATURE[who] * (away @ away) / 2), CURVATURE[who] * away

    return NumpyTrainer(10, START, gradient)


class ParabolaGrid(InProcessGrid):
    """Client i has a parabola; a test may change what happens to an order, and to its reply."""

    def __init__(self) -> None:
        super().__init__(numpy_client(make), [{"partition-id": place} for place in range(CLIENTS)])
        self.sent = list[float]()  # by round: how long the mean gradient is that was sent
        self.usual = list[float]()  # and how long clients' own gradients are there
        self.away = dict[int, range]()  # by client: the rounds in which it is not connected
        self.round = 0

    def get_node_ids(self) -> Any:
        gone = {1000 + who for who, rounds in self.away.items() if self.round in rounds}
        return [node for node in super().get_node_ids() if node not in gone]

    def answer(self, message: Any) -> Any:
        if message.metadata.message_type != "train":
            return super().answer(message)
        order, model = messages.unpack_order(message.content)
        if order.client == 0:
            slopes = CURVATURE[:, None] * (model.anchor - LOWEST)
            self.sent.append(float(np.linalg.norm(model.server)))
            self.usual.append(float(np.linalg.norm(slopes, axis=1).mean()))
        self.before(order)
        answer = super().answer(message)
        self.after(order, answer.content)
        return answer

    def before(self, order: messages.Order) -> None:
        pass

    def after(self, order: messages.Order, content: RecordDict) -> None:
        pass

    def mean_part(self) -> Any:
        """Of what clients remember as their own parts of the mean gradient."""
        held = [messages.arrays(each.state, "amsfl-state")["latest"] for each in self.contexts.values()]
        return np.mean([each[:DIM] for each in held], 0)


def mean_gradient(state: ServerState) -> Any:
    return protocol.sent_state(methods.make("amsfl"), state.server, state.anchor)


def corrected(records: Any) -> list[int]:
    return [record.round for record in records if record.plan.get("correction")]


def test_a_site_that_starts_anew_leaves_no_lasting_error() -> None:
    """It cannot be corrected in the round in which it has lost its state, so the mean is wrong by its part:
    the next round is not corrected by it, and its uploads make the mean anew."""

    class Restarting(ParabolaGrid):
        def before(self, order: messages.Order) -> None:
            if order.client == 2 and order.round == 10:
                self.contexts[1002].state = RecordDict()

    grid = Restarting()
    state, records = serve(grid, SETTINGS, start=START, plan_by=plan_by)
    assert corrected(records) == [number for number in range(2, 31) if number != 12]
    assert any("lost its state" in note for note in records[10].plan["notes"])
    np.testing.assert_allclose(mean_gradient(state), grid.mean_part(), atol=1e-4)
    np.testing.assert_allclose(state.anchor, BEST, atol=1e-2)  # it was 0.45 away


def test_a_client_that_leaves_and_returns_leaves_no_lasting_error() -> None:
    class Leaving(ParabolaGrid):
        def before(self, order: messages.Order) -> None:
            self.round = order.round

    grid = Leaving()
    grid.away = {3: range(8, 12)}
    state, records = serve(grid, SETTINGS, start=START, plan_by=plan_by)
    without = [record.round for record in records if 3 not in record.cohort]
    assert without and not {*without, without[-1] + 1} & {*corrected(records)}
    assert corrected(records)[-1] == 30
    np.testing.assert_allclose(mean_gradient(state), grid.mean_part(), atol=1e-4)
    np.testing.assert_allclose(state.anchor, BEST, atol=1e-2)


class ReturnedServer(FlowerServer):
    """The usual plans, and a judge that has gone back twice."""

    def plan_for(self, registered: Any) -> Planner:
        usual = super().plan_for(registered)
        return usual._replace(start=lambda: usual.start()._replace(judge=RETURNED))


def test_false_lengths_of_steps_do_not_move_the_mean_gradient_without_bound() -> None:
    """A ninth of the length makes the gradient that it tells of nine times as long, and the mean nearly twice
    as long in every round that is corrected by it: it was 10^7 after forty rounds."""

    class Short(ParabolaGrid):
        def after(self, order: messages.Order, content: RecordDict) -> None:
            if order.client == 4 and order.round > 3:
                report: Any = content["report"]
                report["length"] = report["length"] / 9

    grid = Short()
    config = serve_config(SETTINGS | {"rounds": 40})
    _, records = ReturnedServer(grid, config, ServerOptions(start=START)).run()
    times = np.array(grid.sent[1:]) / grid.usual[:-1]  # what clients are sent, and read in the round before
    assert times.max() <= 1.01 * LONG and len(corrected(records)) > 5


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_resumed_server_has_the_mean_gradient_and_sets_it_right(forgotten: bool, tmp_path: Path) -> None:
    """Also where sites have started anew meanwhile; the first round is not corrected, since nobody knows."""
    grid, out = ParabolaGrid(), tmp_path / "run"
    config, more = SETTINGS | {"rounds": 10}, {"start": START, "plan_by": plan_by}
    first, _ = serve(grid, config | {"out": str(out)}, **more)
    with reopen(out, "flower") as writer:
        held, _ = load(writer)
    assert held is not None
    np.testing.assert_array_equal(mean_gradient(held), mean_gradient(first))
    again = ParabolaGrid() if forgotten else grid
    state, records = serve(again, SETTINGS | {"out": str(out), "resume": True}, **more)
    assert corrected(records) == [*range(2, 11), *range(12, 31)]
    np.testing.assert_allclose(mean_gradient(state), again.mean_part(), atol=1e-4)
    np.testing.assert_allclose(state.anchor, BEST, atol=1e-2)
