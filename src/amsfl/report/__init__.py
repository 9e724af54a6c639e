"""Tables, figures and one page from records on disk; trains nothing."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amsfl.report.page import write

__all__ = ["write"]


def __getattr__(name: str) -> Any:
    if name == "write":  # pandas takes half a second to import, which sentences of a run do without
        from amsfl.report.page import write

        return write
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
