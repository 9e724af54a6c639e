"""A table as values, line by line as text, and as CSV, Markdown and LaTeX.

All of them and HTML print the same digits, so a number in one can be found in the others. Text from data is
escaped here, but for HTML.
"""

import csv
import io
import re
from collections.abc import Sequence
from typing import NamedTuple

from amsfl.report.measure.stats import Estimate

DASH = "–"  # noqa: RUF001
Value = Estimate | float | str | None
# what Markdown reads as more than a letter, in a cell or a paragraph; $ is mathematics to some
MARKDOWN = {letter: f"\\{letter}" for letter in "\\`*_[]|~$#"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
LATEX = {letter: f"\\{letter}" for letter in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    '"': r"\char34{}",
    "`": r"\char96{}",
    "[": "{[}",  # a bracket after \\ would be read as its argument
    "]": "{]}",
    "≥": r"$\geq$",
    "±": r"$\pm$",
    "×": r"$\times$",  # noqa: RUF001
    "→": r"$\to$",
    "·": r"\textperiodcentered{}",
    "†": r"\dag{}",
    "…": r"\dots{}",
    DASH: r"\textendash{}",
}


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


def paper_text(row: TableRow, column: TableColumn, missing: str = DASH) -> str:
    """The paper's cell."""
    value = (row.paper or {}).get(column.key)
    return missing if value is None else number(value, column)


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


def to_csv(table: ReportTable) -> str:
    """One column a number: intervals as _low and _high, the paper's as paper_; empty where there is none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    wide = [c for c in table.columns if any(isinstance(r.values.get(c.key), Estimate) for r in table.rows)]
    paper = [c for c in table.columns if any(c.key in (r.paper or {}) for r in table.rows)]
    ends = ("", "_low", "_high")
    head = [f"{c.key}{end}" for c in table.columns for end in (ends if c in wide else ends[:1])]
    head += [f"paper_{c.key}" for c in paper]
    head += ["lower_bounds"] if any(row.least for row in table.rows) else []
    head += ["note"] if any(row.note for row in table.rows) else []
    writer.writerow(head)
    for row in table.rows:
        cells = [cell for c in table.columns for cell in _csv_cells(row.values.get(c.key), c, c in wide)]
        cells += [paper_text(row, c, "") for c in paper]
        if "lower_bounds" in head:
            cells.append(" ".join(c.key for c in table.columns if c.key in row.least))
        cells += [row.note] if "note" in head else []
        writer.writerow(cells)
    return out.getvalue()


def _csv_cells(value: Value, column: TableColumn, wide: bool) -> list[str]:
    if isinstance(value, Estimate):
        return ["" if end is None else number(end, column) for end in (value.mean, value.low, value.high)]
    text = "" if value is None else value if isinstance(value, str) else number(value, column)
    return [text, "", ""] if wide else [text]


def escape_markdown(text: str) -> str:
    return "".join(MARKDOWN.get(letter, letter) for letter in text)


def markdown_paragraph(text: str) -> str:
    """A text that begins a line: a sign that would open a list or underline a heading is escaped, too."""
    return re.sub(r"^(\d*)([-+=.)])", r"\1\\\2", escape_markdown(text))


def to_markdown(table: ReportTable) -> str:
    head = [escape_markdown(column.head) for column in table.columns]
    ruler = ["---", *("---:" for _ in table.columns[1:])]
    rows = [[_markdown_cell(cell, line) for cell in line.cells] for line in lines(table)]
    body = [f"| {' | '.join(cells)} |" for cells in [head, ruler, *rows]]
    notes = [markdown_paragraph(note) for note in [*table.notes, *table.shared]]
    return "\n".join([f"**{escape_markdown(table.title)}**", "", *body, "", "\n\n".join(notes), ""])


def _markdown_cell(cell: TableCell, line: TableLine) -> str:
    text = escape_markdown(cell.text)
    text = f"**{text}**" if cell.best else f"*{text}*" if line.kind == "paper" else text
    return f"{text} {cell.interval}".strip()


def escape_latex(text: str) -> str:
    whole = "".join(LATEX.get(letter, letter) for letter in text)
    return re.sub("-(?=-)", "-{}", whole)  # two hyphens would be read as one dash


def to_latex(table: ReportTable) -> str:
    """Needs \\usepackage{booktabs}."""
    rows = [" & ".join(_latex_cell(cell, line) for cell in line.cells) + r" \\" for line in lines(table)]
    notes = [*table.notes, *table.shared]
    return "\n".join(
        [
            r"\begin{table}[htbp]",
            r"\centering",
            rf"\caption{{{escape_latex(table.title)}}}",
            rf"\label{{tab:{table.name}}}",
            r"\begin{tabular}{l" + "r" * (len(table.columns) - 1) + "}",
            r"\toprule",
            " & ".join(escape_latex(column.head) for column in table.columns) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            *(rf"\par\smallskip{{\footnotesize {escape_latex(note)}}}" for note in notes),
            r"\end{table}",
            "",
        ]
    )


def _latex_cell(cell: TableCell, line: TableLine) -> str:
    text, interval = escape_latex(cell.text), escape_latex(cell.interval)
    if line.kind == "paper":
        return (r"\quad" if cell.head else "") + rf"\textit{{{text}}}"
    text = rf"\textbf{{{text}}}" if cell.best else text
    return text + (rf" {{\scriptsize {interval}}}" if interval else "")
