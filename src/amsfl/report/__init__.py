"""Tables, figures and one page from records on disk; trains nothing."""

from amsfl.report.page import write

__all__ = ["write"]
