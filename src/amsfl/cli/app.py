"""The command: one module a topic; what is slow to import waits until its command runs."""

import ast
import sys
from collections.abc import Sequence
from pathlib import Path

from cyclopts import App, CycloptsError, Group, Parameter

from amsfl.cli.output import ALL, OWN, sentences, usage
from amsfl.core import VERSION, nearest

COMMANDS = {  # the first page of --help: one story from a table to real clients, then the rest by topic
    "From a table to predictions": {
        "data": "tables",
        "run": "run",
        "compare": "studies",
        "predict": "predict",
        "deploy": "deploy",
    },
    "The model of a run": {"explain": "predict", "export": "predict"},
    "Runs and studies": {"reproduce": "studies", "report": "studies", "resume": "run", "sweep": "studies"},
    "Real clients": {
        "plan": "sites",
        "calibrate": "sites",
        "forecast": "sites",
        "supernode": "deploy",
    },
    "What there is": {"methods": "tables"},
}


NAMES = [name for commands in COMMANDS.values() for name in commands]


def make_app(first_page: bool = False) -> App:
    """The first page has every command's first sentence, and needs none of what commands import."""
    made = App(
        name="amsfl",
        help="Federated learning where every client gets its own number of local steps.",
        version=f"amsfl {VERSION}",
        help_flags=["--help"],
        help_format="plaintext" if first_page else "markdown",
        group_parameters=OWN,
        default_parameter=Parameter(
            negative_iterable=(), negative_bool=(), show_default=False, allow_repeating=True
        ),
        result_action="return_value",
        suppress_keyboard_interrupt=False,  # main says that it was stopped
    )
    for place, (topic, commands) in enumerate(COMMANDS.items()):
        group = Group(topic, sort_key=place)
        for number, (name, module) in enumerate(commands.items()):
            about = first_sentence(module, name) if first_page else None
            made.command(f"amsfl.cli.{module}:{name}", name=name, group=group, sort_key=number, help=about)
    return made


def first_sentence(module: str, command: str) -> str:
    file = ast.parse(Path(__file__).with_name(f"{module}.py").read_bytes())
    functions = {node.name: node for node in file.body if isinstance(node, ast.FunctionDef)}
    return (ast.get_docstring(functions[command]) or "").partition("\n\n")[0]


app = make_app()


def call(words: Sequence[str]) -> int:
    """Run one command; its exit code: 0, 2 for a mistake, 1 for the machine's trouble."""
    words = list(words)
    first_page = not words or words == ["--help"]
    if words and not words[0].startswith("-") and words[0] not in NAMES:
        print(f"amsfl: there is no command {words[0]!r}{nearest(words[0], NAMES)}.", file=sys.stderr)
        return 2
    if ALL in words and words[0] in NAMES:
        command = app[words[0]].default_command
        if hasattr(command, "show"):
            command.show(every=True)  # type: ignore[union-attr]
        words = [word if word != ALL else "--help" for word in words]
    try:
        with sentences():
            (make_app(first_page) if first_page else app)(words, exit_on_error=False, print_error=False)
    except CycloptsError as mistake:
        print(f"amsfl: {usage(mistake, words)}", file=sys.stderr)
        return 2
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    return 0


def parameters(name: str) -> list[tuple[tuple[str, ...], str, bool]]:
    """A command's arguments and flags, all of them: how each is spelled, its sentence, and whether a flag."""
    show = getattr(app[name].default_command, "show", lambda every: None)
    show(every=True)
    listed = [
        (each.names, str(each.parameter.help or ""), each.names[0].startswith("-"))
        for each in app[name].assemble_argument_collection()
        if each.parameter.show is not False
    ]
    show(every=False)
    return listed
