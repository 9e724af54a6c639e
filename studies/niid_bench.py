"""NIID-Bench's Fashion-MNIST (docs/published.md): FedAvg as its paper trained it, then AMSFL untuned, for as
many virtual seconds of ten equal clients.

    apt install dataset-fashion-mnist    # or --images with a folder of its authors' four files, packed
    python studies/niid_bench.py --splits labels:1,labels:2    # minutes a split on a GPU, hours on two cores

Best test accuracy over rounds. LeNet is theirs: 6 and 16 kernels of 5 x 5, each pooled, then 120, 84, 10.
"""

import argparse
import gzip
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import amsfl
from amsfl.engines.models import Model

FEDAVG = {"method": "fedavg", "lr": 0.01, "client_optimizer": "momentum:0.9,decay:1e-5"}
BOTH = {"clients": 10, "profile": "uniform", "batch": 64, "details": ""}
SHAPES = ((5, 5, 1, 6), (5, 5, 6, 16), (256, 120), (120, 84), (84, 10))
ROUNDS, PASSES = 50, 10.0  # of FedAvg, and over a client's rows in a round
MOST = 2000  # rounds of AMSFL
PARTS = ("train", "t10k")


def fashion(folder: str = "/usr/share/datasets/fashion-mnist") -> amsfl.Dataset:
    """Images of clothes in ten classes; the hold-out is the test set."""

    def read(name: str, head: int) -> np.ndarray:
        held = gzip.decompress((Path(folder) / f"{name}-ubyte.gz").read_bytes())
        return np.frombuffer(held, np.uint8, offset=head)

    x, test = (read(f"{part}-images-idx3", 16).reshape(-1, 784) / np.float32(255) for part in PARTS)
    y, labels = (read(f"{part}-labels-idx1", 8) for part in PARTS)
    return amsfl.Dataset("fashion-mnist", x, y, {"holdout": (test, labels)}, tuple(map(str, range(10))))


def init(key: jax.Array) -> list[tuple[jax.Array, jax.Array]]:
    """He's weights; biases of zero."""
    keys = jax.random.split(key, len(SHAPES))
    scales = [(2 / jnp.prod(jnp.array(shape[:-1]))) ** 0.5 for shape in SHAPES]
    return [
        (scale * jax.random.normal(key, shape), jnp.zeros(shape[-1]))
        for key, shape, scale in zip(keys, SHAPES, scales, strict=True)
    ]


def apply(params: list[tuple[jax.Array, jax.Array]], rows: jax.Array) -> jax.Array:
    x = rows.reshape(-1, 28, 28, 1)
    for weights, bias in params[:2]:
        x = jax.lax.conv_general_dilated(
            x, weights, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x + bias)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(len(x), -1)
    for weights, bias in params[2:-1]:
        x = jax.nn.relu(x @ weights + bias)
    return x @ params[-1][0] + params[-1][1]


def best(result: amsfl.Result) -> str:
    score = 100 * max(each.metrics["holdout"]["accuracy"] for each in result.rounds)
    return f"{score:.2f} ({len(result.rounds)} rounds, {seconds(result):.0f} s)"


def seconds(result: amsfl.Result) -> float:
    return result.rounds[-1].seconds["makespan"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--splits", default="iid,dirichlet:0.5,labels:3,labels:2,labels:1")
    parser.add_argument("--images", default="/usr/share/datasets/fashion-mnist")
    given = parser.parse_args()
    data = fashion(given.images)
    print("| split | FedAvg | AMSFL |\n| --- | --- | --- |")
    for split in given.splits.split(","):
        shared = BOTH | {"dataset": data, "partition": split, "network": Model("lenet", init, apply)}
        fedavg = amsfl.run(**shared | FEDAVG | {"epochs": PASSES}, rounds=ROUNDS)
        ours = amsfl.run(**shared, method="amsfl", rounds=MOST, seconds=seconds(fedavg))
        print(f"| {split} | {best(fedavg)} | {best(ours)} |", flush=True)


if __name__ == "__main__":
    main()
