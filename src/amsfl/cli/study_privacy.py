"""`amsfl study privacy` and `audit`: what epsilon costs, what planning it is worth, whether it holds."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown

from amsfl.cli.errors import friendly
from amsfl.cli.screen import plain, screen


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
    from amsfl.record import dumps
    from amsfl.report.draw.privacy import draw
    from amsfl.study import privacy as work
    from amsfl.study import units

    console = screen(stderr=True)
    if not only_report:
        dataset = load(data, data_dir=data_dir)

        def watch(name: str, number: int, total: int) -> None:
            console.print(plain(f"{number + 1} of {total}: {name}"))

        every = range(first_seed, first_seed + seeds)
        todo = list(work.todo(every, _numbers(epsilons), rounds, model, partition))
        units.run(out, dataset, todo, work.end, watch)
    rows = work.read(out)
    text = work.as_markdown(rows)
    (out / "privacy.md").write_text(text, encoding="utf-8")
    (out / "privacy.json").write_text(dumps([row._asdict() for row in rows], indent=1), encoding="utf-8")
    draw(rows, out)
    screen(width=140).print(Markdown(text))
    typer.echo(f"{out / 'privacy.md'}, {out / 'privacy.png'}")


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
    todo = list(
        work.audits(pool, _numbers(epsilons), range(first_seed, first_seed + seeds), rounds, canaries)
    )
    rows = []
    for number, each in enumerate(todo):
        rows.append(each())
        text = work.write(rows, out)  # what is done so far, whatever ends it
        line = f"{number + 1} of {len(todo)}: {rows[-1].name}, claimed {rows[-1].claimed:.2f}"
        screen(stderr=True).print(plain(f"{line}, proved {rows[-1].bound:.2f}"))
    screen(width=140).print(Markdown(text))
    typer.echo(f"{out / 'audit.md'}")


def _numbers(given: str) -> list[float]:
    from amsfl.core import UserError

    try:
        return [float(each) for each in given.split(",")]
    except ValueError:
        raise UserError(f"--epsilons is {given!r}; give numbers with commas, as in 1,2,4.") from None
