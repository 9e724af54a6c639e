"""What rules share: a chain of them, and what they judge."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from amsfl.combine.weighted import beside
from amsfl.core import Combine, Upload, UserError, namespace
from amsfl.core.records import Array


class Left(NamedTuple):
    """What a rule leaves of rows, weights that sum to 1, and how much of each client's row is in each."""

    rows: Upload
    weights: Array
    origin: Array


Rule = Callable[[Upload, Array], Left]
Recall = Callable[[Upload, Array, Array, Array], tuple[Upload, Array, Array, Array]]


def chain(rules: Sequence[Combine]) -> Combine:
    """One after another, each on the rows and weights that the one before leaves.

    Args:
        rules: In order.

    Returns:
        One rule.
    """

    def apply(uploads: Upload, weights: Array, steps: Array) -> tuple[Upload, Array]:
        return weighed(whole, uploads, weights, steps)[:2]

    def counts(weights: Array) -> Array:
        for rule in rules:
            weights = weights if rule.counts is None else rule.counts(weights)
        return weights

    if not rules:
        return Combine("", lambda uploads, weights, steps: (uploads, weights))
    whole = Combine(
        ",".join(rule.name for rule in rules),
        apply,
        links=tuple(rules),
        attackers=max((rule.attackers for rule in rules), default=0.0),
        counts=counts,
        remembers=sum(rule.remembers for rule in rules),
    )
    return whole


def weighed(
    rule: Combine, uploads: Upload, weights: Array, steps: Array, history: Array | None = None
) -> tuple[Upload, Array, dict[str, Array], Array]:
    """What a rule leaves, and how much each client counts after each of its links; NaN where one cannot say.

    Args:
        rule: One, or a chain.
        uploads: Stacked.
        weights: Of the clients; they sum to 1.
        steps: How many mean steps each upload is.
        history: What it remembers of these clients; None: nothing.

    Returns:
        Rows and weights as `apply` has them; the counts by link, with its place where a name comes twice;
        what the rule remembers from now on.
    """
    counts: dict[str, Array] = {}
    origin, clients, read, remembered = None, len(weights), 0, []
    if history is None:
        history = namespace(weights).zeros((clients, rule.remembers), dtype=weights.dtype)
    for name, link in zip(link_names(rule), rule.links or (rule,), strict=True):
        before = weights
        if link.recall is not None:
            if len(weights) != clients:
                raise UserError(
                    f"The rule {link.name!r} remembers clients, and {rule.name!r} leaves it fewer rows; "
                    "put it further to the front."
                )
            mine = history[:, read : read + link.remembers]
            uploads, weights, mine, fresh = link.recall(uploads, weights, steps, mine)
            read += link.remembers
            remembered.append(fresh)
        elif link.trace is None:
            uploads, weights = link.apply(uploads, weights, steps)
            mine = namespace(before).zeros((len(weights), len(before)), dtype=before.dtype) + float("nan")
        else:
            uploads, weights, mine = link.trace(uploads, weights, steps)
        if len(weights) != len(uploads.delta):
            raise UserError(
                f"The rule {link.name!r} leaves {len(uploads.delta)} rows and {len(weights)} weights; it "
                "returns one weight for each row."
            )
        origin = mine if origin is None else mine @ origin
        counts[name] = weights @ origin
        steps = _lengths(steps, before, len(weights))
    return uploads, weights, counts, namespace(weights).concat([*remembered, history[:, :0]], axis=1)


def link_names(rule: Combine) -> list[str]:
    """Its links in order, as records name them: with its place where a name comes twice.

    Args:
        rule: One, or a chain.

    Returns:
        One name a link.
    """
    names = list[str]()
    for place, link in enumerate(rule.links or (rule,)):
        names.append(link.name if link.name not in names else f"{link.name} ({place + 1})")
    return names


def by_step(name: str, rule: Rule, attackers: float = 0.0) -> Combine:
    """A rule that judges clients by their mean step: one with many steps has gone far, not astray.

    Rows are divided by their steps before and multiplied after: by their own where all are left, else by the
    mean. An upload that is not finite, or whose square is not, counts nothing; where none is, all is NaN.

    Args:
        name: Of the rule.
        rule: What it does to rows and weights.
        attackers: How many clients it doubts, or below 1 which share; 0 where it does not say.

    Returns:
        A rule over a cohort's uploads.
    """

    def trace(uploads: Upload, weights: Array, steps: Array) -> tuple[Upload, Array, Array]:
        rows, counted = mean_steps(uploads, weights, steps)
        left = rule(rows, counted)
        return _scaled(left.rows, _lengths(steps, counted, len(left.weights))), left.weights, left.origin

    def apply(uploads: Upload, weights: Array, steps: Array) -> tuple[Upload, Array]:
        return trace(uploads, weights, steps)[:2]

    return Combine(name, apply, trace, attackers=attackers)


def remembering(name: str, recall: Recall, numbers: int) -> Combine:
    """A rule that keeps so many numbers of each client; alone, `apply` is its first round."""

    def apply(uploads: Upload, weights: Array, steps: Array) -> tuple[Upload, Array]:
        nothing = namespace(weights).zeros((len(weights), numbers), dtype=weights.dtype)
        return recall(uploads, weights, steps, nothing)[:2]

    return Combine(name, apply, remembers=numbers, recall=recall)


def mean_steps(uploads: Upload, weights: Array, steps: Array) -> tuple[Upload, Array]:
    """Rows by step, zeros for uploads that are not finite; weights without theirs, that sum to 1."""
    space = namespace(weights)
    whole = space.isfinite(uploads.delta_sq) & space.all(space.isfinite(uploads.extra), axis=1)
    counted = weights * whole
    clean = (space.where(beside(whole, part), part, space.zeros_like(part)) for part in uploads)
    return _scaled(Upload(*clean), 1 / steps), counted / counted.sum()


def mixed(uploads: Upload, shares: Array, weights: Array) -> Left:
    """Rows made of others: `shares` [m, n] of them."""
    return Left(Upload(*(shares @ part for part in uploads)), weights, shares)


def alone(rows: Sequence[Array], weights: Array, origin: Array) -> Left:
    """A single row (delta, extra, delta_sq) that stands for all."""
    return Left(Upload(*(part[None] for part in rows)), weights[:1] * 0 + 1, origin[None])


def each(by: Array) -> Array:
    """Every row is its own client's still, times a number."""
    return namespace(by).eye(len(by), dtype=by.dtype) * by


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
