"""A table once, written four ways: CSV for machines, Markdown, LaTeX and HTML for people.

All four print the same digits, so a number in one can be found in the others.
"""

import csv
import html
import io
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


class Table(NamedTuple):
    name: str
    title: str
    columns: list[Column]
    rows: list[Row]
    notes: list[str]


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
    return value if isinstance(value, str) else number(float(value), column)  # type: ignore[arg-type]


def best(table: Table) -> set[tuple[int, str]]:
    """(row, column) of the best mean in every column that has a best; lower bounds do not win."""
    found = set()
    for column in table.columns:
        if not column.best or len(table.rows) < 2:
            continue
        means = {
            place: value.mean if isinstance(value, Estimate) else value
            for place, row in enumerate(table.rows)
            if isinstance(value := row.values.get(column.key), Estimate | float)
            and column.key not in row.least
        }
        if len(set(means.values())) > 1:
            top = (max if column.best == "max" else min)(means.values())
            found |= {(place, column.key) for place, mean in means.items() if mean == top}
    return found


def to_csv(table: Table) -> str:
    """One column a number: intervals as _low and _high, the paper's as paper_; empty where there is none."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    spread = [c for c in table.columns if any(isinstance(r.values.get(c.key), Estimate) for r in table.rows)]
    beside = [c for c in table.columns if any(c.key in (r.paper or {}) for r in table.rows)]
    head = [
        n
        for c in table.columns
        for n in ([c.key, f"{c.key}_low", f"{c.key}_high"] if c in spread else [c.key])
    ]
    head += [f"paper_{c.key}" for c in beside]
    head += ["lower_bounds"] if any(row.least for row in table.rows) else []
    head += ["note"] if any(row.note for row in table.rows) else []
    writer.writerow(head)
    for row in table.rows:
        cells = [cell for c in table.columns for cell in _plain(row.values.get(c.key), c, c in spread)]
        cells += [printed(row, c).replace(DASH, "") for c in beside]
        if "lower_bounds" in head:
            cells.append(" ".join(c.key for c in table.columns if c.key in row.least))
        cells += [row.note] if "note" in head else []
        writer.writerow(cells)
    return out.getvalue()


def _plain(value: Value, column: Column, spread: bool) -> list[str]:
    if isinstance(value, Estimate):
        ends = [value.mean, value.low, value.high]
        return ["" if end is None else number(end, column) for end in ends]
    text = "" if value is None else value if isinstance(value, str) else number(value, column)
    return [text, "", ""] if spread else [text]


def to_markdown(table: Table) -> str:
    top = best(table)
    lines = [f"**{table.title}**", ""]
    lines.append("| " + " | ".join(column.head for column in table.columns) + " |")
    lines.append("| " + " | ".join("---" if c.key == "method" else "---:" for c in table.columns) + " |")
    for place, row in enumerate(table.rows):
        cells = []
        for column in table.columns:
            text, interval = parts(row, column)
            text = f"**{text}**" if (place, column.key) in top else text
            cells.append(f"{text} {interval}".strip())
        lines.append("| " + " | ".join(cells) + " |")
        if row.paper:
            beside = ["*paper*" if c.key == "method" else f"*{printed(row, c)}*" for c in table.columns]
            lines.append("| " + " | ".join(beside) + " |")
    return "\n".join([*lines, "", *table.notes, ""])


def to_html(table: Table) -> str:
    top = best(table)
    rows = []
    for place, row in enumerate(table.rows):
        cells = []
        for column in table.columns:
            text, interval = parts(row, column)
            small = f" <small>{html.escape(interval)}</small>" if interval else ""
            strong = ' class="best"' if (place, column.key) in top else ""
            tag = "th" if column.key == "method" else "td"
            cells.append(
                f'<{tag}{strong} data-key="{column.key}"><span>{html.escape(text)}</span>{small}</{tag}>'
            )
        rows.append(f"<tr>{''.join(cells)}</tr>")
        if row.paper:
            beside = "".join(
                "<th>paper</th>"
                if c.key == "method"
                else f'<td data-key="paper_{c.key}"><span>{html.escape(printed(row, c))}</span></td>'
                for c in table.columns
            )
            rows.append(f'<tr class="paper">{beside}</tr>')
    head = "".join(f"<th>{html.escape(column.head)}</th>" for column in table.columns)
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in table.notes)
    return (
        f'<section><h2>{html.escape(table.title)}</h2><div class="wide" tabindex="0" role="region" '
        f'aria-label="{html.escape(table.title)}"><table id="{table.name}"><thead><tr>{head}</tr></thead>'
        f'<tbody>{"".join(rows)}</tbody></table></div><div class="notes">{notes}</div></section>'
    )
