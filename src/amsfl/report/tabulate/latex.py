"""A table as LaTeX, ready to paste: booktabs rules, nothing else. What comes from data is escaped here."""

import re

from amsfl.report.tabulate.table import DASH, Cell, Line, Table, lines

SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
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


def escape(text: str) -> str:
    whole = "".join(SPECIAL.get(letter, letter) for letter in text)
    return re.sub("-(?=-)", "-{}", whole)  # two hyphens would be read as one dash


def to_latex(table: Table) -> str:
    """Needs \\usepackage{booktabs}."""
    made = [
        r"\begin{table}[htbp]",
        r"\centering",
        rf"\caption{{{escape(table.title)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\begin{tabular}{l" + "r" * (len(table.columns) - 1) + "}",
        r"\toprule",
        " & ".join(escape(column.head) for column in table.columns) + r" \\",
        r"\midrule",
        *(" & ".join(_cell(cell, line) for cell in line.cells) + r" \\" for line in lines(table)),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\smallskip{{\footnotesize {escape(note)}}}" for note in [*table.notes, *table.shared]),
        r"\end{table}",
        "",
    ]
    return "\n".join(made)


def _cell(cell: Cell, line: Line) -> str:
    text, interval = escape(cell.text), escape(cell.interval)
    if line.kind == "paper":
        return (r"\quad" if cell.head else "") + rf"\textit{{{text}}}"
    text = rf"\textbf{{{text}}}" if cell.best else text
    return text + (rf" {{\scriptsize {interval}}}" if interval else "")
