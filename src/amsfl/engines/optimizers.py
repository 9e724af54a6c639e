"""The optimizer that a client steps by, where that is not plain SGD: any of optax."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from amsfl.core import Kind, UserError, parse_names
from amsfl.core.records import Array, Tree


class ClientSteps(NamedTuple):
    """An optimizer of optax: y <- y + lr u, where u, state <- update(gradient, state, y)."""

    name: str
    init: Callable[[Tree], Tree]
    update: Callable[..., tuple[Tree, Tree]]
    lr: float | None = None  # of a run that names none; None: the method's own
    momentum: float | None = None  # of multiples of gradients; None: its updates are none
    kept: bool = False  # each client's state stays from round to round; else every round begins afresh

    def vector(self, params: Tree) -> Array:
        """Its first state as one vector."""
        return as_vector(self.init(params))

    def restored(self, params: Tree, vector: Array) -> Tree:
        """The state that a vector holds."""
        from jax.flatten_util import ravel_pytree

        whole, back = ravel_pytree(self.init(params))
        if whole.size != vector.size:
            raise UserError(
                f"The client optimizer {self.name!r} keeps other numbers than the model's shapes say, so its "
                "state cannot stay: leave `kept` out."
            )
        return back(vector)


# of optax: what the numbers behind a rate are called
OPTIMIZERS = {"adam": (), "adamw": ("weight_decay",), "lion": ("weight_decay",), "rmsprop": (), "adagrad": ()}


def client_steps(given: Any) -> ClientSteps | None:
    """`momentum:0.9,decay:1e-5`, `adamw:1e-3,kept`, `module:attribute`, or an optimizer of optax; "": None.

    A named one's rate is the run's, unless that sets another; of one that was passed the run's is a factor.
    """
    if given == "" or isinstance(given, ClientSteps):
        return given or None
    import optax  # here: it is slow to import

    if not isinstance(given, str):
        return ClientSteps("own", given.init, given.update, 1.0)
    parts, lr, momentum = dict(parse_names(given)), None, None
    kept = parts.pop("kept", None) is not None
    decay = (parts.pop("decay", None) or [0.0])[0]
    if not (parts or decay or kept):
        return None
    try:
        ((name, numbers),) = parts.items() or [("momentum", [1.0 if kept else 0.0])]
        if name == "momentum":
            (momentum,) = numbers
            step = optax.sgd(1.0, momentum)
        elif name in OPTIMIZERS:
            lr, *others = numbers
            called = zip(OPTIMIZERS[name][: len(others)], others, strict=True)
            step = getattr(optax, name)(1.0, **dict(called))
        else:
            lr, step = 1.0, Kind("client optimizer", tuple, dict.fromkeys(OPTIMIZERS, tuple)).make(name)
    except ValueError:
        momentum = 1.0  # which is none
    if not (0 <= decay <= 1e3 and 0 <= (momentum or 0) < 1 and (lr is None or lr > 0)):
        raise UserError(
            f"--client-optimizer {given!r} is momentum:M (0 <= M < 1), {':RATE, '.join(OPTIMIZERS)}:RATE or "
            "module:attribute; besides it there may be decay:1e-5, up to 1,000, and kept."
        )
    if decay:
        step = optax.chain(optax.add_decayed_weights(decay), step)
    return ClientSteps(given, step.init, step.update, lr, momentum, kept)


def as_vector(state: Tree) -> Array:
    from jax.flatten_util import ravel_pytree

    return ravel_pytree(state)[0]


def on_vectors(steps: ClientSteps, unravel: Callable[[Array], Tree]) -> ClientSteps:
    """The same optimizer, of flat vectors on the host."""
    import jax
    from jax.flatten_util import ravel_pytree

    @jax.jit
    def stepped(grad: Array, state: Tree, x: Array) -> Tree:
        update, state = steps.update(unravel(grad), state, unravel(x))
        return ravel_pytree(update)[0], state

    def update(*of: Tree) -> tuple[Array, Tree]:
        moved, state = stepped(*of)
        return np.asarray(moved), state

    return steps._replace(init=jax.jit(lambda x: steps.init(unravel(x))), update=update)
