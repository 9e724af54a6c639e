"""`amsfl methods`, `amsfl data`, `amsfl profiles`: what there is."""

from rich.console import Console
from rich.table import Table

from amsfl.cli.errors import friendly


@friendly
def methods() -> None:
    """List the methods, their options and what they send."""
    from amsfl.methods import METHODS

    table = Table("method", "name", "options", "vectors down/up", "what it does", title="Methods")
    notes = []
    for name in METHODS.names():
        method = METHODS.make(name)
        options = ", ".join(f"{key}={default:g}" for key, default in METHODS.settings(name).items())
        line = (METHODS.factory(name).__doc__ or "").strip().partition("\n")[0]
        table.add_row(name, method.title, options, f"{method.vectors_down}/{method.vectors_up}", line)
        if method.note:
            notes.append(method.note)
    console = Console(highlight=False)
    console.print(table)
    for note in notes:
        console.print(note)


@friendly
def data() -> None:
    """List the data sources and where they are found."""
    from amsfl.data import catalogue

    table = Table("data", "rows", "what it is", "where", title="Data")
    for name, rows, what, where in catalogue():
        table.add_row(name, str(rows), what, where)
    Console(highlight=False).print(table)


@friendly
def profiles() -> None:
    """List the built-in device profiles."""
    from amsfl.clock import BUILT_IN

    table = Table(
        "profile", "what it is", "seconds a step", "seconds of communication a round", title="Profiles"
    )
    for name, (what, step, comm, _) in BUILT_IN.items():
        table.add_row(name, what, " ".join(f"{v:g}" for v in step), " ".join(f"{v:g}" for v in comm))
    table.add_row("lognormal:0.02,0.8", "drawn: median and sigma", "seeded", "latency around 0.1, 20 Mbit/s")
    table.add_row("FILE.csv", "step_seconds, latency, up_mbps, down_mbps", "one line a client", "")
    Console(highlight=False).print(table)
