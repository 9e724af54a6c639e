"""Data sources by name (`amsfl data` lists them), or any table; and how rows are dealt to clients."""

from typing import TYPE_CHECKING, Any

from amsfl.data.dataset import Dataset, FloatArray, Frame, IntArray, LabelScale, describe
from amsfl.data.partition import partition
from amsfl.data.sources import catalogue, is_named, load

if TYPE_CHECKING:
    from amsfl.data.table import load_table

__all__ = [
    "Dataset",
    "FloatArray",
    "Frame",
    "IntArray",
    "LabelScale",
    "catalogue",
    "describe",
    "is_named",
    "load",
    "load_table",
    "partition",
]


def __getattr__(name: str) -> Any:
    """load_table: only whoever reads a table waits for pandas."""
    if name != "load_table":
        raise AttributeError(name)
    from amsfl.data.table import load_table

    return load_table
