"""What goes wrong is one sentence on stderr: exit code 2 for a mistake, 1 for the machine's trouble."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import typer
from typer.core import TyperGroup
from typer.utils import get_params_from_function

from amsfl.cli.output import plain
from amsfl.core import Remark, UserError, missing, nearest
from amsfl.core.registry import blame

OTHER_NAMES = {  # flags of other tools, and ours
    "--algorithm": "--method",
    "--alpha": "--partition",
    "--batch-size": "--batch",
    "--budget-seconds": "--budget",
    "--clients-per-round": "--cohort",
    "--compression": "--transmit",
    "--csv": "--data",
    "--dataset": "--data",
    "--duration": "--seconds",
    "--file": "--data",
    "--fraction": "--cohort",
    "--iterations": "--rounds",
    "--learning-rate": "--lr",
    "--local-epochs": "--epochs",
    "--local-steps": "--steps",
    "--n-clients": "--clients",
    "--network": "--model",
    "--num-clients": "--clients",
    "--num-rounds": "--rounds",
    "--output": "--out",
    "--random-seed": "--seed",
    "--strategy": "--method",
    "--target-column": "--label",
}


class Commands(TyperGroup):
    """The command line: a word or flag that is wrong is one sentence that suggests the right one."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for command in self.commands.values():
            _complete(command)

    def main(self, *args: Any, **extra: Any) -> Any:
        try:
            code = super().main(*args, **extra | {"standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as wanted:
            wanted.show()
            sys.exit(wanted.exit_code)
        except click.ClickException as mistake:
            _say(_usage(mistake))
            sys.exit(mistake.exit_code)
        except click.Abort:
            sys.exit(1)
        sys.exit(code or 0)


def _complete(command: click.Command) -> None:
    """What --help shows: whole paragraphs, and a line for every argument."""
    command.help = "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    function: Any = getattr(command.callback, "__wrapped__", None)
    if function is None:
        return
    declared = get_params_from_function(function)
    for each in command.params:
        # click 8.5 sets the help of an argument to None after Typer has set it
        if isinstance(each, click.Argument) and not getattr(each, "help", None):
            each.help = declared[str(each.name)].default.help


def _usage(mistake: click.ClickException) -> str:
    context = mistake.ctx if isinstance(mistake, click.UsageError) else None
    if isinstance(mistake, click.NoSuchOption) and context is not None:
        flags = [flag for each in context.command.params for flag in (*each.opts, *each.secondary_opts)]
        other = OTHER_NAMES.get(mistake.option_name)
        close = f" (did you mean {other}?)" if other in flags else nearest(mistake.option_name, flags)
        return f"'{context.command_path}' has no flag {mistake.option_name}{close}."
    sentence = " ".join(mistake.format_message().split()).rstrip(".")
    return f"{sentence}; see '{context.command_path} --help'." if context else f"{sentence}."


@contextmanager
def sentences() -> Iterator[None]:
    """`with sentences():`, or `sentences()(command)`: what a user's mistake or a full disk comes to."""
    show = warnings.showwarning

    def showwarning(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
        """Remarks as one line each; other warnings as ever."""
        if issubclass(category, Remark):
            _say(str(message))
        else:
            show(message, category, *rest, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", Remark)
        warnings.showwarning = showwarning
        try:
            yield
        except UserError as mistake:
            _say(str(mistake))
            raise typer.Exit(mistake.code) from mistake
        except ModuleNotFoundError as absent:
            if not missing(absent):
                raise
            _say(missing(absent))
            raise typer.Exit(2) from absent
        except (BrokenPipeError, click.exceptions.Exit, click.ClickException, click.Abort):
            raise  # click's own; it ends quietly where nobody reads on, as in `amsfl ... | head`
        except OSError as trouble:
            what = trouble.strerror or str(trouble) or type(trouble).__name__
            _say(f"{trouble.filename}: {what}." if trouble.filename else f"{what}.")
            raise typer.Exit(1) from trouble
        except Exception as trouble:
            # how Python says that a thread's stack got no memory
            if isinstance(trouble, MemoryError) or str(trouble) == "can't start new thread":
                _say("There is not enough memory for this; use fewer clients, a smaller model or less data.")
                raise typer.Exit(1) from trouble
            said = blame(trouble)
            if not said:
                raise
            _say(said)
            raise typer.Exit(2) from trouble


def _say(sentence: str) -> None:
    print(f"amsfl: {plain(sentence)}", file=sys.stderr)
