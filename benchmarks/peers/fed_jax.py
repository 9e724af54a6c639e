"""FedJAX: its federated_averaging on an InMemoryFederatedData, jit backend (its default;
its pmap backend needs `jax.device_put_sharded`, which current jax has dropped).

`shuffle_repeat_batch` takes a number of steps and fills batches across epochs, so nothing is adapted.
The network is jax's own convolutions and attention, images with channels last; parameters are w0, b0, w1, ...
as the job has them, axes the other way round from torch's, but tokens' are looked up by row.
FedJAX 0.0.17 calls `jax.tree_map`, which current jax has dropped; the one line below gives it back.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from common import Clock, arguments

jax.tree_map = jax.tree_util.tree_map

import fedjax  # noqa: E402 - after the shim
from fedjax.algorithms import fed_avg  # noqa: E402


def turned(parts: list[dict], weights: list) -> list:
    """The job's weights as `network` takes them, or back again."""
    kinds = [part["kind"] for part in parts if part["name"] for _ in "wb"]
    return [part.T if kind == "tokens" else part for kind, part in zip(kinds, weights, strict=True)]


def network(parts: list[dict], params: list, x: jax.Array) -> jax.Array:
    given, kept = iter(zip(params[::2], params[1::2], strict=True)), x
    for part in parts:
        kind = part["kind"]
        if kind == "keep":
            kept = x
        elif kind == "add":
            x = x + kept
        elif part["name"]:
            x = NAMED[kind](x, *next(given), part)
        else:
            x = PLAIN[kind](x, part)
    return x


def normalised(x: jax.Array) -> jax.Array:
    away = x - x.mean(-1, keepdims=True)
    return away * jax.lax.rsqrt((away**2).mean(-1, keepdims=True) + 1e-5)


def convolved(x: jax.Array, weight: jax.Array, bias: jax.Array, part: dict) -> jax.Array:
    strides, layout = (part["stride"],) * 2, ("NHWC", "WHIO", "NHWC")
    return jax.lax.conv_general_dilated(x, weight, strides, ((1, 1), (1, 1)), dimension_numbers=layout) + bias


def attended(x: jax.Array, part: dict) -> jax.Array:
    rows, places, wide = x.shape
    q, k, v = jnp.moveaxis(x.reshape(rows, places, 3, part["many"], -1), 2, 0)
    return jax.nn.dot_product_attention(q, k, v).reshape(rows, places, wide // 3)


NAMED = {
    "dense": lambda x, weight, bias, part: x @ weight + bias,
    "conv": convolved,
    "level": lambda x, weight, bias, part: normalised(x) * weight + bias,
    "tokens": lambda x, weight, bias, part: weight[x.astype(jnp.int32)] + bias,
}
PLAIN = {
    "relu": lambda x, part: jax.nn.relu(x),
    "image": lambda x, part: x.reshape(-1, part["outputs"], part["inputs"], part["inputs"]).transpose(
        0, 2, 3, 1
    ),
    "flatten": lambda x, part: x.transpose(0, 3, 1, 2).reshape(len(x), -1),
    "mean": lambda x, part: x.mean(1),
    "attend": attended,
}


def loss_of(parts: list[dict]) -> Callable[..., jax.Array]:
    def loss(params: list, batch: dict, rng: jax.Array) -> jax.Array:
        out = network(parts, params, batch["x"])
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(out), batch["y"][:, None], 1))

    return loss


def main() -> None:
    args = arguments()
    job, clock = args.job, Clock(args)
    rows = {
        str(i): {"x": job.x[job.rows(i)], "y": job.y[job.rows(i)].astype(np.int32)}
        for i in range(job.clients)
    }
    data = fedjax.InMemoryFederatedData(rows)
    batching = fedjax.ShuffleRepeatBatchHParams(batch_size=job.batch, num_epochs=None, num_steps=job.steps)
    algorithm = fed_avg.federated_averaging(
        jax.grad(loss_of(job.parts)), fedjax.optimizers.sgd(job.lr), fedjax.optimizers.sgd(1.0), batching
    )
    sampler = fedjax.client_samplers.UniformGetClientSampler(data, job.cohort, seed=0)
    state = algorithm.init([jnp.array(w) for w in turned(job.parts, job.weights)])
    for _ in range(clock.total):
        state, _ = algorithm.apply(state, sampler.sample())
        jax.block_until_ready(state.params)
        clock.round(lambda: turned(job.parts, state.params))  # noqa: B023 - called at once, before the next round
    clock.report()


if __name__ == "__main__":
    main()
