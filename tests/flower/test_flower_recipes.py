"""Momentum, weight decay, epochs and decaying rates as a server orders them of real clients."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl.core import UserError
from amsfl.flower import NumpyTrainer, numpy_client, serve
from amsfl.flower.client.site_policy import SitePolicy
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.messages import GlobalModel, Order

ROWS = (6, 12)  # of two clients, whose losses are a/2 x^2 - x with their own a
SLOPES = (1.0, 3.0)
SETTINGS = {"method": "fedavg", "clients": 2, "rounds": 2, "poll": 0.01, "lr": 0.1, "batch": 4, "seed": 0}


def trainer(context: Any) -> NumpyTrainer:
    node = int(context.node_config["partition-id"])

    def gradient(x: Any, step: int, order: Any) -> tuple[float, Any]:
        return float((SLOPES[node] / 2 * x * x - x).sum()), SLOPES[node] * x - 1

    return NumpyTrainer(ROWS[node], np.zeros(2, np.float32), gradient)


def test_clients_do_what_the_recipe_says() -> None:
    """Two rounds by hand: ceil(2 x 6 / 4) = 3 and 6 steps, v <- 0.9 v + g + 0.01 y, lr 0.1, then 0.05."""
    recipe = {"epochs": 2, "client_momentum": 0.9, "weight_decay": 0.01, "lr_decay": 0.5}
    state, records = serve(
        InProcessGrid(numpy_client(trainer), [{"partition-id": node} for node in (0, 1)]), SETTINGS | recipe
    )
    assert [each.steps for each in records] == [[3, 6]] * 2
    anchor = 0.0
    for lr in (0.1, 0.05):
        ends = []
        for slope, steps in zip(SLOPES, (3, 6), strict=True):
            y, v = anchor, 0.0
            for _ in range(steps):
                v = 0.9 * v + slope * y - 1 + 0.01 * y
                y -= lr * v
            ends.append(y)
        anchor = (6 * ends[0] + 12 * ends[1]) / 18
    np.testing.assert_allclose(state.anchor, [anchor] * 2, rtol=1e-5)


@pytest.mark.parametrize(("field", "value"), [("momentum", 1.5), ("cut", 1e9), ("cut", float("nan"))])
def test_a_site_bounds_momentum_and_the_cut(field: str, value: float) -> None:
    none = np.zeros(0, np.float32)
    order = Order("r", 0, -1, 0, 1, 1.0, 0.1, True, 4, 0, "fedavg", {}, "", False)
    SitePolicy().check(order, GlobalModel(none, none, none, {}), 1)
    with pytest.raises(UserError, match=field):
        SitePolicy().check(order._replace(**{field: value}), GlobalModel(none, none, none, {}), 1)
