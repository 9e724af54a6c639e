"""Models: a pair of functions init and apply; any pytree of arrays is a model's parameters."""

from amsfl.engines.models.base import Model, Params, input_scale, scale_inputs, tensors
from amsfl.engines.models.named import make, mlp
from amsfl.engines.models.user_modules import from_module

__all__ = ["Model", "Params", "from_module", "input_scale", "make", "mlp", "scale_inputs", "tensors"]
