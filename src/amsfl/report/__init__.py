"""Tables, figures and one page from records on disk; trains nothing."""

from pathlib import Path


def write(folders: list[Path], out: Path, target: float | None = None, score: str | None = None) -> Path:
    """Read what is finished in the folders and write the report.

    Args:
        folders: Of studies and runs.
        out: Where the report goes.
        target: Another score of the hold-out to measure times to.
        score: Which one, as in f1; that of the records by default.

    Returns:
        The page's path.
    """
    from amsfl.record import publish  # here: pandas is slow to import, and sentences of a run need none
    from amsfl.report.page import PAGE, compose
    from amsfl.report.read import read

    publish(out, compose(read(folders), target, score))
    return out / PAGE


__all__ = ["write"]
