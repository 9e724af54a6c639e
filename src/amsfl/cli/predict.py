"""`amsfl predict` and `amsfl export`: the model of a run, used and taken elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

from amsfl.cli.errors import friendly
from amsfl.core import UserError, nearest

Run = Annotated[Path, typer.Argument(help="the folder of a run, or of an export")]
Which = Annotated[
    str, typer.Option(help="last: the final model; best: that of the best round by the hold-out")
]


@friendly
def predict(
    run: Run,
    rows: Annotated[Path, typer.Argument(help="a table of new rows with the columns of the training table")],
    out: Annotated[Path, typer.Option(help="where to write them")] = Path("predictions.csv"),
    keep: Annotated[
        str, typer.Option(help="columns of the new rows to repeat beside the predictions, as in id,name")
    ] = "",
    which: Which = "last",
) -> None:
    """Predict new rows: their class with a probability for every class, or their number in its own units."""
    from amsfl import portable
    from amsfl.portable.predictions import as_csv
    from amsfl.record import write_atomically

    text, count = as_csv(portable.load(run, which), str(rows), _kept(rows, keep))
    write_atomically(out, text)
    typer.echo(f"{count:,} predictions: {out}")


def _kept(rows: Path, keep: str) -> dict[str, list[str]]:
    """The columns asked for, as the file has them."""
    from amsfl.data.read_table import read_file

    names = [name.strip() for name in keep.split(",") if name.strip()]
    columns = read_file(str(rows)).columns if names else {}
    for name in names:
        if name not in columns:
            raise UserError(f"{rows} has no column {name!r} to keep{nearest(name, list(columns))}.")
    return {name: [cell or "" for cell in columns[name].text.to_pylist()] for name in names}


@friendly
def export(
    run: Run,
    to: Annotated[str, typer.Option(help="torch, onnx or sklearn")],
    out: Annotated[Path | None, typer.Option(help="folder; RUN/export-FORMAT by default")] = None,
    which: Which = "last",
) -> None:
    """Write a run's model for another library, with what loads it there."""
    from amsfl import portable
    from amsfl.portable.export import export as write

    where = out or run / f"export-{to}"
    made = write(portable.load(run, which), to, where)
    typer.echo(f"{where}: {', '.join(made)}")
