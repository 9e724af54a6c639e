"""A Strategy around another one, and the rounds of whoever is outermost.

Flower's own `Strategy.start` cannot end before its last round, tells nobody of a round, and does not go on
where a killed one stopped; this one does, and is otherwise the same.
"""

import time
from collections.abc import Callable, Iterable
from logging import INFO
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from flwr.supercore import log

from amsfl.core.records import Json

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


class Wrapper(Strategy):
    """Hands everything on to the strategy inside."""

    def __init__(self, strategy: Strategy):
        self.strategy = strategy

    def configure_train(self, *order: Any) -> Iterable[Message]:
        return self.strategy.configure_train(*order)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        return self.strategy.aggregate_train(server_round, replies)

    def configure_evaluate(self, *order: Any) -> Iterable[Message]:
        return self.strategy.configure_evaluate(*order)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        return self.strategy.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        self.strategy.summary()

    def _opened(self, arrays: ArrayRecord, num_rounds: int) -> tuple[ArrayRecord, int]:
        """Before the first round: where it begins, and its number."""
        inside = self.strategy
        return inside._opened(arrays, num_rounds) if isinstance(inside, Wrapper) else (arrays, 1)

    def _closed(self, number: int, arrays: ArrayRecord, metrics: Json) -> bool:
        """After a round, with its scores by split; whether it was the last one."""
        return isinstance(self.strategy, Wrapper) and self.strategy._closed(number, arrays, metrics)

    def _ended(self) -> None:
        """After the last round, or an exception."""
        if isinstance(self.strategy, Wrapper):
            self.strategy._ended()

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: EvaluateFn | None = None,
    ) -> Result:
        """All rounds; the arguments and the result are those of Flower's own `start`."""
        train_config, evaluate_config = train_config or ConfigRecord(), evaluate_config or ConfigRecord()
        log(INFO, "Starting %s strategy:", type(self).__name__)
        self.summary()
        began, result = time.monotonic(), Result()
        arrays, first = self._opened(initial_arrays, num_rounds)
        result.arrays = arrays
        try:
            if evaluate_fn and first == 1:
                _keep(result.evaluate_metrics_serverapp, 0, evaluate_fn(0, arrays))
            for number in range(first, num_rounds + 1):
                log(INFO, "[ROUND %s/%s]", number, num_rounds)
                orders = self.configure_train(number, arrays, train_config, grid)
                replies = grid.send_and_receive(orders, timeout=timeout)
                fresh, metrics = self.aggregate_train(number, replies)
                result.arrays = arrays = arrays if fresh is None else fresh
                _keep(result.train_metrics_clientapp, number, metrics)
                questions = self.configure_evaluate(number, arrays, evaluate_config, grid)
                answers = grid.send_and_receive(questions, timeout=timeout)
                scores = self.aggregate_evaluate(number, answers)
                _keep(result.evaluate_metrics_clientapp, number, scores)
                own = evaluate_fn(number, arrays) if evaluate_fn else None
                _keep(result.evaluate_metrics_serverapp, number, own)
                splits = {"holdout": own, "clients": scores, "training": metrics}
                if self._closed(number, arrays, {name: dict(part) for name, part in splits.items() if part}):
                    break
        finally:
            self._ended()
        log(INFO, "Strategy execution finished in %.2fs", time.monotonic() - began)
        return result


def _keep(held: dict[int, MetricRecord], number: int, metrics: MetricRecord | None) -> None:
    if metrics is not None:
        held[number] = metrics
        if metrics:
            log(INFO, "\t%s", dict(metrics))
