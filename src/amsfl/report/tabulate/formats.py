"""A table as CSV, Markdown and LaTeX. Text from data is escaped here."""

import csv
import io
import re

from amsfl.report.measure.stats import Estimate
from amsfl.report.tabulate.table import (
    DASH,
    ReportTable,
    TableCell,
    TableColumn,
    TableLine,
    Value,
    lines,
    number,
    paper_text,
)

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


def to_csv(table: ReportTable) -> str:
    """One column a number: intervals as _low and _high, the paper's as paper_; empty where there is none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    wide = [c for c in table.columns if any(isinstance(r.values.get(c.key), Estimate) for r in table.rows)]
    paper = [c for c in table.columns if any(c.key in (r.paper or {}) for r in table.rows)]
    head = [
        name
        for c in table.columns
        for name in ([c.key, f"{c.key}_low", f"{c.key}_high"] if c in wide else [c.key])
    ]
    head += [f"paper_{c.key}" for c in paper]
    head += ["lower_bounds"] if any(row.least for row in table.rows) else []
    head += ["note"] if any(row.note for row in table.rows) else []
    writer.writerow(head)
    for row in table.rows:
        cells = [cell for c in table.columns for cell in _csv_cells(row.values.get(c.key), c, c in wide)]
        cells += [paper_text(row, c).replace(DASH, "") for c in paper]
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
