"""SKELETON: copy this file to anywhere and change what differs. CONTRIBUTING.md says how.

It works as it stands: FedAvg with momentum on the server.
"""

from amsfl.core import Total, Upload
from amsfl.methods.arithmetic import Arithmetic, Number, Vector, plain_gradient, send_delta
from amsfl.methods.base import Cost, Facts, Method


def skeleton(beta: float = 0.9) -> Method:
    """One line: what the method does differently, and why that helps.

    x+ = x + v+,   v+ = beta v + sum_i w_i (y_i - x)         (the equation, in the names used here)

    Authors year, arXiv number. (This one: Hsu, Qi and Brown 2019, arXiv 1909.06335.)
    """
    # Hyper-parameters are the arguments above; they are options on the command line (--option beta=0.5).
    # Vectors are flat. Operators only: the same lines run on numpy, jax and torch. No state is `x[:0]`.

    def init(x: Vector) -> tuple[Vector, Vector]:
        """State of the server and of a client, before the first round."""
        return 0 * x, x[:0]

    def correct(grad: Vector, x: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
        """What a client steps along. Elementwise: it may be given one layer at a time."""
        return plain_gradient(grad, x, anchor, server, client)

    def report(
        x: Vector, anchor: Vector, steps: Number, lr: Number, server: Vector, client: Vector
    ) -> tuple[Upload, Vector]:
        """What a client sends after its steps, and its new state."""
        return send_delta(x, anchor, steps, lr, server, client)

    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        """The next anchor and the server's new state. `total`: all uploads, summed by `average`."""
        moving = beta * server + total.delta
        return anchor + moving, moving

    # What is as in FedAvg can be left out: Arithmetic(init=init, aggregate=aggregate) does the same.
    # If clients send or receive more than one vector, or compute more than their steps, say so in a Cost: the
    # clock charges it. In Facts, `title` is its name in reports, `policy` who plans its steps, `own_rate`
    # whether it needs no learning rate.
    return Method(
        "skeleton",
        Arithmetic(init, correct, report=report, aggregate=aggregate),
        Cost(vectors_down=1, vectors_up=1),
        Facts(title="Server momentum"),
    )
