"""A server's optimizer over a method: FedAdam, FedYogi or FedAvgM, whatever made the round's step."""

from collections.abc import Sequence

from amsfl.core import Kind, Total, UserError
from amsfl.methods.base import Method, Vector, add_delta
from amsfl.methods.fedadam import fedadam
from amsfl.methods.fedavgm import fedavgm
from amsfl.methods.fedyogi import fedyogi

SERVER_OPTIMIZERS: Kind[Method] = Kind(
    "server optimizer",
    "server_optimizers",
    Method,
    {"adam": fedadam, "yogi": fedyogi, "momentum": fedavgm},
)


def optimize(method: Method, server: Method) -> Method:
    """The server's optimizer takes the step that the method would have taken for its gradient.

    D = aggregate(x, ...) - x;   x+ = x + rule(D)

    Over FedAvg it is FedAdam, FedYogi or FedAvgM. The method must keep no state at the server: one that does
    has a server's step of its own. Reddi et al. 2021, arXiv 2003.00295; Hsu, Qi and Brown 2019, 1909.06335.

    Args:
        method: Whose step it is.
        server: adam, yogi or momentum, as `server_optimizer` makes them.

    Returns:
        The method with that server.
    """

    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, state: Vector
    ) -> tuple[Vector, Vector]:
        if method.aggregate is not add_delta:
            moved, _ = method.aggregate(anchor, total, weights, steps, state[:0])
            total = total._replace(delta=moved - anchor)
        return server.aggregate(anchor, total, weights, steps, state)

    def init(x: Vector) -> tuple[Vector, Vector]:
        return server.init(x)[0], method.init(x)[1]

    return method._replace(
        name=f"{method.name}+{server.name}",
        title=f"{method.title or method.name} + {server.title}",
        init=init,
        aggregate=aggregate,
        driven=method.driven and optimize(method.driven, server),
    )


def only_one(found: Sequence[Method]) -> Method:
    raise UserError(f"{len(found)} server optimizers: one takes the server's step; leave the others out.")
