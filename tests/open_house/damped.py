"""A method of one's own: FedAvg whose server steps half as far, with a state that counts its rounds."""

from dataclasses import dataclass

from rising import rising

from amsfl import Facts, Method


@dataclass(frozen=True)
class damped(Method):
    """Half of FedAvg's step.

    x+ = x + share sum_i w_i (y_i - x)
    """

    share: float = 0.5
    facts = Facts("damped", "Damped <b>averaging</b>", policy=rising())

    def init(self, x):
        return 0 * x[:1], x[:0]

    def aggregate(self, anchor, total, weights, steps, server):
        return anchor + self.share * total.delta, server + 1
