"""The command: one module a topic; what is slow to import waits until its command runs."""

from typing import Annotated

import typer

from amsfl.cli import calibrate, deploy, forecast, lists, plan, predict, run, studies
from amsfl.cli.errors import Commands, sentences
from amsfl.core.version import VERSION

app = typer.Typer(
    name="amsfl",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"amsfl {VERSION}")
        raise typer.Exit


@app.callback()
def amsfl(
    version: Annotated[
        bool, typer.Option("--version", help="print the version", is_eager=True, callback=show_version)
    ] = False,
) -> None:
    """Federated learning where every client gets its own number of local steps."""


COMMANDS = {  # the first page of --help: one story from a table to real clients, then the rest by topic
    "From a table to predictions": (lists.data, run.run, studies.compare, predict.predict, deploy.deploy),
    "The model of a run": (predict.explain, predict.export),
    "Runs and studies": (
        studies.reproduce,
        studies.report,
        run.resume,
        studies.sweep,
    ),
    "Real clients": (plan.plan, calibrate.calibrate, forecast.forecast, deploy.supernode),
    "What there is": (lists.methods,),
}
for panel, commands in COMMANDS.items():
    for command in commands:
        passed_on = deploy.PASSED_ON if command is deploy.supernode else None
        app.command(rich_help_panel=panel, context_settings=passed_on)(sentences()(command))
