"""report.html: one file with everything in it."""

from collections.abc import Sequence

from amsfl.report.draw.drawing import Picture
from amsfl.report.measure.subject import Subject
from amsfl.report.tabulate.contents import no_comparison
from amsfl.report.tabulate.table import ReportTable, lines
from amsfl.report.write import claims, html, interactive
from amsfl.report.write.advice import advice, scope

INTERACTIVE = "accuracy_time"
FIRST = (INTERACTIVE, "time_to_target")  # before the tables
VERDICTS = {True: ("yes", "agrees"), False: ("no", "does not agree"), None: ("soft", "unclear")}


def page(
    subject: Subject, tables: Sequence[ReportTable], pictures: Sequence[Picture], settings: str, progress: str
) -> str:
    """`settings` is TOML, `progress` a sentence if something is missing."""
    return html.page(
        "page.html",
        ["page.css"],
        ["chart.js", "page.js"],
        title=subject.title,
        banners=list(filter(None, [subject.banner, no_comparison(subject)])),
        advice=advice(subject),
        scope=scope(subject),
        progress=progress,
        notes=subject.notes,
        first=[html.figure(picture) for picture in pictures if picture.name in FIRST],
        interactive=INTERACTIVE,
        protocol=claims.PROTOCOL,
        claims=[
            {"kind": VERDICTS[claim.holds][0], "verdict": VERDICTS[claim.holds][1], "text": claim.text}
            for claim in claims.claims(subject)
        ],
        tables=[table._asdict() | {"lines": lines(table)} for table in tables],
        marks=list(dict.fromkeys(one.note for one in subject.methods if one.note)),
        pictures=[html.figure(picture) for picture in pictures if picture.name not in FIRST],
        settings=settings,
        curves=interactive.data(subject),
    ).text
