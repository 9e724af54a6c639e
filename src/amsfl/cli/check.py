"""`amsfl check`: the paper's claims held against a recorded run."""

from pathlib import Path
from typing import Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from amsfl.cli.errors import friendly
from amsfl.cli.output import AsJson, plain, print_json, screen

VERDICT = {True: ("holds", "green"), False: ("fails", "red"), None: ("cannot be told", "dim")}


@friendly
def check(
    folder: Annotated[Path, typer.Argument(help="the folder that a run wrote (with --readings)")],
    list_disclosed: Annotated[
        bool, typer.Option("--leaves", help="list what left the clients, and what protected it")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say which of the paper's claims hold in a recorded run, as printed and as corrected.

    With --leaves: every quantity that left a client of this run, and what protected it.
    """
    from amsfl import theory

    if list_disclosed:
        _leaves(folder, as_json)
        return

    results = theory.check_folder(folder)
    if as_json:
        print_json(theory.table(results))
        return
    out = screen()
    for result in results:
        slack = "" if result.slack_min is None else f", least slack {result.slack_min:.3g}"
        checked = f" ({result.checked} comparisons{slack})" if result.checked else ""
        claim = (f"{result.name}", "bold"), f", {result.form} ({result.where})"
        out.print(Text.assemble(VERDICT[result.holds], "  ", *claim, (checked, "dim")))
        out.print(Padding(plain(result.verdict), (0, 0, 0, 4)))


def _leaves(folder: Path, as_json: bool) -> None:
    from amsfl.simulation.recorded_disclosure import leaves_of

    result = leaves_of(folder)
    if as_json:
        print_json([leaf._asdict() for leaf in result])
        return
    out = screen()
    for leaf in result:
        out.print(Text.assemble((leaf.name, "bold"), f"  {leaf.what}, {leaf.when}"))
        out.print(Padding(plain(leaf.protected), (0, 0, 0, 4)))
