"""SKELETON: copy this file to anywhere and change what differs. CONTRIBUTING.md says how.

It works as it stands: FedAvg with momentum on the server.
"""

from dataclasses import dataclass

from amsfl.core import Total, Upload
from amsfl.methods.base import Facts, Method, Number, Vector, upload


@dataclass(frozen=True)
class Skeleton(Method):
    """One line: what the method does differently, and why that helps.

    x+ = x + v+,   v+ = beta v + sum_i w_i (y_i - x)         (the equation, in the names used here)

    Authors year, arXiv number. (This one: Hsu, Qi and Brown 2019, arXiv 1909.06335.)
    """

    # Hyper-parameters are fields; they are options on the command line (--option beta=0.5).
    # Vectors are flat. Operators only: the same lines run on numpy, jax and torch. No state is `x[:0]`.
    beta: Number = 0.9
    # Its name, its title in reports, and what others must know: who plans its steps (`policy`); if clients
    # send or receive more than one vector or compute more than their steps, what the clock charges.
    facts = Facts("skeleton", "Server momentum", vectors_down=1, vectors_up=1)

    # What is as in FedAvg can be left out: here `correct` and `report`.

    def init(self, x: Vector) -> tuple[Vector, Vector]:
        """State of the server and of a client, before the first round."""
        return 0 * x, x[:0]

    def correct(self, grad: Vector, x: Vector, anchor: Vector, server: Vector, client: Vector) -> Vector:
        """What a client steps along. Elementwise: it may be given one layer at a time."""
        return grad

    def report(
        self, x: Vector, anchor: Vector, steps: Number, lr: Number, server: Vector, client: Vector
    ) -> tuple[Upload, Vector]:
        """What a client sends after its steps, and its new state."""
        return upload(x - anchor), client

    def aggregate(
        self, anchor: Vector, total: Total, weights: Vector, steps: Vector, server: Vector
    ) -> tuple[Vector, Vector]:
        """The next anchor and the server's new state. `total`: all uploads, summed by `mix`."""
        moving = self.beta * server + total.delta
        return anchor + moving, moving
