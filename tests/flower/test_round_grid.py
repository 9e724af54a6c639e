"""When rounds end on real nodes, for any Strategy, and what becomes of late work and of nodes that go."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from flwr.serverapp.strategy import FedAvg
from virtual_grid import PLAIN, VirtualGrid, arrays_of, steps_of, stock_app

from amsfl.clock import round_end
from amsfl.flower import AMSFL, RoundGrid


def one_more(node: int, x: Any, config: dict[str, Any]) -> Any:
    return np.ones(1)


ONE = {"min_train_nodes": 1, "min_available_nodes": 1, "min_evaluate_nodes": 1}


def run(seconds: Any, rounds: int = 4, nodes: int = 3, strategy: Any = None, **grid: Any) -> Any:
    def work(i: int, message: Any) -> float:
        return float(seconds[i] if message.metadata.message_type == "train" else 0.001)

    virtual = VirtualGrid(stock_app(one_more), nodes, work)
    strategy = strategy or AMSFL(steps=1, **ONE, **PLAIN)
    began = virtual.now()
    result = strategy.start(RoundGrid(virtual, poll=0.01, **grid), arrays_of(np.zeros(1)), num_rounds=rounds)
    return virtual.now() - began, strategy, result


def test_a_quorum_does_not_wait_for_one_that_stalls() -> None:
    took, strategy, result = run([1.0, 1.2, 60.0], rounds=10, quorum=2)
    assert took < 20 and all(each["nodes"] for each in strategy.log)
    assert 2 in result.evaluate_metrics_clientapp  # who is free is asked for scores


def test_late_work_counts_less_and_from_where_the_server_is() -> None:
    """Node 2 needs three rounds of the others: its change of 1 then counts 1/sqrt(1 + age)."""
    _, strategy, result = run([1.0, 1.0, 2.5], rounds=3, quorum=2)
    ages = [each["age"] for each in strategy.log]
    assert ages == [[0, 0], [0, 0], [0, 0, 2]]
    last = (2 + 1 / np.sqrt(3)) / 3
    assert result.arrays["x"].numpy() == pytest.approx([2 + last], abs=1e-5)


def test_late_work_bounds_the_look_ahead() -> None:
    """m is q/(q + 3), and 1 - (1 - momentum)(1 + age) at most: after ages of 0, 0 and 2 that is 1/6."""
    ahead: list[float] = []

    class Noted(AMSFL):
        def _look_ahead(self, arrays: Any) -> None:
            super()._look_ahead(arrays)
            if self.before is not None:
                x, before, anchor = (each["x"].numpy()[0] for each in (self.model, self.before, self.anchor))
                ahead.append((anchor - x) / (x - before))

    strategy = Noted(steps=1, **ONE, **PLAIN | {"momentum": 0.5})
    run([1.0, 1.0, 2.5], rounds=4, quorum=2, strategy=strategy)
    assert ahead == pytest.approx([1 / 4, 2 / 5, 1 / 6], abs=1e-5)


def test_late_work_may_be_dropped() -> None:
    _, strategy, _ = run([1.0, 1.0, 2.5], rounds=4, quorum=2, late="drop")
    assert {age for each in strategy.log for age in each["age"]} == {0}
    assert [node for node in strategy.log[3]["steps"] if node not in strategy.log[3]["nodes"]] == [1002]


def test_a_deadline_ends_a_round_with_those_who_are_in() -> None:
    took, strategy, _ = run([1.0, 4.5, 9.0], rounds=4, deadline=2.0)
    assert 8 <= took < 9
    assert [each["nodes"] for each in strategy.log][:3] == [[1000], [1000], [1000, 1001]]


def test_a_deadline_that_nobody_meets_ends_with_the_first() -> None:
    took, strategy, _ = run([3.0, 4.0, 9.0], rounds=1, deadline=1.0)
    assert 3 <= took < 3.1 and strategy.log[0]["nodes"] == [1000]


def test_under_a_buffer_nodes_start_again_by_themselves_with_other_minibatches() -> None:
    """Node 0 replies five times while node 1 replies once; seconds count from an order's own time."""
    orders: list[Any] = []

    def noted(node: int, x: Any, config: dict[str, Any]) -> Any:
        orders.append((node, config["server-round"], config.get("repeat", 0)))
        return np.ones(1)

    virtual = VirtualGrid(stock_app(noted), 2, lambda i, message: [1.0, 5.2][i] if steps_of(message) else 0.0)
    strategy = AMSFL(steps=1, **PLAIN)
    strategy.start(RoundGrid(virtual, poll=0.01, buffer=4), arrays_of(np.zeros(1)), num_rounds=3)
    assert [node for node, _, _ in orders].count(0) > 8 and len({*orders}) == len(orders)
    assert [len(each["nodes"]) for each in strategy.log] == [4, 4, 4]
    for entry in strategy.log:
        for node, seconds in zip(entry["nodes"], entry["seconds"], strict=True):
            assert seconds == pytest.approx([1.0, 5.2][node - 1000], abs=0.02)


def test_nobody_waits_for_a_node_that_has_gone() -> None:
    virtual = VirtualGrid(stock_app(one_more), 3, lambda i, message: 1.0 if steps_of(message) else 0.0)
    grid, sleep = RoundGrid(virtual, poll=0.1), virtual.sleep

    def later(seconds: float) -> None:
        sleep(seconds)
        virtual.gone = {2} if virtual.now() > 1e9 + 0.5 else set()

    grid.sleep = later
    strategy = AMSFL(steps=1, fraction_evaluate=0.0, min_available_nodes=1, min_train_nodes=1, **PLAIN)
    strategy.start(grid, arrays_of(np.zeros(1)), num_rounds=1)
    assert strategy.log[0]["nodes"] == [1000, 1001] and virtual.now() < 1e9 + 10


def test_any_strategy_ends_its_rounds_so() -> None:
    took, _, result = run([1.0, 1.2, 60.0], rounds=5, quorum=2, late="drop", strategy=FedAvg())
    assert took < 10 and result.arrays["x"].numpy() == pytest.approx([5.0])


def test_a_round_end_of_ones_own() -> None:
    took, strategy, _ = run([1.0, 2.0, 3.0], rounds=2, end=round_end("quorum:1"))
    assert strategy.log[0]["nodes"] == [1000] and took < 3


def test_seconds_are_the_server_s_whatever_a_site_s_clock_says() -> None:
    class Skewed(VirtualGrid):
        stamps = False

        def answer(self, message: Any) -> Any:
            reply = super().answer(message)
            reply.metadata.created_at += 86400.0
            return reply

    virtual = Skewed(stock_app(one_more), 2, lambda i, message: 1.0 if steps_of(message) else 0.0)
    strategy = AMSFL(steps=1, **PLAIN)
    strategy.start(RoundGrid(virtual, poll=0.01), arrays_of(np.zeros(1)), num_rounds=3)
    assert all(each["seconds"] == pytest.approx([1.0, 1.0], abs=0.02) for each in strategy.log)
