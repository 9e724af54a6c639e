"""Bytes that a simulation charges are those that travel through Flower, both ways, for every method.

What a simulation charges is what depends on the model: vectors (4 bytes a number) and the scalars of a
reading. Besides that every message has a frame: Flower's metadata, ids and checksums of its parts, the
order's fields or the report's by name, a header of 128 bytes for each array. It is the same
whatever the model, FRAME bytes at most: a hundredth of a model of 100,000 numbers. So it is not charged.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from counting_proxy import CountingProxy
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

import amsfl
from amsfl import data, methods
from amsfl.flower import NumpyTrainer, Shard, jax_client, numpy_client, serve
from amsfl.flower.deploy.builtin_app import deal, write_app
from amsfl.flower.deploy.processes import loopback
from amsfl.flower.in_process import InProcessGrid
from amsfl.record import read_run
from amsfl.simulation import serve_config

FRAME = 4096  # bytes of a message, besides what a simulation charges
DIGITS = data.load("digits")
PARTS = data.partition("dirichlet:0.5", DIGITS.y, 3, 0)
NODES = [{"partition-id": place} for place in range(3)]
COMMON: dict[str, Any] = {"clients": 3, "cohort": 2, "rounds": 3, "batch": 8, "seed": 0, "round_end": "all"}


def shard(context: Any) -> Shard:
    rows = PARTS[int(context.node_config["partition-id"])]
    return Shard(DIGITS.x[rows], DIGITS.y[rows], 10, "softmax")


def wire_bytes(message: Any) -> int:
    """Of a message and all of its parts, as Flower serialises them."""
    return sum(len(part.deflate()) for part in get_all_nested_objects(message).values())


class WeighingGrid(InProcessGrid):
    """Weighs every order to train and its reply, by round."""

    def __init__(self, app: Any):
        super().__init__(app, NODES)
        self.down, self.up, self.orders = dict[int, int](), dict[int, int](), dict[int, int]()

    def answer(self, message: Any) -> Any:
        reply = super().answer(message)
        if message.metadata.message_type == "train":
            number = int(message.content["order"]["round"])
            for way, part in ((self.down, message), (self.up, reply)):
                way[number] = way.get(number, 0) + wire_bytes(part)
            self.orders[number] = self.orders.get(number, 0) + 1
        return reply


@pytest.mark.parametrize("name", methods.METHODS.table)
def test_what_travels_is_what_a_simulation_charges(name: str) -> None:
    """Two of three clients a round: who was not in the round before is sent the last global step, too."""
    simulated = amsfl.run(
        data="digits", engine="loop", clock="makespan", model="softmax", progress=False, method=name, **COMMON
    )
    grid = WeighingGrid(jax_client(shard))
    _, records = serve(grid, {**COMMON, "method": name, "poll": 0.001, "patience": 20.0})
    assert [each.cohort for each in records] == [each.cohort for each in simulated.rounds]
    for real, charged in zip(records, simulated.rounds, strict=True):
        number = real.round - 1
        assert (real.bytes_down, real.bytes_up) == (charged.bytes_down, charged.bytes_up)
        assert 0 < grid.down[number] - charged.bytes_down <= FRAME * grid.orders[number]
        assert 0 < grid.up[number] - charged.bytes_up <= FRAME * grid.orders[number]


@pytest.mark.parametrize("name", ["amsfl", "scaffold", "fedavg"])
def test_the_frame_does_not_grow_with_the_model(name: str) -> None:
    """Models of 1,000 and of 300,000 numbers (an ArrayRecord by then, with 300 bytes more for each array)."""
    frames = []
    for size in (1_000, 300_000):
        # Flower sends arrays that are the same but once: these never are
        start = np.random.default_rng(0).normal(size=size).astype(np.float32)

        def make(context: Any, start: Any = start) -> NumpyTrainer:
            return NumpyTrainer(10, start, lambda x, step, order: (1.0, 0.1 * x))

        grid = WeighingGrid(numpy_client(make))
        _, records = serve(grid, {**COMMON, "method": name, "lr": 0.1, "steps": 1, "poll": 0.001})
        ways = ((grid.down, "bytes_down"), (grid.up, "bytes_up"))
        frames.append(
            [way[each.round - 1] / 2 - getattr(each, field) / 2 for each in records for way, field in ways]
        )
    assert np.abs(np.subtract(*frames)).max() < 800 and 0 < np.max(frames) <= FRAME


@pytest.mark.slow
@pytest.mark.parametrize("name", ["amsfl", "fedavg", "scaffold"])
def test_real_nodes_send_what_a_simulation_charges(name: str, tmp_path: Path) -> None:
    """Counted on the wire between three SuperNodes and their SuperLink, HTTP and all.

    Besides frames there are HTTP's headers, heartbeats, and a node's questions for work, five a second: under
    a kilobyte each. They go by time and not by the model, so they are bounded by seconds here.
    """
    settings = {"method": name, "data": "digits", "model": "mlp:3000", "clients": 3, "rounds": 4, "batch": 8}
    settings |= {"steps": 2} if name != "amsfl" else {}
    out, shards = tmp_path / "run", deal(serve_config(settings), tmp_path / "shards")
    write_app(tmp_path / "app", {**settings, "out": str(out), "shards": str(tmp_path / "shards")})
    with loopback(tmp_path / "flower") as running, CountingProxy(running.port) as proxy:
        for place, path in enumerate(shards):
            command = replace(running, port=proxy.port).node_command(
                {"partition-id": place, "shard": str(path)}
            )
            running.start(f"node-{place}", command)
        process = running.start("run", ["flwr", "run", str(tmp_path / "app"), "local", "--stream"])
        process.wait(300)
        up, down = proxy.up, proxy.down
    real = read_run(out)
    simulated = amsfl.run(**settings, clock="makespan", progress=False)
    assert real.summary is not None and real.summary.rounds == 4, (
        tmp_path / "flower" / "run.log"
    ).read_text()
    for way, counted in (("bytes_down", down), ("bytes_up", up)):
        charged = getattr(simulated.summary, way)
        assert getattr(real.summary, way) == charged
        polls = 3 * (real.summary.wall["seconds"] + 60) * 5 * 1024
        assert charged < counted < 1.02 * charged + polls, (way, counted, charged, polls)
