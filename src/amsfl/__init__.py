"""Federated learning where every client gets its own number of local steps, by what a second is worth."""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amsfl.federation import Result, resume, run

try:
    __version__ = version("amsfl")
except PackageNotFoundError:  # a source tree on the path, not installed
    __version__ = "0.1.0"

__all__ = ["Result", "__version__", "resume", "run"]


def __getattr__(name: str) -> Any:
    # jax takes most of a second to import: only those who run something pay for it
    if name in ("Result", "resume", "run"):
        from amsfl import federation

        return getattr(federation, name)
    raise AttributeError(f"module 'amsfl' has no attribute {name!r}")
