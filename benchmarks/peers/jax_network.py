"""A job's network (its list of layers) in jax, as one would write it there: images have channels last.

Parameters are w0, b0, w1, ... as the job has them, axes the other way round from torch's; but tokens' are
looked up by row.
"""

import jax
import jax.numpy as jnp


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


def normalised(x: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    away = x - x.mean(axes, keepdims=True)
    return away * jax.lax.rsqrt((away**2).mean(axes, keepdims=True) + 1e-5)


def grouped(x: jax.Array, weight: jax.Array, bias: jax.Array, part: dict) -> jax.Array:
    split = x.reshape(*x.shape[:3], part["many"], -1)
    return normalised(split, (1, 2, 4)).reshape(x.shape) * weight + bias


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
    "norm": grouped,
    "level": lambda x, weight, bias, part: normalised(x, (-1,)) * weight + bias,
    "tokens": lambda x, weight, bias, part: weight[x.astype(jnp.int32)] + bias,
}
PLAIN = {
    "relu": lambda x, part: jax.nn.relu(x),
    "image": lambda x, part: x.reshape(-1, part["outputs"], part["inputs"], part["inputs"]).transpose(
        0, 2, 3, 1
    ),
    "flatten": lambda x, part: x.transpose(0, 3, 1, 2).reshape(len(x), -1),
    "pool": lambda x, part: x.mean((1, 2)),
    "mean": lambda x, part: x.mean(1),
    "attend": attended,
}
