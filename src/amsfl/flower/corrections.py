"""SCAFFOLD and FedDyn around any Strategy, from replies as they are: the server keeps what clients would.

    strategy = Scaffold(AMSFL(lr=0.1))

A client adds `config["correction"]` (float32 bytes, the model's float arrays one after another) to its
gradients, and mu (y - a) with `config["proximal-mu"]`, as FedProx asks. Its own vector follows from what it
replies anyway, so the server holds one vector for every node that ever replied.
"""

from collections.abc import Iterable

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from amsfl.core import UserError
from amsfl.flower.strategy import AMSFL, chain
from amsfl.flower.task import FlatVector, flat, unflat
from amsfl.flower.wrapper import Wrapper


class Corrected(Wrapper):
    """Sends each node a correction, and learns from what it replies."""

    mu = 0.0

    def __init__(self, strategy: Strategy):
        super().__init__(strategy)
        inside = [each for each in chain(strategy) if isinstance(each, AMSFL)]
        if not inside:
            raise UserError(f"{type(self).__name__} needs an AMSFL inside: {type(self).__name__}(AMSFL())")
        self.planner = inside[0]
        self.own: dict[int, FlatVector] = {}  # by node
        self.rows: dict[int, float] = {}
        self.asked: dict[int, FlatVector] = {}  # the correction that was sent

    def _correction(self, node: int, size: int) -> FlatVector:
        raise NotImplementedError

    def _learn(self, node: int, change: FlatVector, correction: FlatVector, steps: int, lr: float) -> None:
        """`change` is what a node replied, less what it was sent."""
        raise NotImplementedError

    def _mean(self, size: int) -> FlatVector:
        """Of all nodes' own vectors, by their rows."""
        total = sum((self.rows[node] * own for node, own in self.own.items()), np.zeros(size, np.float32))
        return np.asarray(total / max(sum(self.rows.values()), 1e-30), np.float32)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        for message in messages:
            node, content = message.metadata.dst_node_id, RecordDict(dict(message.content))
            key, given = next(iter(content.config_records.items()))
            size = flat(next(iter(content.array_records.values()))).size
            self.asked[node] = correction = self._correction(node, size)
            self.planner.log[-1]["down"] += correction.nbytes
            mine = {"correction": correction.astype("<f4").tobytes(), "proximal-mu": self.mu}
            content[key] = ConfigRecord(dict(given) | mine)
            message.content = content
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        arrays, metrics = self.strategy.aggregate_train(server_round, replies)
        for taken in self.planner.taken:  # what AMSFL refused teaches nothing
            node, parts = taken.node, [taken.change[key] for key in taken.sent.anchor if key in taken.change]
            change = np.concatenate([part.ravel() for part in parts]).astype(np.float32)
            self.rows[node] = self.planner.nodes.each[node].rows
            self._learn(node, change, self.asked[node], taken.steps, taken.sent.lr)
        return arrays, metrics


class Scaffold(Corrected):
    """c_i+ = c_i - c + (a - y_i)/(t_i lr),  g + c - c_i at the clients.  Karimireddy et al. 2020, arXiv
    1910.06378.

    Args:
        strategy: An AMSFL, or one with an AMSFL inside.
    """

    def _correction(self, node: int, size: int) -> FlatVector:
        mean = self._mean(size)
        return mean - self.own.get(node, mean)

    def _learn(self, node: int, change: FlatVector, correction: FlatVector, steps: int, lr: float) -> None:
        self.own[node] = np.asarray(-change / (steps * lr) - correction, np.float32)


class FedDyn(Corrected):
    """g - g_i + alpha (y - a) at the clients, g_i+ = g_i - alpha (y_i - a);  x = mean y_i - h/alpha, h the
    mean of all g_i.

    Acar et al. 2021, arXiv 2111.04263.

    Args:
        strategy: An AMSFL, or one with an AMSFL inside.
        alpha: How strongly clients are held.
    """

    def __init__(self, strategy: Strategy, alpha: float = 0.1):
        super().__init__(strategy)
        self.mu = alpha

    def _correction(self, node: int, size: int) -> FlatVector:
        return -self.own.get(node, np.zeros(size, np.float32))

    def _learn(self, node: int, change: FlatVector, correction: FlatVector, steps: int, lr: float) -> None:
        self.own[node] = np.asarray(-correction - self.mu * change, np.float32)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        arrays, metrics = super().aggregate_train(server_round, replies)
        if arrays is None or not self.own:
            return arrays, metrics
        moved = flat(arrays) - self._mean(flat(arrays).size) / np.float32(self.mu)
        return unflat(moved, arrays), metrics
