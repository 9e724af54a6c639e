"""The command: one module a topic, imported only when its command runs, so that `amsfl --help` is quick."""

import typer

from amsfl.cli import lists, run

app = typer.Typer(
    name="amsfl",
    help="Federated learning where every client gets its own number of local steps.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.command()(run.run)
app.command()(run.resume)
app.command()(lists.methods)
app.command()(lists.data)
app.command()(lists.profiles)
