"""`amsfl verify` and `check`: what a record says, whole or not, ended or not."""

from pathlib import Path
from typing import Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from amsfl import record
from amsfl.cli.output import AsJson, plain, print_json, say, screen

VERDICT = {True: ("holds", "green"), False: ("fails", "red"), None: ("cannot be told", "dim")}


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
    if list_disclosed:
        from amsfl.simulation.recorded_disclosure import leaves_of

        leaves = leaves_of(folder)
        if as_json:
            return print_json([leaf._asdict() for leaf in leaves])
        for leaf in leaves:
            _print_entry(Text.assemble((leaf.name, "bold"), f"  {leaf.what}, {leaf.when}"), leaf.protected)
        return
    from amsfl import theory

    results = theory.check_folder(folder)
    if as_json:
        return print_json(theory.table(results))
    for result in results:
        slack = "" if result.slack_min is None else f", least slack {result.slack_min:.3g}"
        checked = f" ({result.checked} comparisons{slack})" if result.checked else ""
        claim = (result.name, "bold"), f", {result.form} ({result.where})"
        _print_entry(Text.assemble(VERDICT[result.holds], "  ", *claim, (checked, "dim")), result.verdict)


def _print_entry(head: Text, below: str) -> None:
    screen().print(head)
    screen().print(Padding(plain(below), (0, 0, 0, 4)))


def verify(
    folder: Annotated[Path, typer.Argument(help="a folder of a run, a study, real clients or a report")],
    as_json: AsJson = False,
) -> None:
    """Check every file of a record: format, checksums, settings, rounds. Exit code 1 if any is damaged."""
    report = record.verify(folder)
    if as_json:
        rows = [part._asdict() for part in report.findings]
        print_json({"kind": report.kind, "good": report.good, "findings": rows})
    else:
        for part in report.findings:
            say(f"{'whole  ' if part.good else 'DAMAGED'}  {part.what}: {part.said}")
    if not report.good:
        raise typer.Exit(1)
