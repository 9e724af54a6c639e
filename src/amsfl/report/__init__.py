"""Tables, figures and one page from records on disk; trains nothing."""

from amsfl.report.write.folder import write

__all__ = ["write"]
