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
    tune,
    verify,
    watch,
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


app.command()(reproduce.reproduce)
app.command()(reproduce.compare)
app.command()(tune.tune)
app.command()(reproduce.report)
app.command()(run.run)
app.command()(run.resume)
app.command()(predict.predict)
app.command()(predict.evaluate)
app.command()(predict.explain)
app.command()(predict.export)
app.command()(watch.watch)
app.command()(verify.verify)
app.command()(plan.plan)
app.command()(check.check)
app.command()(calibrate.calibrate)
app.command()(forecast.forecast)
app.command()(deploy.deploy)
app.command(context_settings=site.PASSED_ON)(site.supernode)
app.command(context_settings=site.PASSED_ON)(site.doctor)
app.command()(bench.bench)
app.command()(example.example)
app.command()(lists.methods)
app.command()(lists.data)
app.command()(lists.profiles)
