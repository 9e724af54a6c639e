"""A server's optimizer over a method: FedAdam, FedYogi or FedAvgM, whatever made the round's step."""

from collections.abc import Sequence

from amsfl.core import Kind, Total, UserError
from amsfl.methods.base import Method, Vector, add_delta
from amsfl.methods.fedadam import fedadam
from amsfl.methods.fedavgm import fedavgm
from amsfl.methods.fedyogi import fedyogi
from amsfl.methods.operators import joined

SERVER_OPTIMIZERS: Kind[Method] = Kind(
    "server optimizer",
    "server_optimizers",
    Method,
    {"adam": fedadam, "yogi": fedyogi, "momentum": fedavgm},
)


def optimize(method: Method, server: Method) -> Method:
    """The server's optimizer takes the step that the method would have taken for its gradient.

    D = aggregate(x, ...) - x;   x+ = x + rule(D);   the method's own server state moves on as without it

    Over FedAvg it is FedAdam, FedYogi or FedAvgM. SCAFFOLD's mean control variate and FedDyn's h do not care
    how far the model goes by them; both rest where D = 0, as before. Where the method's server has a step and
    momentum of its own (AMSFL), the optimizer takes the place of those: two momenta would multiply.
    Reddi et al. 2021, arXiv 2003.00295; Hsu, Qi and Brown 2019, 1909.06335.

    Args:
        method: Whose step it is.
        server: adam, yogi or momentum, as `server_optimizer` makes them.

    Returns:
        The method with that server.
    """
    if method.optimizes:
        raise UserError(
            f"{method.title or method.name} is a server's optimizer itself, over fedavg: leave "
            "--server-optimizer out, or name another method."
        )
    base: Method = method.stepless or method  # of which only the server's functions are taken

    def own_state(state: Vector, anchor: Vector) -> Vector:
        """The state is one vector: the method's own, then the optimizer's."""
        one = anchor.reshape(-1)[: anchor.shape[-1]]
        return state[..., : state.shape[-1] - len(server.init(one)[0])]

    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, state: Vector
    ) -> tuple[Vector, Vector]:
        own = own_state(state, anchor)
        rest = state[len(own) :]
        if base.aggregate is not add_delta:
            moved, own = base.aggregate(anchor, total, weights, steps, own)
            total = total._replace(delta=moved - anchor)
        following, rest = server.aggregate(anchor, total, weights, steps, rest)
        return following, joined(own, rest)

    def init(x: Vector) -> tuple[Vector, Vector]:
        own, client = base.init(x)
        return joined(own, server.init(x)[0]), client

    return method._replace(
        name=f"{method.name}+{server.name}",
        title=f"{method.title or method.name} + {server.title}",
        init=init,
        aggregate=aggregate,
        model=lambda anchor, state: base.model(anchor, own_state(state, anchor)),
        own_state=own_state,
        driven=method.driven and optimize(method.driven, server),
        aloft=None,
        stepless=None,
    )


def only_one(found: Sequence[Method]) -> Method:
    raise UserError(f"{len(found)} server optimizers: one takes the server's step; leave the others out.")
