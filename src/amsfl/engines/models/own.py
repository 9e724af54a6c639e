"""Users' own modules as models: equinox now; flax and haiku beside it."""

from collections.abc import Callable
from typing import Any

import jax

from amsfl.engines.models.base import Model, Params


def from_module(name: str, build: Callable[[jax.Array], Any]) -> Model:
    """A Model from an equinox module's constructor: its arrays are the parameters."""
    import equinox as eqx  # whoever has a module has equinox; nothing else here needs it

    def is_array(leaf: Any) -> bool:
        return isinstance(leaf, jax.ShapeDtypeStruct) or eqx.is_array(leaf)

    _, static = eqx.partition(eqx.filter_eval_shape(build, jax.random.key(0)), is_array)

    def init(key: jax.Array) -> Params:
        return eqx.partition(build(key), eqx.is_array)[0]

    def apply(params: Params, x: jax.Array) -> jax.Array:
        module: Any = eqx.combine(params, static)
        logits: jax.Array = module(x)
        return logits

    return Model(name, init, apply)
