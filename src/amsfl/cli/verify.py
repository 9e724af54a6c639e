"""`amsfl verify`: is a record whole, and if not, what can be saved."""

from pathlib import Path
from typing import Annotated

import typer

from amsfl.cli.errors import friendly
from amsfl.cli.output import AsJson, plain, print_json


@friendly
def verify(
    folder: Annotated[Path, typer.Argument(help="a folder of a run, a study, real clients or a report")],
    as_json: AsJson = False,
) -> None:
    """Check every file of a record: format, checksums, settings, rounds. Exit code 1 if any is damaged."""
    from amsfl import record

    report = record.verify(folder)
    if as_json:
        rows = [part._asdict() for part in report.findings]
        print_json({"kind": report.kind, "good": report.good, "findings": rows})
    else:
        for part in report.findings:
            typer.echo(plain(f"{'whole  ' if part.good else 'DAMAGED'}  {part.what}: {part.said}"))
    if not report.good:
        raise typer.Exit(1)
