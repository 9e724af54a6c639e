"""Data by name (`amsfl data` lists them), or any table."""

from pathlib import Path
from typing import NamedTuple

from amsfl.core import UserError, nearest
from amsfl.data import named
from amsfl.data.dataset import Dataset
from amsfl.data.nslkdd import Unavailable, find_location, load_nslkdd
from amsfl.data.nslkdd_synth import NOTE, ROWS, TEST_ROWS, load_synth
from amsfl.data.paths import ENDINGS, check_file, is_table
from amsfl.data.recipe import ColumnOptions, Names

BY_NAME = {  # name -> load(what stands behind a colon, hold-out, seed)
    "nslkdd": load_nslkdd,
    "nslkdd-synth": load_synth,
    "digits": named.load_digits,
    "images-synth": named.load_images,
    "texts-synth": named.load_texts,
    "synthetic": named.load_synthetic,
    "fcube": named.load_fcube,
    "fashion-mnist": named.load_fashion,
}
WITH_ARGUMENT = ("synthetic", "fashion-mnist", "nslkdd")
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
    label: str | None = None,
    client_column: str | None = None,
    holdout: float = HOLDOUT,
    seed: int = SEED,
    allow_synthetic: bool = True,
    drop: Names = "",
    columns: Names = "",
    missing: Names = "",
    task: str = "auto",
) -> Dataset:
    """A source by name, the path of a table, or a folder or pattern of tables, one a site.

    Where the real NSL-KDD cannot be had, nslkdd-synth stands in and its note says so.

    Args:
        source: A name of `amsfl data`, or a path.
        label: Column of what is predicted; by default one named label, target, class or y.
        client_column: Column of a row's owner; by default one named client, site or hospital.
        holdout: Share of rows to judge by; data of published comparisons keep their own.
        seed: Of the split into training pool and hold-out.
        allow_synthetic: Whether made-up data may stand in for NSL-KDD.
        drop: Columns to leave out, as in `a,b` or a list.
        columns: How to read some, as in `zip=words,code=hash`.
        missing: Words and numbers that mean a gap, as in `-999,unclear`.
        task: `auto`, `classification` or `regression`: what the label is.

    Returns:
        Training pool, splits to judge by, names of classes and features.
    """
    if "://" in source:
        check_file(source)
    if source.partition(":")[0] not in BY_NAME and is_table(source):
        from amsfl.data.table import load_table  # here: pandas is slow to import, and named data need none

        options = ColumnOptions(drop, columns, missing)
        return load_table(source, label, client_column, holdout, seed, options, task)
    if not is_named(source):
        what = "the folder has no tables, whose names" if Path(source).is_dir() else "its name must"
        hint = f"; {what} end in {', '.join(ENDINGS)}"
        hint = hint if Path(source).exists() else nearest(source, [*BY_NAME, "FILE.csv"])
        raise UserError(f"Unknown data {source!r}{hint}.")
    _refuse(source, label=label, client_column=client_column, drop=drop, columns=columns)
    _refuse(source, missing=missing, task="" if task == "auto" else task)
    name, _, argument = source.partition(":")
    try:
        return BY_NAME[name](argument, holdout, seed)
    except Unavailable:
        if not allow_synthetic:
            raise
        note = f"NSL-KDD is not here and could not be downloaded (--data nslkdd:FOLDER). {NOTE}"
        return load_synth("", holdout, seed)._replace(note=note)


def catalogue() -> list[DataSource]:
    """What there is, and where it was found or how to get it; downloads nothing.

    Returns:
        One Source a line.
    """
    clothes = named.find_fashion()
    tokens = "rows of 32 made-up tokens, 4 classes, for --model transformer"
    own = "your table: what to predict in a column, perhaps a client column"
    lines: list[tuple[str, int | None, str, str]] = [
        ("nslkdd", 148_517, "intrusion detection, 122 features, 5 classes", find_location()),
        ("nslkdd-synth", ROWS + TEST_ROWS, "made-up traffic to the same schema", "generated"),
        ("digits", 1_797, "8 x 8 images, 10 classes", "embedded in scikit-learn"),
        ("images-synth", named.IMAGES, "made-up 28 x 28 images, 10 classes, for --model cnn", "generated"),
        ("texts-synth", named.TEXTS, tokens, "generated"),
        ("synthetic:1,1", None, "FedProx's thirty sites, 60 features, 10 classes", "generated"),
        ("fcube", 5_000, "NIID-Bench's points in a cube, 2 classes", "generated"),
        ("fashion-mnist", 70_000, "28 x 28 images of clothes, 10 classes", clothes),
        ("FILE.csv", None, own, "pass its path"),
    ]
    return [DataSource(*line) for line in lines]


def is_named(source: str) -> bool:
    """Whether a source goes by a name, and is no table of the user's own.

    Args:
        source: As in `load`.

    Returns:
        Yes or no.
    """
    name, colon, _ = source.partition(":")
    return name in BY_NAME and (name in WITH_ARGUMENT or not colon)


def _refuse(source: str, **settings: object) -> None:
    """A setting that this source does not have is a mistake, not something to pass over."""
    for name, value in settings.items():
        if value:
            flag = name.replace("_", "-")
            raise UserError(f"--{flag} is for a table, and {source!r} is none; leave it out.")
