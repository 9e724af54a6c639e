"""A table as LaTeX, ready to paste: booktabs rules, nothing else."""

from amsfl.report.tabulate.table import DASH, Table, best, parts, printed

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
    "≥": r"$\geq$",
    "±": r"$\pm$",
    "×": r"$\times$",  # noqa: RUF001
    "→": r"$\to$",
    "·": r"\textperiodcentered{}",
    "†": r"\dag{}",
    DASH: "--",
}


def escape(text: str) -> str:
    return "".join(SPECIAL.get(letter, letter) for letter in text)


def to_latex(table: Table) -> str:
    """Needs \\usepackage{booktabs}."""
    top = best(table)
    lines = [r"\begin{table}[htbp]", r"\centering", rf"\caption{{{escape(table.title)}}}"]
    lines += [
        rf"\label{{tab:{table.name}}}",
        r"\begin{tabular}{l" + "r" * (len(table.columns) - 1) + "}",
        r"\toprule",
    ]
    lines += [" & ".join(escape(column.head) for column in table.columns) + r" \\", r"\midrule"]
    for place, row in enumerate(table.rows):
        cells = []
        for column in table.columns:
            text, interval = (escape(part) for part in parts(row, column))
            text = rf"\textbf{{{text}}}" if (place, column.key) in top else text
            # the braces keep a bracket after \\ or & from being read as an argument
            cells.append(text + (rf" {{\scriptsize {interval}}}" if interval else ""))
        lines.append(" & ".join(cells) + r" \\")
        if row.paper:
            beside = [
                r"\quad\textit{paper}",
                *(rf"\textit{{{escape(printed(row, c))}}}" for c in table.columns[1:]),
            ]
            lines.append(" & ".join(beside) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\smallskip{{\footnotesize {escape(note)}}}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}", ""])
