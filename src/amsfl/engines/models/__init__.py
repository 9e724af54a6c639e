"""Models: a pair of functions init and apply; any pytree of arrays is a model's parameters."""

from amsfl.engines.models.base import Model, Params, in_units, tensors, unit
from amsfl.engines.models.named import make, mlp
from amsfl.engines.models.user_modules import from_module

__all__ = ["Model", "Params", "from_module", "in_units", "make", "mlp", "tensors", "unit"]
