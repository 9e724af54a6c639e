"""A table as Markdown; whatever comes from data is escaped here and nowhere else."""

import re

from amsfl.report.tabulate.table import Cell, Line, Table, lines

# what Markdown reads as more than a letter, in a cell or a paragraph of ours; $ is mathematics to some
SPECIAL = {letter: f"\\{letter}" for letter in "\\`*_[]|~$#"} | {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escape(text: str) -> str:
    return "".join(SPECIAL.get(letter, letter) for letter in text)


def paragraph(text: str) -> str:
    """A text that begins a line: what opens a list or underlines a heading there is a letter, too."""
    return re.sub(r"^(\d*)([-+=.)])", r"\1\\\2", escape(text))


def to_markdown(table: Table) -> str:
    head = [escape(column.head) for column in table.columns]
    ruler = ["---", *("---:" for _ in table.columns[1:])]
    rows = [[_cell(cell, line) for cell in line.cells] for line in lines(table)]
    body = [f"| {' | '.join(cells)} |" for cells in [head, ruler, *rows]]
    notes = [paragraph(note) for note in [*table.notes, *table.shared]]
    return "\n".join([f"**{escape(table.title)}**", "", *body, "", "\n\n".join(notes), ""])


def _cell(cell: Cell, line: Line) -> str:
    text = escape(cell.text)
    text = f"**{text}**" if cell.best else f"*{text}*" if line.kind == "paper" else text
    return f"{text} {cell.interval}".strip()
