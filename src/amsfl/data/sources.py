"""Data by name (`amsfl data` lists them), or any table."""

from collections.abc import Callable
from pathlib import Path

from amsfl.core import UserError, nearest
from amsfl.data import named
from amsfl.data.dataset import Dataset, Frame
from amsfl.data.files import ENDINGS, check_file, is_table
from amsfl.data.nslkdd import NOTE, ROWS, TEST_ROWS, Unavailable, find_location, load_nslkdd, load_synth
from amsfl.data.recipe import Names

BY_NAME: dict[str, Callable[[float, int], Dataset]] = {  # by hold-out and seed
    "nslkdd": load_nslkdd,
    "nslkdd-synth": load_synth,
    "digits": named.load_digits,
}
HOLDOUT, SEED = 0.2, 0  # not the run's seed: all runs are judged on the same rows unless asked otherwise


def load(
    source: str | Path | Frame,
    *,
    label: str | None = None,
    client_column: str | None = None,
    holdout: float = HOLDOUT,
    seed: int = SEED,
    drop: Names = "",
    columns: Names = "",
    missing: Names = "",
) -> Dataset:
    """A source by name; a table by its path, or in memory; or a folder or pattern of tables, one a site.

    Words of a table become one-hot columns, numbers and dates are standardised, gaps are marked; whatever
    that takes is fitted to the training pool (never the hold-out), and is counts and sums alone, which
    clients of a real federation can add up without showing a row. A label of many numbers is predicted as a
    number, standardised alike. Where NSL-KDD cannot be had, nslkdd-synth stands in and its note says so.

    Args:
        source: A name of `amsfl data`, a path, a pandas or polars data frame, or a dict of columns.
        label: Column of what is predicted; by default one named label, target, class or y.
        client_column: Column of a row's owner; by default one named client, site or hospital.
        holdout: Share of rows to judge by; data of published comparisons keep their own.
        seed: Of the split into training pool and hold-out.
        drop: Columns to leave out, as in `a,b` or a list.
        columns: How to read some, as in `zip=words,code=drop`; the label as `number` or as `words`.
        missing: Words and numbers that mean a gap, as in `-999,unclear`.

    Returns:
        Training pool, splits to judge by, names of classes and features, and the recipe of new rows.
    """
    if isinstance(source, str) and "://" in source:
        check_file(source)
    if not isinstance(source, str) or (not is_named(source) and is_table(source)):
        from amsfl.data.table import read_dataset  # here: pandas is slow to import, and named data need none

        return read_dataset(source, label, client_column, holdout, seed, drop, columns, missing)
    if not is_named(source):
        what = "the folder has no tables, whose names" if Path(source).is_dir() else "its name must"
        hint = f"; {what} end in {', '.join(ENDINGS)}"
        hint = hint if Path(source).exists() else nearest(source, [*BY_NAME, "FILE.csv"])
        raise UserError(f"Unknown data {source!r}{hint}.")
    table_only = {"label": label, "client-column": client_column, "drop": drop, "columns": columns}
    for flag, value in (table_only | {"missing": missing}).items():
        if value:
            raise UserError(f"--{flag} is for a table, and {source!r} is none; leave it out.")
    try:
        return BY_NAME[source](holdout, seed)
    except Unavailable:
        note = f"NSL-KDD is not here and could not be downloaded (AMSFL_DATA_DIR). {NOTE}"
        return load_synth(holdout, seed)._replace(note=note)


def catalogue() -> list[tuple[str, int | None, str, str]]:
    """A line each: name, rows, what it is, and where it was found or how to get it; downloads nothing."""
    own = "your table: what to predict in a column, perhaps a client column"
    return [
        ("nslkdd", 148_517, "intrusion detection, 122 features, 5 classes", find_location()),
        ("nslkdd-synth", ROWS + TEST_ROWS, "made-up traffic to the same schema", "generated"),
        ("digits", 1_797, "8 x 8 images, 10 classes", "embedded in scikit-learn"),
        ("FILE.csv", None, own, "pass its path"),
    ]


def is_named(source: str) -> bool:
    """Whether a source goes by a name, and is no table of the user's own."""
    return source in BY_NAME
