"""The command: one module a topic; what is slow to import waits until its command runs."""

from typing import Annotated

import typer

from amsfl.cli import (
    bench,
    calibrate,
    check,
    deploy,
    example,
    forecast,
    lists,
    plan,
    predict,
    reproduce,
    run,
    site,
    sweep,
    tune,
    verify,
    watch,
    worth,
)
from amsfl.cli.errors import Commands
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
    "From a table to predictions": (
        *(example.example, lists.data, run.run, reproduce.compare, predict.predict, deploy.deploy),
    ),
    "The model of a run": (predict.evaluate, predict.explain, predict.export),
    "Runs and studies": (
        *(reproduce.reproduce, reproduce.report, run.resume, watch.watch, verify.verify, tune.tune),
        *(sweep.sweep, worth.worth, check.check, bench.bench),
    ),
    "Real clients": (plan.plan, calibrate.calibrate, forecast.forecast, site.supernode, site.doctor),
    "What there is": (lists.methods, lists.profiles),
}
for panel, commands in COMMANDS.items():
    for command in commands:
        passed_on = site.PASSED_ON if command in (site.supernode, site.doctor) else None
        app.command(rich_help_panel=panel, context_settings=passed_on)(command)
