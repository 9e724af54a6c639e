"""SCAFFOLD and FedDyn around AMSFL, from replies as they are: the server keeps what clients would.

    strategy = Scaffold(AMSFL(lr=0.1))

A client adds `config["correction"]` (float32 bytes, the model's float arrays one after another) to its
gradients, and mu (y - a) with `config["proximal-mu"]`, as FedProx asks. Its own vector follows from what it
replies anyway, so the server holds one vector for every node that ever replied.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from amsfl.core import UserError
from amsfl.flower.arrays import FlatVector, flat, unflat
from amsfl.flower.strategy import AMSFL


class Corrected(AMSFL):
    """An AMSFL that sends each node a correction besides, and learns from what it replies."""

    kept_arrays = (*AMSFL.kept_arrays, "own")
    mu = 0.0

    def __init__(self, strategy: Strategy):
        if not isinstance(strategy, AMSFL):
            raise UserError(f"{type(self).__name__} is around an AMSFL: {type(self).__name__}(AMSFL(...))")
        self.__dict__.update(vars(strategy))
        self.own = ArrayRecord()  # a vector a node
        self.asked: dict[int, FlatVector] = {}  # the correction that was sent

    def _correction(self, own: FlatVector | None, size: int) -> Any:
        """What a node is sent, by the vector that was kept of it."""
        raise NotImplementedError

    def _kept(self, change: FlatVector, correction: FlatVector, steps: int, lr: float) -> Any:
        """That vector after a round; `change` is what the node replied, less what it was sent."""
        raise NotImplementedError

    def _mean(self, size: int) -> FlatVector:
        """Of all nodes' own vectors, by their rows."""
        rows = {node: self.nodes.each[int(node)].rows for node in self.own}
        total = sum((rows[node] * own.numpy() for node, own in self.own.items()), np.zeros(size, np.float32))
        return np.asarray(total / max(sum(rows.values()), 1e-30), np.float32)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        messages = list(super().configure_train(server_round, arrays, config, grid))
        for message in messages:
            node, config = message.metadata.dst_node_id, next(iter(message.content.config_records.values()))
            size = flat(next(iter(message.content.array_records.values()))).size
            own = self.own[str(node)].numpy() if str(node) in self.own else None
            self.asked[node] = correction = self._correction(own, size)
            self.log[-1]["down"] += correction.nbytes
            config["correction"], config["proximal-mu"] = correction.astype("<f4").tobytes(), self.mu
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        arrays, metrics = super().aggregate_train(server_round, replies)
        for taken in self.taken:  # what AMSFL refused teaches nothing
            node, parts = taken.node, [taken.change[key] for key in taken.sent.anchor if key in taken.change]
            change = np.concatenate([part.ravel() for part in parts]).astype(np.float32)
            own = self._kept(change, self.asked[node], taken.steps, taken.sent.lr)
            self.own[str(node)] = Array(np.asarray(own, np.float32))
        return arrays, metrics


class Scaffold(Corrected):
    """c_i+ = c_i - c + (a - y_i)/(t_i lr),  g + c - c_i at the clients.  Karimireddy et al. 2020, arXiv
    1910.06378.

    Args:
        strategy: An AMSFL.
    """

    def _correction(self, own: FlatVector | None, size: int) -> Any:
        mean = self._mean(size)
        return mean - (mean if own is None else own)

    def _kept(self, change: FlatVector, correction: FlatVector, steps: int, lr: float) -> Any:
        return -change / (steps * lr) - correction


class FedDyn(Corrected):
    """g - g_i + alpha (y - a) at the clients, g_i+ = g_i - alpha (y_i - a);  x = mean y_i - h/alpha, h the
    mean of all g_i.

    Acar et al. 2021, arXiv 2111.04263.

    Args:
        strategy: An AMSFL.
        alpha: How strongly clients are held.
    """

    def __init__(self, strategy: Strategy, alpha: float = 0.1):
        super().__init__(strategy)
        self.mu = alpha

    def _correction(self, own: FlatVector | None, size: int) -> Any:
        return np.zeros(size, np.float32) if own is None else -own

    def _kept(self, change: FlatVector, correction: FlatVector, steps: int, lr: float) -> Any:
        return -correction - self.mu * change

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        arrays, metrics = super().aggregate_train(server_round, replies)
        if arrays is None or not self.own:
            return arrays, metrics
        moved = flat(arrays) - self._mean(flat(arrays).size) / np.float32(self.mu)
        return unflat(moved, arrays), metrics
