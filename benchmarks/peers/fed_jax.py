"""FedJAX: its federated_averaging on an InMemoryFederatedData, jit backend (its default;
its pmap backend needs `jax.device_put_sharded`, which current jax has dropped).

`shuffle_repeat_batch` takes a number of steps and fills batches across epochs, so nothing is adapted.
FedJAX 0.0.17 calls `jax.tree_map`, which current jax has dropped; the one line below gives it back.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax_network import network, turned

from common import Clock, arguments

jax.tree_map = jax.tree_util.tree_map

import fedjax  # noqa: E402 - after the shim
from fedjax.algorithms import fed_avg  # noqa: E402


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
    clock.report("fedjax", jax=jax.__version__)


if __name__ == "__main__":
    main()
