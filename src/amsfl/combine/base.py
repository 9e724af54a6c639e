"""A chain of rules."""

from collections.abc import Sequence

from amsfl.core import Combine, Upload
from amsfl.core.records import Array


def chain(rules: Sequence[Combine]) -> Combine:
    """One after another, each on the rows and weights that the one before leaves."""

    def apply(uploads: Upload, weights: Array, steps: Array) -> tuple[Upload, Array]:
        for rule in rules:
            uploads, weights = rule.apply(uploads, weights, steps)
        return uploads, weights

    return Combine(",".join(rule.name for rule in rules), apply)
