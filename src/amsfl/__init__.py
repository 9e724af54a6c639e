"""Federated learning where every client gets its own number of local steps, by what a second is worth."""

from typing import TYPE_CHECKING, Any

from amsfl.core.version import VERSION as __version__

if TYPE_CHECKING:
    from amsfl.federation import Result, resume, run

__all__ = ["Result", "__version__", "resume", "run"]


def __getattr__(name: str) -> Any:
    # jax takes most of a second to import: only those who run something pay for it
    if name in ("Result", "resume", "run"):
        from amsfl import federation

        return getattr(federation, name)
    raise AttributeError(f"module 'amsfl' has no attribute {name!r}")
