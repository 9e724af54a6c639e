"""A table once, as values; and line by line as people see it, whatever it is written in.

CSV, Markdown, LaTeX and HTML print the same digits, so a number in one can be found in the others.
"""

from collections.abc import Sequence
from typing import NamedTuple

from amsfl.report.measure.stats import Estimate

Value = Estimate | float | str | None
DASH = "–"  # noqa: RUF001 (an en dash is what stands in an empty cell)


class Column(NamedTuple):
    key: str
    head: str
    digits: int = 0
    best: str = ""  # max or min: print the best mean in bold
    sign: bool = False


class Row(NamedTuple):
    values: dict[str, Value]
    paper: dict[str, Value] | None = None  # the paper's numbers for the same columns
    least: frozenset[str] = frozenset()  # columns whose value is a lower bound
    note: str = ""  # what a reader of this row must know, for the CSV; people find it below the table
    aside: bool = False  # something to hold the others against, no contestant


class Table(NamedTuple):
    name: str
    title: str
    columns: list[Column]
    rows: list[Row]
    notes: Sequence[str]  # about this table
    shared: Sequence[str] = ()  # about all of them: with a table that stands alone, once on a page


class Cell(NamedTuple):
    key: str
    text: str
    interval: str = ""
    best: bool = False
    head: bool = False


class Line(NamedTuple):
    kind: str  # "", paper or aside
    cells: list[Cell]


def number(value: float, column: Column) -> str:
    text = f"{value:{'+' if column.sign else ''}.{column.digits}f}"
    return text if float(text) else f"{0:.{column.digits}f}"  # never -0.00


def parts(row: Row, column: Column) -> tuple[str, str]:
    """What stands in a cell: the value, and its interval (or '')."""
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


def printed(row: Row, column: Column) -> str:
    """The paper's cell."""
    value = (row.paper or {}).get(column.key)
    if value is None:
        return DASH
    if isinstance(value, str):
        return value
    return number(value.mean if isinstance(value, Estimate) else value, column)


def best(table: Table) -> set[tuple[int, str]]:
    """(row, column) of the best mean in every column that has a best; lower bounds do not win."""
    found = set()
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
            found |= {(place, column.key) for place, mean in means.items() if mean == top}
    return found


def lines(table: Table) -> list[Line]:
    """Every row as text, the paper's numbers on a line of their own below ours."""
    top, first = best(table), table.columns[0].key
    made = []
    for place, row in enumerate(table.rows):
        cells = [
            Cell(c.key, *parts(row, c), best=(place, c.key) in top, head=c.key == first)
            for c in table.columns
        ]
        made.append(Line("aside" if row.aside else "", cells))
        if row.paper:
            beside = [Cell(f"paper_{c.key}", printed(row, c)) for c in table.columns[1:]]
            made.append(Line("paper", [Cell("", "paper", head=True), *beside]))
    return made
