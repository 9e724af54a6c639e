"""`amsfl study energy`: what a limit on joules costs in seconds."""

from pathlib import Path
from typing import Annotated

import typer

from amsfl.cli.errors import friendly
from amsfl.cli.study_end import numbers, present, watcher


@friendly
def energy(
    profile: Annotated[str, typer.Option(help="battery, or a table with joules_step, joules_mb")] = "battery",
    data: Annotated[str, typer.Option(help="digits, nslkdd or another of `amsfl data`")] = "digits",
    data_dir: Annotated[str | None, typer.Option(help="where the NSL-KDD files are")] = None,
    method: Annotated[str, typer.Option(help="one whose policy keeps to a budget")] = "amsfl",
    model: Annotated[str, typer.Option(help="as in `amsfl run`")] = "softmax",
    target: Annotated[float, typer.Option(help="as in `amsfl run`")] = 0.95,
    clients: Annotated[int, typer.Option(min=1, help="as in `amsfl run`")] = 5,
    clock: Annotated[str, typer.Option(help="as in `amsfl run`")] = "makespan",
    budgets: Annotated[
        str, typer.Option(help="joules a round, with commas; by default from little more than one step each")
    ] = "",
    seeds: Annotated[int, typer.Option(min=1, help="seeds of every limit")] = 3,
    first_seed: Annotated[int, typer.Option(min=0, help="the first of them")] = 0,
    rounds: Annotated[int, typer.Option(min=1, help="of a run, at most")] = 500,
    out: Annotated[Path, typer.Option(help="folder of the study")] = Path("results/energy"),
    only_report: Annotated[bool, typer.Option(help="no runs: the table of what is finished")] = False,
) -> None:
    """Seconds and joules to a target under several limits on a round's joules: the trade-off, as a picture.

    Stop it with Ctrl-C and continue it with the same command.
    """
    from amsfl.data import load
    from amsfl.report.draw.trade_off import draw
    from amsfl.study import energy as work
    from amsfl.study import units

    if not only_report:
        dataset = load(data, data_dir=data_dir)
        settings = {
            "method": method, "model": model, "target": target, "clients": clients, "clock": clock,
            "profile": profile, "rounds": rounds, "details": False,
        }  # fmt: skip
        least = work.limits(settings, dataset)  # says, too, whether the profile knows joules
        asked: list[float | None] = [*numbers("--budgets", budgets, "20,40,80"), None] if budgets else least

        todo = list(work.todo(settings, asked, range(first_seed, first_seed + seeds)))
        units.run(out, dataset, todo, work.end, watcher())
    rows = work.read(out)
    text = work.as_markdown(rows)
    present(out, "energy", [row._asdict() for row in rows], text, lambda: draw(rows, out))
