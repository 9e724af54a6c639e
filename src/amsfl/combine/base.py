"""What rules share: a chain of them, and what they judge."""

from collections.abc import Callable, Sequence

from amsfl.core import Combine, Upload, namespace
from amsfl.core.records import Array

Rule = Callable[[Upload, Array], tuple[Upload, Array]]  # rows, and weights that sum to 1 -> the same


def chain(rules: Sequence[Combine]) -> Combine:
    """One after another, each on the rows and weights that the one before leaves.

    Args:
        rules: In order.

    Returns:
        One rule.
    """

    def apply(uploads: Upload, weights: Array, steps: Array) -> tuple[Upload, Array]:
        for rule in rules:
            before = weights
            uploads, weights = rule.apply(uploads, weights, steps)
            steps = _lengths(steps, before, len(weights))
        return uploads, weights

    return Combine(",".join(rule.name for rule in rules), apply)


def by_step(name: str, rule: Rule) -> Combine:
    """A rule that judges clients by their mean step: one with many steps has gone far, not astray.

    Rows are divided by their steps before and multiplied after: by their own where all are left, else by the
    mean. An upload that is not finite, or whose square is not, counts nothing; where none is, all is NaN.

    Args:
        name: Of the rule.
        rule: What it does to rows and weights.

    Returns:
        A rule over a cohort's uploads.
    """

    def apply(uploads: Upload, weights: Array, steps: Array) -> tuple[Upload, Array]:
        space = namespace(weights)
        whole = space.isfinite(uploads.delta_sq) & space.all(space.isfinite(uploads.extra), axis=1)
        counted = weights * whole
        clean = (space.where(beside(whole, part), part, space.zeros_like(part)) for part in uploads)
        rows, left = rule(_scaled(Upload(*clean), 1 / steps), counted / counted.sum())
        return _scaled(rows, _lengths(steps, counted, len(left))), left

    return Combine(name, apply)


def beside(numbers: Array, part: Array) -> Array:
    """One number a row, in a shape that multiplies the part's rows."""
    return numbers.reshape(-1, *[1] * (part.ndim - 1))


def one(weights: Array) -> Array:
    """The weight of a single row that stands for all."""
    return weights[:1] * 0 + 1


def _scaled(uploads: Upload, by: Array) -> Upload:
    return Upload(
        uploads.delta * beside(by, uploads.delta),
        uploads.extra * beside(by, uploads.extra),
        uploads.delta_sq * by * by,
    )


def _lengths(steps: Array, weights: Array, rows: int) -> Array:
    """The steps of the rows that a rule leaves: their own, or the mean where it leaves fewer."""
    if rows == len(steps):
        return steps
    return namespace(steps).zeros(rows, dtype=steps.dtype) + (weights * steps).sum() / weights.sum()
