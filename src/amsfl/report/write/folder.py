"""From folders of records to every output: tables, figures, summary.json and report.html."""

from collections.abc import Sequence
from pathlib import Path

import tomli_w

from amsfl.record import dumps, publish
from amsfl.report.draw.figures import figures
from amsfl.report.measure.describe import describe
from amsfl.report.measure.read import ReportSource, read
from amsfl.report.measure.stats import Estimate
from amsfl.report.measure.subject import Subject
from amsfl.report.measure.text import block, shown
from amsfl.report.tabulate.contents import shared_notes, tables
from amsfl.report.tabulate.formats import to_csv, to_latex, to_markdown
from amsfl.report.tabulate.table import ReportTable, Value
from amsfl.report.write.advice import advice, scope
from amsfl.report.write.claims import claims
from amsfl.report.write.page import page

SUMMARY, PAGE = "summary.json", "report.html"


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
    settings = block("\n".join(f"# {shown(s.folder)}\n{tomli_w.dumps(s.settings)}" for s in sources))
    files[PAGE] = page(subject, made, pictures, settings, _progress(sources)).encode()
    return files


def _progress(sources: list[ReportSource]) -> str:
    done = sum(len(series.trials) for source in sources for series in source.series)
    planned = sum(source.planned * len(source.series) for source in sources)
    if done >= planned:
        return ""
    return f"Not finished: {done} of {planned} trials are on record, and this report is made from those."


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
