"""The few records that travel between rooms, names for things, and the one kind of error a user sees."""

from amsfl.core.errors import DiskError, Remark, UserError, first_line, listed, missing, nearest, need
from amsfl.core.names import Kind, parse_names
from amsfl.core.records import (
    Attack,
    ClientPrivacy,
    Combine,
    Combined,
    Key,
    Parts,
    Plan,
    Reading,
    RowPrivacy,
    Total,
    Transmit,
    Upload,
    Verdict,
    namespace,
    scatter,
)
from amsfl.core.scores import Score, score

VERSION = "0.1.0"  # pyproject.toml reads it here
