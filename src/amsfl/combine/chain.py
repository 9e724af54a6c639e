"""Rules one after another, and what they judge: clients' mean steps."""

from collections.abc import Callable, Sequence

from amsfl.core import Combine, Combined, Upload, UserError, namespace
from amsfl.core.records import Array

Rule = Callable[[Upload, Array], tuple[Upload, Array, Array]]  # rows, weights -> rows, weights, counts


def chain(rules: Sequence[Combine]) -> Combine:
    """One after another, each on the rows and weights that the one before leaves."""

    def apply(uploads: Upload, weights: Array, steps: Array, history: Array) -> Combined:
        rows, left, counts, fresh = weighed(whole, uploads, weights, steps, history)
        return Combined(rows, left, [*counts.values()][-1], fresh)

    def capped(weights: Array) -> Array:
        for rule in rules:
            weights = weights if rule.capped is None else rule.capped(weights)
        return weights

    name, attackers = ",".join(rule.name for rule in rules), max(rule.attackers for rule in rules)
    remembers = sum(rule.remembers for rule in rules)
    whole = Combine(name, apply, attackers, capped, remembers, tuple(rules))
    return whole


def weighed(
    rule: Combine, uploads: Upload, weights: Array, steps: Array, history: Array | None = None
) -> tuple[Upload, Array, dict[str, Array], Array]:
    """What a rule leaves of a cohort: rows and weights as `apply` has them, how much each client counts after
    each of its links (NaN where one cannot say), and what it remembers from now on.

    Weights sum to 1, `steps` are how many mean steps each upload is; without `history` it remembers nothing.
    """
    space, clients, read = namespace(weights), len(weights), 0
    if history is None:
        history = space.zeros((clients, rule.remembers), dtype=weights.dtype)
    origin = space.eye(clients, dtype=weights.dtype)  # how much of each upload is in each row
    counts, remembered = dict[str, Array](), [history[:, :0]]
    for link in rule.links or (rule,):
        if link.remembers and len(weights) != clients:
            raise UserError(
                f"The rule {link.name!r} remembers clients, and {rule.name!r} leaves it fewer rows; "
                "put it further to the front."
            )
        left = link.apply(uploads, weights, steps, history[:, read : read + link.remembers])
        if len(left.weights) != len(left.uploads.delta):
            raise UserError(
                f"The rule {link.name!r} leaves {len(left.uploads.delta)} rows and {len(left.weights)} "
                "weights; it returns one weight for each row."
            )
        if left.history is not None:
            remembered.append(left.history)
        read += link.remembers
        counts[link.name] = (0 * weights + float("nan") if left.counts is None else left.counts) @ origin
        if left.counts is not None and len(left.weights) == len(weights):
            origin = origin * (left.counts / (left.weights + (left.weights == 0)))[:, None]
        else:
            origin = counts[link.name] + 0 * left.weights[:, None]
        steps = _lengths(steps, weights, len(left.weights))
        uploads, weights = left.uploads, left.weights
    return uploads, weights, counts, space.concat(remembered, axis=1)


def by_step(name: str, rule: Rule, attackers: float = 0.0) -> Combine:
    """A rule that judges clients by their mean step: one with many steps has gone far, not astray.

    Rows are divided by their steps before and multiplied after: by their own where all are left, else by the
    mean. An upload that is not finite, or whose square is not, counts nothing; where none is, all is NaN.

    Args:
        name: Of the rule.
        rule: What it makes of rows and weights, and how much each row counts in that.
        attackers: How many clients it doubts, or below 1 which share; 0 where it does not say.

    Returns:
        A rule over a cohort's uploads.
    """

    def apply(uploads: Upload, weights: Array, steps: Array, history: Array) -> Combined:
        rows, counted = mean_steps(uploads, weights, steps)
        left, after, counts = rule(rows, counted)
        return Combined(_scaled(left, _lengths(steps, counted, len(after))), after, counts)

    return Combine(name, apply, attackers)


def mean_steps(uploads: Upload, weights: Array, steps: Array) -> tuple[Upload, Array]:
    """Rows by step, zeros for uploads that are not finite; weights without theirs, that sum to 1."""
    space = namespace(weights)
    whole = space.isfinite(uploads.delta_sq) & space.all(space.isfinite(uploads.extra), axis=1)
    counted = weights * whole
    clean = (space.where(beside(whole, part), part, space.zeros_like(part)) for part in uploads)
    return _scaled(Upload(*clean), 1 / steps), counted / counted.sum()


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


def beside(numbers: Array, part: Array) -> Array:
    """One number a row, in a shape that multiplies the part's rows."""
    return numbers.reshape(-1, *[1] * (part.ndim - 1))
