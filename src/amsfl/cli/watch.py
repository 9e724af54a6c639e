"""`amsfl watch`: a page that follows a record while it is written."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from amsfl.cli.errors import friendly
from amsfl.cli.output import plain, screen


@friendly
def watch(
    folder: Annotated[
        Path, typer.Argument(help="the folder of a run, a study or a Flower server; it need not exist yet")
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="port of the page; 0: any that is free")] = 0,
    show: Annotated[bool, typer.Option("--open", help="open the page in your browser")] = False,
) -> None:
    """Show a run, a study or real clients on a web page while they work: scores, steps, who is late.

    It reads the folder and writes nothing; only this machine can reach it. Ctrl-C ends it.
    """
    import webbrowser

    from amsfl.core import UserError
    from amsfl.report.live.serve import WatchServer

    if folder.exists() and not folder.is_dir():
        raise UserError(f"{str(folder)!r} is a file; name the folder of a run, a study or a server.")
    with WatchServer(folder, port) as server:
        screen().print(f"Watching {plain(str(folder))}: {server.address}", soft_wrap=True)
        screen().print("Ctrl-C ends it; the run goes on without it.")
        if show:
            webbrowser.open(server.address)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
