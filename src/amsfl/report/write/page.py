"""report.html: one file with everything in it, and nothing in it that runs but our own script."""

import base64
from collections.abc import Sequence

from amsfl.core.version import VERSION
from amsfl.report.draw.drawing import Picture
from amsfl.report.measure.subject import Study
from amsfl.report.tabulate.contents import apart
from amsfl.report.tabulate.table import Table, lines
from amsfl.report.write import claims, html, interactive
from amsfl.report.write.advice import advice, scope

INTERACTIVE = "accuracy_time"
FIRST = (INTERACTIVE, "time_to_target")  # before the words
VERDICTS = {True: ("yes", "agrees"), False: ("no", "does not agree"), None: ("soft", "unclear")}


def page(
    study: Study, tables: Sequence[Table], pictures: Sequence[Picture], settings: str, progress: str
) -> str:
    """`settings` is TOML, `progress` a sentence if something is missing.

    The template escapes all that it is given, and nothing runs but our own script (html.py).
    """
    return html.page(
        "page.html",
        ["page.css"],
        ["chart.js", "page.js"],
        title=study.title,
        banners=list(filter(None, [study.banner, apart(study)])),
        advice=advice(study),
        scope=scope(study),
        progress=progress,
        notes=study.notes,
        first=[_figure(picture) for picture in pictures if picture.name in FIRST],
        interactive=INTERACTIVE,
        protocol=claims.protocol(study),
        claims=[
            {"kind": VERDICTS[claim.holds][0], "verdict": VERDICTS[claim.holds][1], "text": claim.text}
            for claim in claims.claims(study)
        ],
        tables=[table._asdict() | {"lines": lines(table)} for table in tables],
        marks=list(dict.fromkeys(one.note for one in study.found if one.note)),
        pictures=[_figure(picture) for picture in pictures if picture.name not in FIRST],
        settings=settings,
        version=VERSION,
        curves=interactive.data(study),
    ).text


def _figure(picture: Picture) -> dict[str, str]:
    # as an image, not inline: every SVG keeps its ids to itself, and still follows light and dark
    return {
        "name": picture.name,
        "title": picture.title,
        "caption": picture.caption,
        "data": base64.b64encode(picture.svg.encode()).decode(),
    }
