"""`amsfl study privacy` and `audit`: what epsilon costs, what planning it is worth, whether it holds."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown

from amsfl.cli.errors import friendly
from amsfl.cli.output import plain, screen
from amsfl.cli.study_end import numbers, present, watcher


@friendly
def privacy(
    epsilons: Annotated[str, typer.Option(help="budgets of every site, with commas")] = "1,2,4,8",
    seeds: Annotated[int, typer.Option(min=2, help="seeds of every setting")] = 10,
    first_seed: Annotated[int, typer.Option(min=0, help="the first of them")] = 100,
    rounds: Annotated[int, typer.Option(min=1, help="rounds of every run")] = 30,
    data: Annotated[str, typer.Option(help="digits, nslkdd or another of `amsfl data`")] = "digits",
    data_dir: Annotated[str | None, typer.Option(help="where the NSL-KDD files are")] = None,
    model: Annotated[str, typer.Option(help="as in `amsfl run`")] = "softmax",
    partition: Annotated[str, typer.Option(help="as in `amsfl run`")] = "quantity:1",
    out: Annotated[Path, typer.Option(help="folder of the study")] = Path("results/privacy"),
    only_report: Annotated[bool, typer.Option(help="no runs: the table of what is finished")] = False,
) -> None:
    """Accuracy against epsilon, five unequal sites: FedAvg and AMSFL, with equal steps and with planned ones.

    Stop it with Ctrl-C and continue it with the same command.
    """
    from amsfl.data import load
    from amsfl.report.draw.privacy import draw
    from amsfl.study import privacy as work
    from amsfl.study import units

    if not only_report:
        dataset = load(data, data_dir=data_dir)

        every = range(first_seed, first_seed + seeds)
        todo = list(work.todo(every, numbers("--epsilons", epsilons, "1,2,4"), rounds, model, partition))
        units.run(out, dataset, todo, work.end, watcher())
    rows = work.read(out)
    text = work.as_markdown(rows)
    present(out, "privacy", [row._asdict() for row in rows], text, lambda: draw(rows, out))


@friendly
def audit(
    epsilons: Annotated[str, typer.Option(help="claimed budgets, with commas")] = "2,8",
    canaries: Annotated[int, typer.Option(min=10, max=10_000, help="rows that are in by a coin")] = 200,
    seeds: Annotated[int, typer.Option(min=1, help="runs of each kind")] = 3,
    first_seed: Annotated[int, typer.Option(min=0, help="the first of them")] = 100,
    rounds: Annotated[int, typer.Option(min=1, help="rounds of every run")] = 30,
    data: Annotated[str, typer.Option(help="digits or another of `amsfl data`, with classes")] = "digits",
    data_dir: Annotated[str | None, typer.Option(help="where the NSL-KDD files are")] = None,
    out: Annotated[Path, typer.Option(help="folder of the audit")] = Path("results/audit"),
) -> None:
    """Attack private models with canaries: what is proved of epsilon, beside what is claimed.

    One run whose noise is left out is attacked, too: there the claim must fall.
    """
    from amsfl.core import UserError
    from amsfl.data import load
    from amsfl.study import audit as work

    pool = load(data, data_dir=data_dir)
    if not pool.classes:
        raise UserError(f"The data {data!r} has no classes, and canaries are rows of a class.")
    claimed, every = numbers("--epsilons", epsilons, "1,2,4"), range(first_seed, first_seed + seeds)
    todo = list(work.audits(pool, claimed, every, rounds, canaries))
    rows = []
    for number, each in enumerate(todo):
        rows.append(each())
        text = work.write(rows, out)  # what is done so far, whatever ends it
        line = f"{number + 1} of {len(todo)}: {rows[-1].name}, claimed {rows[-1].claimed:.2f}"
        screen(stderr=True).print(plain(f"{line}, proved {rows[-1].bound:.2f}"))
    screen(width=140).print(Markdown(text))
    typer.echo(f"{out / 'audit.md'}")
