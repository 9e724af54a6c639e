"""One page in one file, HTML without scripts, and every other file of a report.

Whatever comes from data reaches the page through the template, which escapes it; only our own style is
marked as safe.
"""

import base64
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from amsfl.core import VERSION
from amsfl.core.records import Json
from amsfl.record import StudyRecord, dumps
from amsfl.report.comparison import Comparison, compare
from amsfl.report.figures import figures
from amsfl.report.read import shown
from amsfl.report.sentences import answer, brackets, notes, scope
from amsfl.report.tables import PROTOCOL, Column, Table, tables

SUMMARY, PAGE = "summary.json", "report.html"
LONG = 15  # rows that are shown without a click
DASH = "–"  # noqa: RUF001
HERE = Path(__file__).parent


def compose(
    sources: list[StudyRecord], target: float | None = None, score: str | None = None
) -> dict[str, bytes]:
    """Every file of the report by its name; reads and writes nothing."""
    c = compare(sources, target, score)
    made, marks = tables(c), [brackets(c), *dict.fromkeys(one.note for one in c.methods.values())]
    pictures = figures(c)
    about = {key: " ".join(filter(None, [c.banner, one.note])) for key, one in c.methods.items()}
    trials = c.trials.assign(note=c.trials["method"].map(about))
    files: dict[str, bytes] = {"trials.csv": trials.to_csv(index=False).encode()}
    for table in made:
        files[f"{table.name}.csv"] = to_csv(table).encode()
    for picture in pictures:
        files[f"{picture.name}.svg"], files[f"{picture.name}.png"] = picture.svg.encode(), picture.png
    files[SUMMARY] = dumps(summary(c), indent=1).encode()
    files[PAGE] = render(
        title=c.title,
        banner=c.banner,
        answer=answer(c),
        scope=scope(c),
        notes=[_unfinished(sources), *notes(c)],
        first=[picture for picture in pictures if picture.name == "score_time"],  # before the tables
        tables=made,
        marks=marks,
        pictures=[picture for picture in pictures if picture.name != "score_time"],
        protocol=PROTOCOL if c.paper else "",
        settings="\n".join(f"# {shown(s.folder)}\n{dumps(s.settings, indent=1)}" for s in sources),
    ).encode()
    return files


def _unfinished(sources: list[StudyRecord]) -> str:
    done = sum(len(trials) for source in sources for trials in source.trials.values())
    planned = sum(source.settings["trials"] * len(source.trials) for source in sources)
    left = f"Not finished: {done} of {planned} trials are on record, and this report is made from those."
    return left if done < planned else ""


def summary(c: Comparison) -> Json:
    """Everything in the report, for programs."""
    names = [
        str(name) for name in c.trials.select_dtypes(["number", "bool"]) if name not in ("trial", "seed")
    ]
    tests = c.tests.reset_index().to_dict("records") if len(c.tests) else []
    return {
        "title": c.title,
        "data": c.data,
        "synthetic": bool(c.banner),
        "notes": [*filter(None, [c.banner]), *notes(c)],
        "differences": c.differences,
        "score": c.score.name,
        "base_rate": c.base,
        "clock": c.clock,
        "seconds": c.budget,
        "target": c.target,
        "target_in_hindsight": c.in_hindsight,
        "reference": c.reference,
        "scope": scope(c),
        "answer": answer(c),
        "methods": {
            key: {
                "label": one.label,
                "note": one.note,
                "trials": len(one.trials),
                "seeds": [trial.seed for trial in one.trials],
                "measures": {name: _plain(c.interval(key, name)._asdict()) for name in names},
            }
            for key, one in c.methods.items()
        },
        "tests": [_plain(row) for row in tests],
    }


def _plain(row: Json) -> Json:
    return {key: None if isinstance(value, float) and value != value else value for key, value in row.items()}


def lines(table: Table) -> list[tuple[str, list[Json]]]:
    """Every row as text, with its kind."""
    rows: list[Json] = table.frame.to_dict("records")
    kinds = [_text(row.get("kind")) for row in rows]
    ours = table.frame[[kind == "" for kind in kinds]]
    best = {column.key: _best(ours, column) for column in table.columns if column.best}
    return [
        (kind, [_cell(row, column, kind == "" and best.get(column.key)) for column in table.columns])
        for row, kind in zip(rows, kinds, strict=True)
    ]


def _best(ours: pd.DataFrame, column: Column) -> float | None:
    """The best value of a column; lower bounds do not win."""
    values = pd.to_numeric(ours[column.key])
    if "least" in ours:
        values = values[[column.key not in _text(bounds).split() for bounds in ours["least"]]]
    if values.dropna().nunique() < 2:
        return None
    return float(values.max() if column.best == "max" else values.min())


def _cell(row: Json, column: Column, best: Any) -> Json:
    """Its text, an interval and whether it is the best, as far as it has them."""
    value = row.get(column.key)
    if isinstance(value, str):
        return {"text": value}
    if value is None or value != value:
        return {"text": DASH}
    if column.key.endswith("_p") and value < 0.5 * 10**-column.digits:
        return {"text": f"< {10**-column.digits:.{column.digits}f}"}  # a small p is not zero
    least = "≥ " if column.key in _text(row.get("least")).split() else ""
    low, high = row.get(f"{column.key}_low"), row.get(f"{column.key}_high")
    interval = "" if low is None or low != low else f"[{_number(low, column)}, {_number(high, column)}]"
    best = bool(best) and value == best and not least
    return {"text": least + _number(value, column), "interval": interval, "best": best}


def _number(value: Any, column: Column) -> str:
    return f"{value:{'+' if column.sign else ''}z.{column.digits}f}"  # never -0.00


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def to_csv(table: Table) -> str:
    """The frame, with all its digits: intervals as KEY_low and KEY_high."""
    keys = [column.key + end for column in table.columns for end in ("", "_low", "_high")]
    wanted = [key for key in [*keys, "least", "kind", "note"] if key in table.frame]
    return str(table.frame[wanted].to_csv(index=False, lineterminator="\n"))


def render(**values: Any) -> str:
    """The page; all values are escaped."""
    style = Markup((HERE / "page.css").read_text(encoding="utf-8"))
    templates = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined)
    templates.filters |= {"lines": lines, "as_data": _as_data}
    own = {"style": style, "version": VERSION, "long": LONG}
    return templates.get_template("page.html").render(**own | values)


def _as_data(svg: str) -> str:
    """As an image, not inline: every SVG keeps its ids to itself."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
