"""What --help shows of a command, in whole paragraphs and with a line for every argument."""

from typing import Any

import click
from typer.utils import get_params_from_function


def complete(command: click.Command) -> None:
    """Join the lines of each paragraph, and say again what the command's arguments are."""
    command.help = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    function: Any = getattr(command.callback, "__wrapped__", None)
    if function is None:
        return
    declared = get_params_from_function(function)
    for each in command.params:
        # click 8.5 sets the help of an argument to None after Typer has set it
        if isinstance(each, click.Argument) and not getattr(each, "help", None):
            each.help = declared[str(each.name)].default.help
