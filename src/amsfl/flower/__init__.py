"""AMSFL on real clients, through Flower: `server_app` on one side, a client factory on the other.

from amsfl.flower import server_app, torch_client
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amsfl.flower.client.app import client_app
    from amsfl.flower.client.jax_client import Shard, jax_client
    from amsfl.flower.client.numpy_client import NumpyTrainer, numpy_client
    from amsfl.flower.client.sklearn_client import sklearn_client
    from amsfl.flower.client.torch_client import torch_client, torch_loop_client
    from amsfl.flower.server.app import evaluator, serve, server_app

_PLACES = {
    "server.app": ("evaluator", "serve", "server_app"),
    "client.app": ("client_app",),
    "client.jax_client": ("Shard", "jax_client"),
    "client.numpy_client": ("NumpyTrainer", "numpy_client"),
    "client.sklearn_client": ("sklearn_client",),
    "client.torch_client": ("torch_client", "torch_loop_client"),
}
__all__ = [
    "NumpyTrainer",
    "Shard",
    "client_app",
    "evaluator",
    "jax_client",
    "numpy_client",
    "serve",
    "server_app",
    "sklearn_client",
    "torch_client",
    "torch_loop_client",
]


def __getattr__(name: str) -> Any:
    """Each side imports only its own: Flower starts a process a message, and seconds of import count."""
    from importlib import import_module

    from amsfl.core import UserError

    for module, names in _PLACES.items():
        if name in names:
            try:
                return getattr(import_module(f"amsfl.flower.{module}"), name)
            except ModuleNotFoundError as error:
                if error.name == "flwr":
                    raise UserError("This needs Flower: pip install 'amsfl[flower]'.") from None
                raise
    raise AttributeError(f"module 'amsfl.flower' has no attribute {name!r}")
