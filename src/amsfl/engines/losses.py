"""What a client minimises: cross-entropy, alone or with a teacher (the FedCSDA row), or a number's error.

jax is imported by what computes: a run of the loop engine knows losses by their names alone.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from amsfl.core import UserError, nearest
from amsfl.core.records import Array, Tree
from amsfl.methods import Distillation

Apply = Callable[[Any, Array], Array]
Batch = tuple[Array, Array]  # rows and labels
RowLoss = Callable[[Array, Array], Array]  # outputs, labels -> the loss of every row


class Teacher(NamedTuple):
    params: Tree
    prototypes: Array  # [classes, classes] mean teacher logits of each class on local rows
    seen: Array  # [classes] whether the class was among those rows


def cross_entropy(logits: Array, y: Array) -> Array:
    """-log softmax(logits)[y] of every row."""
    import jax

    # labels as rows, not as numbers: the gradient is then no scatter
    rows = jax.nn.one_hot(y, logits.shape[-1], dtype=logits.dtype)
    return -(rows * jax.nn.log_softmax(logits)).sum(-1)


def weighted(weights: Sequence[float]) -> RowLoss:
    """Cross-entropy times the weight of a row's class.

    Its mean is over rows, not over their weights: then clients' losses add up to the loss of all rows,
    whichever classes a client or a minibatch has.
    """
    return partial(weighted_cross_entropy, tuple(weights))


def weighted_cross_entropy(weights: tuple[float, ...], logits: Array, y: Array) -> Array:
    import jax

    rows = jax.nn.one_hot(y, logits.shape[-1], dtype=logits.dtype)
    return -(rows * jax.numpy.asarray(weights, logits.dtype) * jax.nn.log_softmax(logits)).sum(-1)


def squared(outputs: Array, y: Array) -> Array:
    """(output - y)^2 / 2 of every row: the gradient is the plain difference."""
    return (outputs[..., 0] - y) ** 2 / 2


def absolute(outputs: Array, y: Array) -> Array:
    return abs(outputs[..., 0] - y)


CLASSES: dict[str, RowLoss] = {"cross-entropy": cross_entropy}
NUMBERS: dict[str, RowLoss] = {"squared": squared, "absolute": absolute}


def named(name: str, classes: int) -> RowLoss:
    """A loss by name; auto: cross-entropy, and the squared error of numbers (0 classes)."""
    own, other = (CLASSES, NUMBERS) if classes else (NUMBERS, CLASSES)
    if name == "auto":
        return next(iter(own.values()))
    if name in other:
        what, read = ("numbers", "number") if classes else ("classes", "words")
        raise UserError(
            f"The loss {name!r} is of {what}, which are not predicted here; take {' or '.join(own)}, or pass "
            f"--columns LABEL={read}."
        )
    if name not in own:
        raise UserError(f"Unknown loss {name!r}{nearest(name, own)}.")
    return own[name]


def held_loss_and_spread(loss: RowLoss, outputs: Array, y: Array, here: Array) -> tuple[Array, Array]:
    """The mean loss of some of these rows, and how much their outputs differ; NaN where there are none.

    spread = max |o - mean o| / (1 + max |o|): 0 of a network that says the same of every row. One row differs
    from no other, so it says nothing: NaN.
    """
    import jax.numpy as jnp

    count = here.sum().astype(outputs.dtype)
    rows = loss(outputs, y)
    mine = here.reshape(-1, *[1] * (outputs.ndim - 1))
    mean = jnp.where(mine, outputs, 0).sum(0) / count
    apart = jnp.where(mine, jnp.abs(outputs - mean), 0).max()
    largest = jnp.where(mine, jnp.abs(outputs), 0).max()
    return jnp.where(here, rows, 0).sum() / count, jnp.where(count > 1, apart / (1 + largest), jnp.nan)


def teach(apply: Apply, params: Tree, x: Array, y: Array) -> Teacher:
    """Class prototypes of a teacher on a client's rows."""
    import jax
    import jax.numpy as jnp

    logits = apply(params, x)
    member = jax.nn.one_hot(y, logits.shape[-1], dtype=logits.dtype)
    count = member.sum(0)
    return Teacher(params, (member.T @ logits) / jnp.maximum(count, 1)[:, None], count > 0)


def distillation_loss(
    apply: Apply, loss: RowLoss, rule: Distillation, teacher: Teacher, params: Tree, batch: Batch
) -> Array:
    """(1-mu) loss + mu * mask * T^2 KL(softmax(s z_teacher / T) || softmax(z / T)), arXiv 2308.10162."""
    import jax
    import jax.numpy as jnp

    x, y = batch
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
    both: Array = (1 - rule.weight) * loss(z, y) + rule.weight * mask * divergence
    return both.mean()


def _cosine(z: Array, prototypes: Array) -> Array:
    import jax.numpy as jnp

    norms = jnp.linalg.norm(z, axis=-1)[:, None] * jnp.linalg.norm(prototypes, axis=-1)[None, :]
    return z @ prototypes.T / jnp.maximum(norms, 1e-8)
