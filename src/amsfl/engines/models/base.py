"""What a model is, the unit of its features, and its parameters by name."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from amsfl.core.records import Array
from amsfl.engines.models.layers import stored
from amsfl.portable.network import LayerSpec

Params = Any


class Model(NamedTuple):
    """init(key) -> parameters, any pytree of arrays; apply(parameters, rows) -> logits."""

    name: str
    init: Callable[[jax.Array], Params]
    apply: Callable[[Params, jax.Array], jax.Array]
    # the same as data, so that others can run it; () for a network of your own
    layers: tuple[LayerSpec, ...] = ()
    unit: float = 1.0  # what features are measured in: they are divided by it first


ORDINARY = (0.1, 10.0)  # root mean squares of features that models can begin with


def input_scale(x: Array) -> float:
    """The power of ten in which features are neither large nor small; 1 where they are ordinary.

    Models begin as if features were about 1. Of features a hundred times too small a network sees only its
    own biases, and nothing gets it off that plateau; a hundred times too large, it is certain from the start.
    """
    flat = np.ravel(x)
    # by einsum, which casts a block at a time: squares would be a second copy of all rows
    root = float(np.sqrt(np.einsum("i,i->", flat, flat, dtype=np.float64) / flat.size)) if flat.size else 1.0
    if ORDINARY[0] <= root <= ORDINARY[1] or not 0 < root < np.inf:
        return 1.0
    return float(10.0 ** np.round(np.log10(root)))


def scale_inputs(model: Model, of: float) -> Model:
    """The same model of features divided by `of`."""
    if of == 1:
        return model
    return model._replace(apply=lambda params, x: model.apply(params, x * (1 / of)), unit=of)


def tensors(model: Model, params: Params) -> dict[str, Array]:
    """The parameters by name, in the shapes that `amsfl.portable.network` describes; by path for others."""
    if not model.layers:
        leaves = jax.tree_util.tree_flatten_with_path(params)[0]
        return {jax.tree_util.keystr(path).strip("."): np.asarray(leaf) for path, leaf in leaves}
    named = stored(model.layers, params)
    first = next(iter(named))  # elsewhere the model gets features as they are
    return {name: np.asarray(part / model.unit if name == first else part) for name, part in named.items()}
