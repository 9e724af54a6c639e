"""One column of a table: numbers and dates that came typed, or text.

A typed number stays what it is. Only text is read by a spelling (spelling.py), once for every distinct word.
"""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from amsfl.data.dates import format_date

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

SOME = 100  # cells that are tried before all are
MISSING = ("", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "?")


class Written(NamedTuple):
    """What typed cells were before: text of several sites, each with a spelling of its own."""

    text: pa.Array
    spellings: tuple[str, ...]
    unit: str


class Cells:
    """A column. `kind` is text, number, flag (a typed boolean) or date (typed, in days); null is a gap.

    Text that a file's reader already took for numbers comes with a function that reads it again as text.
    """

    written: Written | None = None

    def __init__(self, array: pa.Array, kind: str = "text", read_text: Callable[[], pa.Array] | None = None):
        self.array, self.kind, self.read_text = array, kind, read_text

    def __len__(self) -> int:
        return len(self.array)

    @property
    def gaps(self) -> Mask:
        return np.asarray(self.array.is_null())

    @property
    def numbers(self) -> Floats:
        """Of typed columns: nan for a gap, days for dates."""
        return np.asarray(self.array.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)

    @cached_property
    def text(self) -> pa.Array:
        """The cells as words; whole numbers without a point."""
        if self.read_text is not None:
            return self.read_text()
        if self.kind == "text":
            return self.array
        if self.kind == "flag":
            return pc.if_else(pc.equal(self.array, 1.0), "True", "False")
        if self.kind == "date":
            days = [None if np.isnan(day) else format_date(day, "iso") for day in self.numbers]
            return pa.array(days, pa.string())
        return self.array.cast(pa.string())

    @cached_property
    def _encoded(self) -> tuple[pa.Array, Codes]:
        encoded = self.text.dictionary_encode()
        codes = np.asarray(encoded.indices.fill_null(-1).to_numpy(), np.int32)
        return encoded.dictionary, codes

    @property
    def vocabulary(self) -> pa.Array:
        """The distinct words in the order of their first row."""
        return self._encoded[0]

    @cached_property
    def words(self) -> list[str]:
        return list(self.vocabulary.to_pylist())

    @property
    def codes(self) -> Codes:
        """Each row's place in the vocabulary, -1 for a gap."""
        return self._encoded[1]

    def filter(self, mask: Mask) -> "Cells":
        read_text = self.read_text
        again = None if read_text is None else lambda: read_text().filter(pa.array(mask))
        cells = Cells(self.array.filter(pa.array(mask)), self.kind, again)
        if self.written is not None:
            cells.written = self.written._replace(text=self.written.text.filter(pa.array(mask)))
        return cells

    @cached_property
    def point(self) -> Floats | None:
        """Text that is finite numbers with a decimal point throughout, without a look at single words."""
        if self.kind != "text":
            return None
        try:
            self.array[:SOME].cast(pa.float64())  # a cast that fails is slow
            values = self.array.cast(pa.float64())
        except pa.ArrowInvalid:
            return None
        numbers = np.asarray(values.to_numpy(zero_copy_only=False), np.float64)
        return numbers if (np.isfinite(numbers) | self.gaps).all() else None


def join_cells(parts: list[Cells]) -> Cells:
    """Columns one below the other; typed where all of them are. Numbers keep the text that each part has."""
    kinds = {part.kind for part in parts if part.array.null_count < len(part)}

    def text() -> pa.Array:
        return pa.chunked_array([part.text.cast(pa.string()) for part in parts]).combine_chunks()

    points = kinds == {"text"} and all(part.point is not None for part in parts)
    if len(kinds) != 1 or (kinds == {"text"} and not points):
        return Cells(text())
    kind = kinds.pop()
    numbers = pa.chunked_array([part.array.cast(pa.float64()) for part in parts]).combine_chunks()
    return Cells(numbers, kind, text if kind in ("text", "number") else None)
