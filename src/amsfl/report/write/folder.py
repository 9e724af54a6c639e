"""From folders of records to every output: tables, figures, summary.json and report.html."""

from collections.abc import Sequence
from pathlib import Path

import tomli_w

from amsfl.record import dumps, publish
from amsfl.report.draw.drawing import Picture
from amsfl.report.draw.figures import figures
from amsfl.report.measure.describe import describe
from amsfl.report.measure.read import ReportSource, read
from amsfl.report.measure.stats import Estimate
from amsfl.report.measure.subject import Subject
from amsfl.report.measure.text import block, shown
from amsfl.report.tabulate.contents import no_comparison, shared_notes, tables
from amsfl.report.tabulate.table import ReportTable, Value, lines, to_csv, to_latex, to_markdown
from amsfl.report.write import html, interactive
from amsfl.report.write.advice import advice, scope
from amsfl.report.write.claims import PROTOCOL, claims

SUMMARY, PAGE = "summary.json", "report.html"
INTERACTIVE = "accuracy_time"
FIRST = (INTERACTIVE, "time_to_target")  # before the tables
VERDICTS = {True: ("yes", "agrees"), False: ("no", "does not agree"), None: ("soft", "unclear")}


def write(folders: list[Path], out: Path, target: float | None = None, score: str | None = None) -> Path:
    """Read what is finished in the folders and write the report.

    Args:
        folders: Of studies and runs.
        out: Where the report goes.
        target: Another score of the hold-out to measure times to.
        score: Which one, as in f1; that of the records by default.

    Returns:
        The page's path.
    """
    publish(out, compose(read(folders), target, score))
    return out / PAGE


def compose(
    sources: list[ReportSource], target: float | None = None, score: str | None = None
) -> dict[str, bytes]:
    """Every file of the report by its name; reads and writes nothing."""
    subject = describe(sources, target, score)
    made, pictures = tables(subject), figures(subject, shared_notes(subject))
    files: dict[str, bytes] = {}
    for table in made:
        for suffix, convert in (("csv", to_csv), ("md", to_markdown), ("tex", to_latex)):
            files[f"{table.name}.{suffix}"] = convert(table).encode()
    for picture in pictures:
        files[f"{picture.name}.svg"], files[f"{picture.name}.png"] = picture.alone.encode(), picture.png
    files[SUMMARY] = dumps(summary(subject, made), indent=1).encode()
    files[PAGE] = _page(subject, made, pictures, sources).encode()
    return files


def _page(
    subject: Subject, made: Sequence[ReportTable], pictures: Sequence[Picture], sources: list[ReportSource]
) -> str:
    done = sum(len(series.trials) for source in sources for series in source.series)
    planned = sum(source.planned * len(source.series) for source in sources)
    unfinished = (
        f"Not finished: {done} of {planned} trials are on record, and this report is made from those."
    )
    return html.page(
        "page.html",
        ["page.css"],
        ["chart.js", "page.js"],
        title=subject.title,
        banners=list(filter(None, [subject.banner, no_comparison(subject)])),
        advice=advice(subject),
        scope=scope(subject),
        progress=unfinished if done < planned else "",
        notes=subject.notes,
        first=[html.figure(picture) for picture in pictures if picture.name in FIRST],
        interactive=INTERACTIVE,
        protocol=PROTOCOL,
        claims=[(*VERDICTS[claim.holds], claim.text) for claim in claims(subject)],
        tables=[table._asdict() | {"lines": lines(table)} for table in made],
        marks=list(dict.fromkeys(one.note for one in subject.methods if one.note)),
        pictures=[html.figure(picture) for picture in pictures if picture.name not in FIRST],
        settings=block("\n".join(f"# {shown(s.folder)}\n{tomli_w.dumps(s.settings)}" for s in sources)),
        curves=interactive.data(subject),
    ).text


def summary(subject: Subject, made: Sequence[ReportTable]) -> dict[str, object]:
    """Everything in the report, for programs."""
    names = sorted({name for one in subject.methods for row in one.values for name in row})
    tests = next((table.rows for table in made if table.name == "tests"), [])
    return {
        "title": subject.title,
        "data": subject.data,
        "synthetic": subject.synthetic,
        "notes": [*filter(None, [subject.banner]), *subject.notes],
        "differences": subject.differences,
        "score": subject.score.name,
        "judged_by": subject.fitting_score.name,
        "base_rate": subject.base,
        "clock": subject.clock,
        "seconds": subject.seconds,
        "target": subject.target,
        "reference": subject.reference.series.key,
        "overview": f"{scope(subject)} {advice(subject)}",
        "claims": [claim._asdict() for claim in claims(subject)],
        "methods": {
            one.series.key: {
                "label": one.label,
                "note": one.note,
                "trials": len(one.values),
                "seeds": [trial.seed for trial in one.series.trials],
                "measures": {name: _plain(one.mean(name)) for name in names},
            }
            for one in subject.methods
        },
        "tests": [{key: _plain(value) for key, value in row.values.items()} for row in tests],
    }


def _plain(value: Value) -> object:
    return value._asdict() if isinstance(value, Estimate) else value
