"""`amsfl methods` and `data`: what there is, how a table is read, and a table to try everything on."""

import inspect
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from amsfl import clock, combine, planning, transmit
from amsfl.cli import flags
from amsfl.cli.output import describe_data, plain, say, screen
from amsfl.core import Kind, UserError
from amsfl.core.records import Json
from amsfl.methods import METHODS, make
from amsfl.settings.definitions import OF_ROWS, RunConfig


def methods() -> None:
    """List methods, policies, rules, transmissions, profiles and the columns of a table of sites."""
    console = screen()
    table = _table("Methods", "--method", "options", "vectors\ndown/up", "what it does")
    made = {name: make(name) for name in METHODS.table}
    for name, method in made.items():
        vectors = f"{method.facts.vectors_down}/{method.facts.vectors_up}"
        table.add_row(name, *_about(METHODS, name, vectors))
    console.print(table)
    for method in made.values():
        if method.facts.note:
            console.print(plain(method.facts.note))
    others: dict[str, tuple[str, Any]] = {
        "Policies": ("--policy", planning.POLICIES),
        "Combining": ("--robust", combine.COMBINES),
        "Sending": ("--transmit", transmit.TRANSMITS),
    }
    for title, (flag, kind) in others.items():
        table = _table(title, flag, "options", "what it does")
        for name in kind.table:
            table.add_row(name, *_about(kind, name))
        console.print(table)
    _print_profiles(console)


def _table(title: str, *head: str) -> Table:
    """What is typed stands first, in one line however narrow the terminal is."""
    table = Table(*head, title=title)
    table.columns[0].no_wrap = True
    return table


def _about(kind: Kind[Any], name: str, *between: str) -> list[str]:
    """Its settings with their defaults, and the first line of its docstring."""
    options = [
        key if default in (None, inspect.Parameter.empty) else f"{key}={default:g}"
        for key, default in kind.settings(name).items()
    ]
    line = (inspect.getdoc(kind.factory(name)) or "").partition("\n")[0]
    return [", ".join(options), *between, plain(line)]


@flags.takes(RunConfig, only=sorted(OF_ROWS - {"data"}))
def data(
    settings: Json,
    *files: Annotated[
        str,
        Parameter(help="a table; several: one a site. Without one, the data sources are listed"),
    ],
    example: Annotated[
        bool, Parameter(help="write visits.csv and new-visits.csv, made-up tables to try")
    ] = False,
    out: Annotated[Path, Parameter(help="folder that --example writes to")] = Path("."),
) -> None:
    """List the data sources, or say how a table of yours is read; trains nothing.

    --example writes a table to try things on: visits to six hospitals with gaps, dates, an id, 3,000 words in
    a column, and 7% of one class. visits.csv has a label, new-visits.csv has rows to predict.
    """
    from amsfl.data import catalogue, load

    if example:
        return _write_example(out)
    if files:
        return describe_data(load(flags.with_tables({}, files)["data"], **settings), stderr=False)
    table = _table("Data", "data", "rows", "what it is", "where")
    for name, rows, what, where in catalogue():
        table.add_row(name, f"{rows:,}" if rows else "", what, plain(where))
    screen().print(table)


def _print_profiles(console: Console) -> None:
    """The built-in device profiles, and the columns of a table of sites."""
    head = ("--profile", "what it is", "seconds a step", "seconds of communication a round")
    table = _table("Profiles", *head)
    for name, (what, step, comm, _) in clock.BUILT_IN.items():
        table.add_row(name, what, " ".join(f"{v:g}" for v in step), " ".join(f"{v:g}" for v in comm))
    table.add_row("lognormal:0.02,0.8", "drawn: median and sigma", "seeded", "latency around 0.1, 20 Mbit/s")
    table.add_row("FILE.csv", "a table of sites, one line a client", "its columns are below", "")
    console.print(table)
    columns = _table("Tables of sites (FILE.csv; client holds names)", "column", "what it holds")
    for name, (what, *_) in clock.COLUMNS.items():
        columns.add_row(name, what)
    console.print(columns)


def _write_example(folder: Path) -> None:
    from amsfl.data.named import messy
    from amsfl.record.disk import make_folder, write_atomically

    files = messy()
    for file, content in files.items():
        path = folder / file
        if path.exists() and (not path.is_file() or path.read_bytes() != content):
            raise UserError(
                f"{str(path)!r} is there and is something else; move it away, or choose another --out."
            )
    make_folder(folder)
    for file, content in files.items():
        write_atomically(folder / file, content)
    table, new = (folder / file for file in files)
    say(f"{table}: visits to six hospitals; {new}: later ones, to predict")
    say(f"train:   amsfl run --data {table} --label readmitted")
    say(f"predict: amsfl predict runs/visits-amsfl-0 {new}")
