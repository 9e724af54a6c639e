"""A method of one's own: FedAvg whose server steps half as far, with a state that counts its rounds."""

from amsfl import Arithmetic, Facts, Method


def damped(share: float = 0.5) -> Method:
    """Half of FedAvg's step.

    x+ = x + share sum_i w_i (y_i - x)
    """

    def init(x):
        return 0 * x[:1], x[:0]

    def aggregate(anchor, total, weights, steps, server):
        return anchor + share * total.delta, server + 1

    facts = Facts("Damped <b>averaging</b>", policy=rising())
    return Method("damped", Arithmetic(init=init, aggregate=aggregate), facts=facts)


def rising():
    from rising import rising as policy

    return policy()
