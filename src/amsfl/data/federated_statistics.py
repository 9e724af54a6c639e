"""Statistics of all sites' values from sums alone: what a federation could share without showing a row.

`parts` is one array a site. Nothing here looks at two sites' values at once but through a sum.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from amsfl.data.cells import Codes, Floats

HALVINGS = 60


class TrainingRows(NamedTuple):
    """Each site's training rows: whatever is fitted is fitted to these."""

    sites: Mapping[str, npt.NDArray[np.integer]]

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


def mean_and_deviation(parts: Sequence[Floats]) -> tuple[float, float]:
    """Of all values: from counts and sums, then from sums of squared distances; (0, 0) without any."""
    count = sum(len(part) for part in parts)
    if not count:
        return 0.0, 0.0
    size = max(float(np.abs(part).max()) for part in parts if len(part)) or 1.0  # squares must not overflow
    mean = sum(float((part / size).sum()) for part in parts) / count
    square = sum(float(((part / size - mean) ** 2).sum()) for part in parts) / count
    return mean * size, float(np.sqrt(square)) * size


def median(parts: Sequence[Floats]) -> float:
    """The lower median, by asking every site how many of its values lie at or below a guess.

    A median lies within one deviation of the mean, so the search needs nobody's smallest or largest value.
    """
    mean, deviation = mean_and_deviation(parts)
    count = sum(len(part) for part in parts)
    ordered = [np.sort(part) for part in parts]  # each site for itself: sixty questions are then cheap
    low, high = mean - deviation * (1 + 1e-9), mean + deviation * (1 + 1e-9)
    for _ in range(HALVINGS):
        guess = low / 2 + high / 2
        below = sum(int(np.searchsorted(part, guess, "right")) for part in ordered)
        low, high = (low, guess) if 2 * below >= count else (guess, high)
    return float(f"{high:.12g}")


def most_frequent(counts: Mapping[str, int]) -> str:
    """The commonest word, of several the first by name; '' without any."""
    return min(counts, key=lambda word: (-counts[word], word), default="")
