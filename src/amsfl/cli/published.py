"""`amsfl reproduce TABLE`: the table of a publication, ours beside theirs."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from amsfl.cli.output import plain, screen
from amsfl.cli.study_work import Execution, execute
from amsfl.core.records import Json

if TYPE_CHECKING:
    from amsfl.report.write.table_page import TablePage
    from amsfl.study.published_table import ComparedCell, PublishedTable


def reproduce_table(
    name: str,
    cases: str | None,
    methods: str | None,
    trials: int | None,
    settings: Json,
    execution: Execution,
) -> None:
    """Every case as a study in a folder of its own; then all of them on one page."""
    from amsfl.record import write_atomically
    from amsfl.report.write.table_page import write
    from amsfl.simulation.components import load_data
    from amsfl.study.published_table import read_table

    table = read_table(name).changed(_names(cases), _names(methods), trials, settings)
    for key, case in table.cases.items():
        dataset = load_data(case.study.config(case.study.reference))
        if not execution.quiet:
            screen(stderr=True).print(f"{plain(table.title)}: {plain(case.title)}")
        execute(case.study, dataset, execution._replace(out=execution.out / key))
    if not execution.part:
        content = page_of(name, execution.out)
        page = write(execution.out, content)
        write_atomically(page.with_suffix(".md"), content.markdown().encode())
        screen().print(f"Table: {plain(str(page))}", soft_wrap=True)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [each.strip() for each in text.split(",") if each.strip()]


def page_of(name: str, home: Path) -> "TablePage":
    """What is finished in a table's folder, ours beside theirs."""
    from amsfl.report.write.table_page import TablePage
    from amsfl.study.published_table import compare_with_published, read_table

    table = read_table(name)
    cells = [cell for cell in compare_with_published(table, home) if cell.ours or cell.published]
    rows = [_row(table, cell) for cell in cells]
    return TablePage(
        "published",
        table.title,
        f"{table.source}.",
        "Mean and deviation over trials of the best accuracy of any round; apart: in joint deviations.",
        "Ours beside theirs",
        HEAD,
        rows,
        _notes(table, cells),
        heads=2,
    )


HEAD = (
    "case",
    "method",
    "published, %",
    "ours, %",
    "apart",
    "trials",
    "rounds",
    "virtual seconds",
    "to 95% of FedAvg's best",
    "to FedAvg's best",
)


def _row(table: "PublishedTable", cell: "ComparedCell") -> list[str]:
    case = table.cases[cell.case]
    return [
        case.title,
        cell.entry,
        _number(cell.published),
        _number(cell.ours),
        f"{cell.apart:.1f}" if isfinite(cell.apart) else "",
        str(cell.trials or "not run"),
        str(cell.rounds or ""),
        f"{cell.seconds:,.0f}" if isfinite(cell.seconds) else "",
        _mean_seconds(cell.seconds_to_near),
        _mean_seconds(cell.seconds_to_best),
    ]


def _mean_seconds(seconds: Sequence[float]) -> str:
    """Their mean; of those that there are, with how many, where some are missing."""
    reached = [each for each in seconds if isfinite(each)]
    if not reached:
        return ""
    mean = f"{sum(reached) / len(reached):,.0f}"
    return mean if len(reached) == len(seconds) else f"{mean} ({len(reached)} of {len(seconds)} trials)"


def _number(number: tuple[float, float] | None) -> str:
    return "" if number is None else f"{number[0]:.2f} ± {number[1]:.2f}"


def _notes(table: "PublishedTable", cells: "list[ComparedCell]") -> list[str]:
    """How ours is done otherwise, what is not the whole recipe, and why cells are far apart."""
    from amsfl.study.published_table import APART

    far = [cell for cell in cells if cell.apart > APART]
    reasons = [
        f"{table.cases[cell.case].title}, {cell.entry}: {cell.apart:.1f} joint deviations apart. "
        f"{cell.why or 'Nobody has said why yet.'}"
        for cell in far
    ]
    short = [cell for cell in cells if cell.ours and not cell.whole]
    if short:
        many = f"{len(short)} of {len(cells)} lines"
        reasons.append(f"{many} have fewer rounds or trials than the recipe and are not held against it.")
    return [*table.differences, *reasons]
