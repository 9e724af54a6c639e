"""`amsfl study`: the longer questions, each with a command that answers it again."""

from pathlib import Path
from typing import Annotated

import typer

from amsfl.cli.errors import friendly
from amsfl.cli.output import plain, screen
from amsfl.cli.study_end import present, watcher
from amsfl.cli.study_energy import energy
from amsfl.cli.study_privacy import audit, privacy

app = typer.Typer(
    help="Studies: adaptivity, asynchrony, energy, suite, robustness, privacy, audit.", no_args_is_help=True
)
app.command()(energy)
app.command()(privacy)
app.command()(audit)


@app.callback()
def study() -> None:
    """Studies that take longer than a run."""


@app.command()
@friendly
def adaptivity(
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="seeds of every setting")] = 3,
    first_seed: Annotated[int, typer.Option(min=0, max=2**31, help="the first of them")] = 100,
    data: Annotated[str, typer.Option(help="nslkdd or nslkdd-synth")] = "nslkdd",
    data_dir: Annotated[str | None, typer.Option(help="where the NSL-KDD files are")] = None,
    ablations: Annotated[bool, typer.Option(help="also AMSFL with one part off at a time")] = True,
    out: Annotated[Path, typer.Option(help="folder of the study")] = Path("results/adaptivity"),
    only_report: Annotated[bool, typer.Option(help="no runs: the table of what is finished")] = False,
) -> None:
    """Time to 89, 95 and 97% in twenty settings: AMSFL against everything tuned with hindsight.

    Takes about an hour on two cores. Stop it with Ctrl-C and continue it with the same command.
    """
    from amsfl.data import load
    from amsfl.report.draw.speedups import draw
    from amsfl.study import adaptivity as work
    from amsfl.study import speedups

    console = screen(stderr=True)
    if not only_report:
        dataset = load(data, data_dir=data_dir)
        if dataset.note:
            console.print(plain(dataset.note))

        work.run(out, dataset, range(first_seed, first_seed + seeds), ablations, watcher())
    rows = speedups.table(work.read(out))
    text = speedups.as_markdown(rows)
    present(out, "speedups", [row._asdict() for row in rows], text, lambda: draw(rows, out))


@app.command()
@friendly
def robustness(
    foes: Annotated[str, typer.Option(help="how many of ten clients attack, with commas")] = "1,2,3,4",
    seeds: Annotated[int, typer.Option(min=1, help="seeds of every setting")] = 3,
    first_seed: Annotated[int, typer.Option(min=0, help="the first of them")] = 100,
    seconds: Annotated[float, typer.Option(min=1, help="virtual seconds of every run")] = 180,
    names: Annotated[str, typer.Option(help="only contestants whose names have this in them")] = "",
    attacks: Annotated[str, typer.Option(help="these, with commas, in place of the study's nine")] = "",
    data: Annotated[str, typer.Option(help="digits, nslkdd or another of `amsfl data`")] = "digits",
    data_dir: Annotated[str | None, typer.Option(help="where the NSL-KDD files are")] = None,
    out: Annotated[Path, typer.Option(help="folder of the study")] = Path("results/robustness"),
    only_report: Annotated[bool, typer.Option(help="no runs: the table of what is finished")] = False,
) -> None:
    """Accuracy under the worst of all attacks: FedAvg, every rule, AMSFL with and without one.

    Stop it with Ctrl-C and continue it with the same command. Started several times over, with the same
    --out, the processes share the work.
    """
    from amsfl.core import UserError
    from amsfl.data import load
    from amsfl.report.draw.robustness import draw
    from amsfl.study import robustness as work

    counts = [int(each) for each in foes.split(",") if each.strip().isdigit() and 0 < int(each) < 10]
    if len(counts) != len(foes.split(",")):
        raise UserError(f"--foes is {foes!r}; give numbers from 1 to 9 with commas, as in 1,2.")
    if not only_report:
        dataset = load(data, data_dir=data_dir)

        chosen = [each for each in work.CONTESTANTS if names.lower() in each.lower()]
        if not chosen:
            raise UserError(
                f"No contestant has {names!r} in its name; there are {', '.join(work.CONTESTANTS)}."
            )
        which = [each.strip() for each in attacks.split(",") if each.strip()] or work.ATTACKS
        todo = list(work.units(range(first_seed, first_seed + seeds), counts, seconds, chosen, which))
        work.run(out, dataset, todo, watcher())
    rows = work.read(out)
    text = work.as_markdown(rows)
    present(out, "robustness", [row._asdict() for row in rows], text, lambda: draw(rows, out))


@app.command()
@friendly
def asynchrony(
    seeds: Annotated[int, typer.Option(min=1, help="seeds of every setting")] = 3,
    first_seed: Annotated[int, typer.Option(min=0, help="the first of them")] = 100,
    data: Annotated[str, typer.Option(help="nslkdd or nslkdd-synth")] = "nslkdd",
    data_dir: Annotated[str | None, typer.Option(help="where the NSL-KDD files are")] = None,
    only: Annotated[str, typer.Option(help="contestants that have this in their names, as in AMSFL")] = "",
    out: Annotated[Path, typer.Option(help="folder of the study")] = Path("results/asynchrony"),
    only_report: Annotated[bool, typer.Option(help="no runs: the table of what is finished")] = False,
) -> None:
    """Time to 95% where clients come late and vanish: rounds that wait, and rounds that do not.

    Stop it with Ctrl-C and continue it with the same command; as many processes as there are cores may share
    the folder. --only-report makes the table of what is finished.
    """
    from amsfl.core import UserError
    from amsfl.data import load
    from amsfl.report.draw.asynchrony import draw
    from amsfl.study import asynchrony as work
    from amsfl.study import asynchrony_table as tables

    if not only_report:
        names = [name for name in work.CONTESTANTS if only.lower() in name.lower()]
        if not names:
            raise UserError(f"No contestant has {only!r} in its name: {'; '.join(work.CONTESTANTS)}.")
        dataset = load(data, data_dir=data_dir)

        work.run(out, dataset, list(work.units(range(first_seed, first_seed + seeds), names)), watcher())
    cells = work.read(out)
    text = tables.as_markdown(tables.table(cells))
    present(out, "asynchrony", [cell._asdict() for cell in cells], text, lambda: draw(cells, out))


@app.command()
@friendly
def suite(
    seeds: Annotated[int, typer.Option(min=1, help="seeds of every setting")] = 2,
    first_seed: Annotated[int, typer.Option(min=0, help="the first of them")] = 0,
    cases: Annotated[str, typer.Option(help="names with commas, 'development', 'held-out' or 'all'")] = "all",
    peers: Annotated[bool, typer.Option(help="also FedAvgM, FedAdam and others that adapt")] = False,
    ablations: Annotated[
        bool, typer.Option(help="also AMSFL with one part off, and with other people's steps")
    ] = False,
    data_dir: Annotated[str | None, typer.Option(help="where the NSL-KDD files are")] = None,
    out: Annotated[Path, typer.Option(help="folder of the study")] = Path("results/suite"),
    only_report: Annotated[bool, typer.Option(help="no runs: the table of what is finished")] = False,
) -> None:
    """AMSFL on many kinds of data, models and clients, against everything tuned with hindsight.

    Takes about an hour on two cores. Stop it with Ctrl-C and continue it with the same command.
    """
    from amsfl.report.draw.speedups import draw
    from amsfl.study import suite as work
    from amsfl.study import suite_cases, suite_score

    console = screen(stderr=True)
    picked = suite_cases.pick(cases)
    if not only_report:

        def watch(unit: work.Unit, number: int, total: int) -> None:
            console.print(f"{number + 1} of {total}: {unit.case.name}, {unit.name}")

        todo = list(work.units(picked, range(first_seed, first_seed + seeds), peers, ablations))
        work.run(out, todo, data_dir, watch)
    groups = suite_score.grouped(work.read(out))
    text = suite_score.as_markdown(groups)
    if any(row.who != work.OURS for group in groups.values() for row in group):
        text += "\n" + suite_score.ablation(groups)
    every = {title: [row._asdict() for row in group] for title, group in groups.items()}
    present(out, "suite", every, text, lambda: draw(suite_score.dots(groups), out), "speedups")
