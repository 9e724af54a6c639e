"""`amsfl check`: the paper's claims held against a recorded run."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

from amsfl.cli.errors import friendly

VERDICT = {True: "[green]holds[/]", False: "[red]fails[/]", None: "[dim]cannot be told[/]"}


@friendly
def check(
    folder: Annotated[Path, typer.Argument(help="the folder that a run wrote (with --readings)")],
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, nothing else")] = False,
) -> None:
    """Say which of the paper's claims a recorded run supports, as printed and as corrected, with slack."""
    from amsfl import theory

    results = theory.check_folder(folder)
    if as_json:
        typer.echo(json.dumps(theory.table(results)))
        return
    out = Console(highlight=False)
    for found in results:
        slack = "" if found.slack_min is None else f", least slack {found.slack_min:.3g}"
        checked = f" [dim]({found.checked} comparisons{slack})[/]" if found.checked else ""
        out.print(f"{VERDICT[found.holds]}  [bold]{found.name}[/], {found.form} ({found.where}){checked}")
        out.print(Padding(escape(found.verdict), (0, 0, 0, 4)))
