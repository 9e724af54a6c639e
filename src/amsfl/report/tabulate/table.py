"""A table as values, and line by line as text.

CSV, Markdown, LaTeX and HTML print the same digits, so a number in one can be found in the others.
"""

from collections.abc import Sequence
from typing import NamedTuple

from amsfl.report.measure.stats import Estimate

DASH = "–"  # noqa: RUF001
Value = Estimate | float | str | None


class TableColumn(NamedTuple):
    key: str
    head: str
    digits: int = 0
    best: str = ""  # max or min, where one end is better
    sign: bool = False


class TableRow(NamedTuple):
    values: dict[str, Value]
    paper: dict[str, float] | None = None  # the paper's numbers for the same columns
    least: frozenset[str] = frozenset()  # columns whose value is a lower bound
    note: str = ""  # about this row, for the CSV; the page has it below the table
    aside: bool = False  # for comparison, such as the base rate: never the best


class ReportTable(NamedTuple):
    name: str
    title: str
    columns: list[TableColumn]
    rows: list[TableRow]
    notes: Sequence[str]  # about this table
    shared: Sequence[str] = ()  # about all tables: in every file, once on a page


class TableCell(NamedTuple):
    key: str
    text: str
    interval: str = ""
    best: bool = False
    head: bool = False


class TableLine(NamedTuple):
    kind: str  # "", paper or aside
    cells: list[TableCell]


METHOD = TableColumn("method", "Method")


def number(value: float, column: TableColumn) -> str:
    text = f"{value:{'+' if column.sign else ''}.{column.digits}f}"
    return text if float(text) else f"{0:.{column.digits}f}"  # never -0.00


def cell_text(row: TableRow, column: TableColumn) -> tuple[str, str]:
    """The value and its interval (or '')."""
    value = row.values.get(column.key)
    if value is None:
        return DASH, ""
    if isinstance(value, str):
        return value, ""
    mean = value.mean if isinstance(value, Estimate) else value
    text = ("≥ " if column.key in row.least else "") + number(mean, column)
    if column.key.endswith(("_p", "_holm")) and not float(text):
        return f"< {10**-column.digits:.{column.digits}f}", ""  # a small p is not zero
    if isinstance(value, Estimate) and value.low is not None and value.high is not None:
        return text, f"[{number(value.low, column)}, {number(value.high, column)}]"
    return text, ""


def paper_text(row: TableRow, column: TableColumn) -> str:
    """The paper's cell."""
    value = (row.paper or {}).get(column.key)
    return DASH if value is None else number(value, column)


def best(table: ReportTable) -> set[tuple[int, str]]:
    """(row, column) of the best mean in every column that has a best; lower bounds do not win."""
    places = set()
    for column in table.columns:
        means = {
            place: value.mean if isinstance(value, Estimate) else value
            for place, row in enumerate(table.rows)
            if isinstance(value := row.values.get(column.key), Estimate | float)
            and column.key not in row.least
            and not row.aside
        }
        if column.best and len(set(means.values())) > 1:
            top = (max if column.best == "max" else min)(means.values())
            places |= {(place, column.key) for place, mean in means.items() if mean == top}
    return places


def lines(table: ReportTable) -> list[TableLine]:
    """Every row as text, the paper's numbers on a line of their own below ours."""
    top, first, made = best(table), table.columns[0].key, []
    for place, row in enumerate(table.rows):
        cells = [
            TableCell(c.key, *cell_text(row, c), best=(place, c.key) in top, head=c.key == first)
            for c in table.columns
        ]
        made.append(TableLine("aside" if row.aside else "", cells))
        if row.paper:
            paper = [TableCell(f"paper_{c.key}", paper_text(row, c)) for c in table.columns[1:]]
            made.append(TableLine("paper", [TableCell("", "paper", head=True), *paper]))
    return made
