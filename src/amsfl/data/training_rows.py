"""The training rows, site by site: whatever is fitted is fitted to these, through sums."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from amsfl.data.cells import Codes, Floats


class TrainingRows(NamedTuple):
    """The training rows, site by site: whatever is fitted is fitted to these, through sums."""

    sites: dict[str, npt.NDArray[np.integer]]

    @property
    def all(self) -> npt.NDArray[np.integer]:
        return np.concatenate(list(self.sites.values()))

    def split_numbers(self, values: Floats) -> list[Floats]:
        """Each site's values, without gaps."""
        parts = [values[rows] for rows in self.sites.values()]
        return [part[~np.isnan(part)] for part in parts]

    def count_words(self, codes: Codes, words: int) -> list[npt.NDArray[np.int64]]:
        """How often each site has each word."""
        return [np.bincount(codes[rows] + 1, minlength=words + 1)[1:] for rows in self.sites.values()]
