"""Users' own modules as models: equinox, flax (linen and nnx), haiku. Who has a module has its library."""

import inspect
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from amsfl.core import UserError
from amsfl.engines.models.base import Model, Params


def from_module(name: str, module: Any, features: int | None = None) -> Model:
    """A Model from a module of another library: its arrays are the parameters.

    Args:
        name: What the model is called in records.
        module: An equinox or nnx module's constructor, a function of a jax key; or a linen module, or what
            `haiku.transform` gives. It takes rows `[rows, features]` and returns logits.
        features: Columns of a row; linen and haiku modules find their shapes by them.

    Returns:
        A Model for `amsfl.run(network=...)`.
    """
    if not hasattr(module, "init") or not hasattr(module, "apply"):
        nnx = sys.modules.get("flax.nnx")
        built = module(jax.random.key(0)) if nnx else None
        return _nnx(name, module, nnx) if nnx and isinstance(built, nnx.Module) else _equinox(name, module)
    if features is None:
        raise UserError(
            f"The module {name!r} finds its shapes by the rows it sees; say how many columns they have: "
            f"from_module({name!r}, module, features=64)."
        )
    example = jnp.zeros((1, features), jnp.float32)
    linen = sys.modules.get("flax.linen")
    return (_linen if linen and isinstance(module, linen.Module) else _haiku)(name, module, example)


def _stateless(name: str, besides: Any) -> None:
    if jax.tree.leaves(besides):
        raise UserError(
            f"The module {name!r} keeps numbers besides its parameters (batch statistics, random streams), "
            "which no method here averages; use group or layer normalisation, and no dropout."
        )


def _equinox(name: str, build: Callable[[jax.Array], Any]) -> Model:
    import equinox as eqx

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


def _nnx(name: str, build: Callable[[jax.Array], Any], nnx: Any) -> Model:
    graph, _, besides = nnx.split(build(jax.random.key(0)), nnx.Param, ...)
    _stateless(name, besides)

    def init(key: jax.Array) -> Params:
        return nnx.to_pure_dict(nnx.state(build(key), nnx.Param))

    def apply(params: Params, x: jax.Array) -> jax.Array:
        logits: jax.Array = nnx.merge(graph, nnx.State(params))(x)
        return logits

    return Model(name, init, apply)


def _linen(name: str, module: Any, example: jax.Array) -> Model:
    variables = jax.eval_shape(module.init, jax.random.key(0), example)
    _stateless(name, {kind: part for kind, part in variables.items() if kind != "params"})

    def apply(params: Params, x: jax.Array) -> jax.Array:
        logits: jax.Array = module.apply({"params": params}, x)
        return logits

    return Model(name, lambda key: module.init(key, example)["params"], apply)


def _haiku(name: str, module: Any, example: jax.Array) -> Model:
    if "state" in inspect.signature(module.apply).parameters:
        _stateless(name, [0])
    random = "rng" in inspect.signature(module.apply).parameters  # without_apply_rng leaves it out

    def apply(params: Params, x: jax.Array) -> jax.Array:
        logits: jax.Array = module.apply(params, *([None] if random else []), x)
        return logits

    return Model(name, lambda key: module.init(key, example), apply)
