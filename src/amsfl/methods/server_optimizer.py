"""A server's optimizer over a method: FedAdam, FedYogi or FedAvgM, whatever made the round's step."""

from collections.abc import Sequence
from functools import partial

from amsfl.core import Kind, Total, UserError
from amsfl.methods.arithmetic import Arithmetic, Number, Vector, add_delta, tuned_over
from amsfl.methods.base import Method, Variant
from amsfl.methods.fedadam import fedadam
from amsfl.methods.fedavgm import fedavgm
from amsfl.methods.fedyogi import fedyogi
from amsfl.methods.operators import join

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
    if method.facts.server_optimizer:
        raise UserError(
            f"{method.title} is a server optimizer itself, over fedavg: leave --server-optimizer out, or "
            "name another method."
        )

    def optimized(each: Method) -> Method:
        return each._replace(
            name=f"{each.name}+{server.name}",
            arithmetic=tuned_over(
                each.arithmetic, partial(arithmetic, server.arithmetic), *server.arithmetic.numbers
            ),
            facts=each.facts._replace(title=f"{each.title} + {server.title}"),
        )

    return method.adapted(Variant(server_optimizer=True)).changed(optimized)


def arithmetic(server: Arithmetic, inner: Arithmetic, *numbers: Number) -> Arithmetic:
    """The server state is one vector: the method's own, then the optimizer's."""
    optimizer = server.with_numbers(numbers)

    def own_state(state: Vector, anchor: Vector) -> Vector:
        one = anchor.reshape(-1)[: anchor.shape[-1]]
        return state[..., : state.shape[-1] - len(optimizer.init(one)[0])]

    def aggregate(
        anchor: Vector, total: Total, weights: Vector, steps: Vector, state: Vector
    ) -> tuple[Vector, Vector]:
        own = own_state(state, anchor)
        rest = state[len(own) :]
        if inner.aggregate is not add_delta:
            moved, own = inner.aggregate(anchor, total, weights, steps, own)
            total = total._replace(delta=moved - anchor)
        following, rest = optimizer.aggregate(anchor, total, weights, steps, rest)
        return following, join(own, rest)

    def init(x: Vector) -> tuple[Vector, Vector]:
        own, client = inner.init(x)
        return join(own, optimizer.init(x)[0]), client

    def model(anchor: Vector, state: Vector) -> Vector:
        return inner.model(anchor, own_state(state, anchor))

    return inner._replace(init=init, aggregate=aggregate, model=model, own_state=own_state)


def only_one(several: Sequence[Method]) -> Method:
    raise UserError(f"{len(several)} server optimizers: one takes the server's step; leave the others out.")
