"""Data sources by name: nslkdd, nslkdd-synth, digits, or any CSV; and how rows are dealt to clients."""

from amsfl.core import UserError, nearest
from amsfl.data.dataset import Dataset, FloatArray, IntArray
from amsfl.data.digits import load_digits
from amsfl.data.nslkdd import load_nslkdd
from amsfl.data.partition import Holdings, partition, summary

__all__ = ["Dataset", "FloatArray", "Holdings", "IntArray", "load", "partition", "summary"]

SOURCES = ("nslkdd", "nslkdd-synth", "digits")


def load(
    source: str,
    *,
    data_dir: str | None = None,
    label: str | None = None,
    client_column: str | None = None,
    binary: bool = False,
    holdout: float = 0.2,
    seed: int = 0,
    allow_synthetic: bool = True,
) -> Dataset:
    """Load a source by name."""
    if source == "digits":
        return load_digits(holdout, seed)
    if source == "nslkdd":
        return load_nslkdd(data_dir, binary, holdout, seed)
    raise UserError(f"Unknown data {source!r}{nearest(source, SOURCES)}.")
