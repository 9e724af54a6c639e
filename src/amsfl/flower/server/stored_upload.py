"""An upload that waits for its round's end: in memory if it is small, else in a file.

A server then holds one upload at a time, however many clients there are, unless a rule needs them together.
"""

import tempfile
from typing import IO, Any, NamedTuple

import numpy as np

from amsfl.core import Upload

IN_MEMORY = 4 << 20  # bytes of an upload that stays in memory


class StoredUpload(NamedTuple):
    small: Upload | None
    file: IO[bytes] | None = None  # has no name: it is gone when nobody holds it
    lengths: tuple[int, int] = (0, 0)  # of delta and extra
    delta_sq: Any = 0.0

    @classmethod
    def keep(cls, upload: Upload) -> "StoredUpload":
        parts = [np.asarray(upload.delta), np.asarray(upload.extra)]
        if sum(part.nbytes for part in parts) <= IN_MEMORY or any(part.dtype != np.float32 for part in parts):
            return cls(upload)
        file = tempfile.TemporaryFile(prefix="amsfl-upload-")  # noqa: SIM115  (it closes itself)
        for part in parts:
            part.tofile(file)
        file.flush()
        return cls(None, file, (parts[0].size, parts[1].size), upload.delta_sq)

    def load(self) -> Upload:
        if self.small is not None:
            return self.small
        assert self.file is not None
        self.file.seek(0)
        delta, extra = (np.fromfile(self.file, np.float32, count) for count in self.lengths)
        return Upload(delta, extra, self.delta_sq)
