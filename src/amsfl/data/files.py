"""Which files of rows a source means: one, or one a site; and their names."""

from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from amsfl.core import UserError

TEXT_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
ENDINGS = (*TEXT_ENDINGS, ".parquet", ".jsonl", ".xlsx")


def is_table(source: str) -> bool:
    """Whether a source is a file of rows, or several: a folder, a pattern (sites/*.csv) or a.csv,b.csv."""
    return source.lower().endswith(ENDINGS) or bool(site_files(source))


def site_files(source: str) -> list[Path]:
    """The files that a source means, if it means several."""

    def has_rows(file: Path) -> bool:
        return file.name.lower().endswith(ENDINGS)

    if Path(source).is_dir():
        files = list(Path(source).iterdir())
    elif Path(source).exists():
        return []
    elif "*" in source:
        files = list(Path(source).parent.glob(Path(source).name))
    else:
        files = [Path(part) for part in source.split(",")]
        return files if len(files) > 1 and all(has_rows(file) for file in files) else []
    return sorted(filter(has_rows, files))


def source_name(source: str) -> str:
    """A short name of a source: its file's without ending; of several files their folder's."""
    files = site_files(source)
    if not files or Path(source).is_dir():
        return Path(source).resolve().name if files else bare(Path(source).name)
    return files[0].resolve().parent.name


def bare(name: str) -> str:
    """A table's name without its ending."""
    end = next((end for end in ENDINGS if name.lower().endswith(end)), "")
    return name[: len(name) - len(end)] or name


def check_file(path: str) -> None:
    """Say what is wrong with a path that is no file of rows."""
    if "://" in path:
        raise UserError(f"{path} is a URL, and tables are read from files; download it first.")
    if Path(path).is_dir():
        raise UserError(f"Folder {path} has no tables, whose names end in {', '.join(ENDINGS)}.")
    if not Path(path).is_file():
        names = list[str]()
        with suppress(OSError):
            names = [each.name for each in Path(path).parent.iterdir()]
        close = get_close_matches(Path(path).name, names, n=1, cutoff=0.8)
        raise UserError(f"There is no file {path}{f' (did you mean {close[0]!r}?)' if close else ''}.")
    if not path.lower().endswith(ENDINGS):
        raise UserError(f"{path} is no table by its name, which must end in {', '.join(ENDINGS)}.")


def name_files(files: list[Path]) -> list[str]:
    """Each file's name without its ending, with as many of its folders as tell all of them apart."""
    whole = [file.absolute() for file in files]
    for paths in ([file.with_name(bare(file.name)) for file in whole], whole):
        for depth in range(1, 1 + max(len(path.parts) for path in paths)):
            names = ["/".join(path.parts[-depth:]) for path in paths]
            if len(set(names)) == len(names):
                return names
    twice = next(file for place, file in enumerate(whole) if file in whole[:place])
    raise UserError(f"{twice} is given twice; give every site's file once.")
