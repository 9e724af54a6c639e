"""`amsfl example`: a table to try everything on."""

from pathlib import Path
from typing import Annotated

import typer

from amsfl.cli.errors import friendly
from amsfl.cli.output import plain
from amsfl.core import UserError, nearest

EXAMPLES = ("messy",)


@friendly
def example(
    name: Annotated[str, typer.Argument(help="messy: visits to six hospitals, and who comes back")] = "messy",
    rows: Annotated[int, typer.Option(min=100, max=10_000_000, help="rows of the table")] = 20_000,
    out: Annotated[Path, typer.Option(help="folder to write to")] = Path("."),
) -> None:
    """Write a table to try things on: gaps, dates, an id, 3,000 words in a column, 7% of one class.

    visits.csv has a label, new-visits.csv has rows to predict. The rows are made up, and the same each time.
    """
    from amsfl.data.example import messy
    from amsfl.record import write_atomically
    from amsfl.record.disk import make_folder

    if name not in EXAMPLES:
        raise UserError(f"There is no example {name!r}{nearest(name, EXAMPLES)}.")
    files = messy(rows)
    for file, content in files.items():
        path = out / file
        if path.exists() and (not path.is_file() or path.read_bytes() != content):
            raise UserError(
                f"{str(path)!r} is there and is something else; move it away, or choose another --out."
            )
    make_folder(out)
    for file, content in files.items():
        write_atomically(out / file, content)
    table, new = (out / file for file in files)
    typer.echo(plain(f"{table}: {rows:,} visits to six hospitals; {new}: later ones, to predict"))
    typer.echo(plain(f"train:   amsfl run --data {table} --label readmitted"))
    typer.echo(plain(f"predict: amsfl predict runs/visits-amsfl-0 {new}"))
