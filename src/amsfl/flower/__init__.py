"""AMSFL on real clients, through Flower: a Strategy, a Grid that ends rounds, and clients.

from amsfl.flower import AMSFL, RoundGrid
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amsfl.flower.client import client_app, site_policy_mod
    from amsfl.flower.corrections import FedDyn, Scaffold
    from amsfl.flower.in_process import InProcessGrid
    from amsfl.flower.jax_trainer import Shard, jax_client
    from amsfl.flower.round_grid import RoundGrid
    from amsfl.flower.serving import merged, serve, server_app
    from amsfl.flower.shards import Splits
    from amsfl.flower.strategy import AMSFL
    from amsfl.flower.torch_trainer import torch_arrays, torch_client
    from amsfl.flower.trainer import GradientTrainer, Measured, Trainer

_PLACES = {
    "client": ("client_app", "site_policy_mod"),
    "corrections": ("FedDyn", "Scaffold"),
    "in_process": ("InProcessGrid",),
    "jax_trainer": ("Shard", "jax_client"),
    "round_grid": ("RoundGrid",),
    "serving": ("merged", "serve", "server_app"),
    "shards": ("Splits",),
    "strategy": ("AMSFL",),
    "torch_trainer": ("torch_arrays", "torch_client"),
    "trainer": ("GradientTrainer", "Measured", "Trainer"),
}
__all__ = [name for names in _PLACES.values() for name in names]


def __getattr__(name: str) -> Any:
    """Each side imports only its own: Flower starts a process a message, and seconds of import count."""
    from amsfl.core.errors import UserError, missing

    for module, names in _PLACES.items():
        if name in names:
            try:
                return getattr(import_module(f"amsfl.flower.{module}"), name)
            except ModuleNotFoundError as error:
                if why := missing(error):
                    raise UserError(why) from None
                raise
    raise AttributeError(f"module 'amsfl.flower' has no attribute {name!r}")
