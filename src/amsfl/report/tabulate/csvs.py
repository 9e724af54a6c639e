"""A table as CSV, for machines."""

import csv
import io

from amsfl.report.measure.stats import Estimate
from amsfl.report.tabulate.table import DASH, Column, Table, Value, number, printed


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
