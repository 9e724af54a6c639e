"""`amsfl study privacy`: what epsilon costs, and what planning it is worth."""

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
    from amsfl.core import UserError
    from amsfl.data import load
    from amsfl.record import dumps
    from amsfl.report.draw.privacy import draw
    from amsfl.study import privacy as work
    from amsfl.study import units

    console = screen(stderr=True)
    try:
        budgets = [float(each) for each in epsilons.split(",")]
    except ValueError:
        raise UserError(f"--epsilons is {epsilons!r}; give numbers with commas, as in 1,2,4.") from None
    if not only_report:
        dataset = load(data, data_dir=data_dir)

        def watch(name: str, number: int, total: int) -> None:
            console.print(plain(f"{number + 1} of {total}: {name}"))

        todo = list(work.todo(range(first_seed, first_seed + seeds), budgets, rounds, model, partition))
        units.run(out, dataset, todo, work.end, watch)
    rows = work.read(out)
    text = work.as_markdown(rows)
    (out / "privacy.md").write_text(text, encoding="utf-8")
    (out / "privacy.json").write_text(dumps([row._asdict() for row in rows], indent=1), encoding="utf-8")
    draw(rows, out)
    screen(width=140).print(Markdown(text))
    typer.echo(f"{out / 'privacy.md'}, {out / 'privacy.png'}")
