"""What a client minimises: cross-entropy, or cross-entropy with a teacher (the FedCSDA row)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from amsfl.methods import Distillation

Apply = Callable[[Any, jax.Array], jax.Array]


class Teacher(NamedTuple):
    params: Any
    prototypes: jax.Array  # [classes, classes] mean teacher logits of each class on local rows
    seen: jax.Array  # [classes] whether the class was among those rows


def cross_entropy(apply: Apply, params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    return surprise(apply(params, x), y).mean()


def surprise(logits: jax.Array, y: jax.Array) -> jax.Array:
    """-log softmax(logits)[y] of every row."""
    # labels as rows, not as numbers: the gradient is then no scatter
    rows = jax.nn.one_hot(y, logits.shape[-1], dtype=logits.dtype)
    return -(rows * jax.nn.log_softmax(logits)).sum(-1)


def teach(apply: Apply, params: Any, x: jax.Array, y: jax.Array) -> Teacher:
    """Class prototypes of a teacher on a client's rows."""
    logits = apply(params, x)
    member = jax.nn.one_hot(y, logits.shape[-1], dtype=logits.dtype)
    count = member.sum(0)
    return Teacher(params, (member.T @ logits) / jnp.maximum(count, 1)[:, None], count > 0)


def distilled(
    apply: Apply, rule: Distillation, teacher: Teacher, params: Any, x: jax.Array, y: jax.Array
) -> jax.Array:
    """(1-mu) CE + mu * mask * T^2 KL(softmax(s z_teacher / T) || softmax(z / T)), arXiv 2308.10162."""
    z = apply(params, x)
    target = jax.lax.stop_gradient(apply(teacher.params, x))
    likeness = _cosine(jax.lax.stop_gradient(z), teacher.prototypes)
    share = jax.nn.softmax(jnp.where(teacher.seen, likeness, -jnp.inf), axis=-1)
    classes = z.shape[-1]
    sure = jnp.take_along_axis(jax.nn.softmax(target), y[:, None], 1)[:, 0] > 1 / classes
    mask = (sure & (target.argmax(-1) == y)).astype(z.dtype)
    soft = jax.nn.log_softmax(share * target / rule.temperature)
    student = jax.nn.log_softmax(z / rule.temperature)
    divergence = (jnp.exp(soft) * (soft - student)).sum(-1) * rule.temperature**2
    both: jax.Array = (1 - rule.weight) * surprise(z, y) + rule.weight * mask * divergence
    return both.mean()


def _cosine(z: jax.Array, prototypes: jax.Array) -> jax.Array:
    norms = jnp.linalg.norm(z, axis=-1)[:, None] * jnp.linalg.norm(prototypes, axis=-1)[None, :]
    return z @ prototypes.T / jnp.maximum(norms, 1e-8)
