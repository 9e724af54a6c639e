"""Tokens as vectors, and attention between them."""

import jax
import jax.numpy as jnp

from amsfl.core.records import Tree


def attend(x: jax.Array, heads: int) -> jax.Array:
    """[rows, places, queries, keys and values] -> [rows, places, width]: by head softmax(q k') v."""
    rows, places, wide = x.shape
    q, k, v = x.reshape(rows, places, 3, heads, wide // (3 * heads)).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    mixed: jax.Array = jax.nn.softmax(scores) @ v
    return mixed.transpose(0, 2, 1, 3).reshape(rows, places, wide // 3)


@jax.custom_vjp
def embed(table: jax.Array, numbers: jax.Array) -> jax.Array:
    """The rows of a table by number; its gradient adds up in one order on every device."""
    return table[numbers]


def _forward(table: jax.Array, numbers: jax.Array) -> tuple[jax.Array, Tree]:
    return table[numbers], (numbers, table)


def _backward(saved: Tree, d: jax.Array) -> tuple[jax.Array, None]:
    numbers, table = saved
    flat, d = numbers.reshape(-1), d.reshape(-1, d.shape[-1])
    if jax.default_backend() == "cpu":
        return jnp.zeros_like(table).at[flat].add(d), None
    # a scatter adds in no fixed order on a GPU, where a product is cheap
    member = jax.nn.one_hot(flat, len(table), dtype=d.dtype, axis=0)
    return jnp.matmul(member, d, precision="highest"), None


embed.defvjp(_forward, _backward)
