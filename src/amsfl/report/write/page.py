"""report.html: one file with everything in it, and nothing in it that runs but our own script."""

import base64
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from amsfl import __version__
from amsfl.report.draw.drawing import Picture
from amsfl.report.measure.subject import Study
from amsfl.report.tabulate.contents import apart
from amsfl.report.tabulate.table import Table, lines
from amsfl.report.write import claims, interactive
from amsfl.report.write.advice import advice, scope

HERE = Path(__file__).parent
INTERACTIVE = "accuracy_time"
FIRST = (INTERACTIVE, "time_to_target")  # before the words
VERDICTS = {True: ("yes", "agrees"), False: ("no", "does not agree"), None: ("soft", "unclear")}


def page(
    study: Study, tables: Sequence[Table], pictures: Sequence[Picture], settings: str, progress: str
) -> str:
    """`settings` is TOML, `progress` a sentence if something is missing.

    The template escapes all that it is given. Marked as safe are our own two files and nothing else, and
    the page's policy lets the browser run and style by these two alone, by their hashes.
    """
    style, script = (_ours(name) for name in ("page.css", "page.js"))
    return _template("page.html").render(
        policy=_policy(style, script),
        style=style,
        script=script,
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
        version=__version__,
        curves=interactive.data(study),
    )


def _template(name: str) -> Template:
    places = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined)
    return places.get_template(name)


def _ours(name: str) -> Markup:
    return Markup((HERE / name).read_text(encoding="utf-8"))


def _policy(style: str, script: str) -> str:
    style_hash, script_hash = (
        base64.b64encode(sha256(text.encode()).digest()).decode() for text in (style, script)
    )
    return (
        f"default-src 'none'; script-src 'sha256-{script_hash}'; style-src 'sha256-{style_hash}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _figure(picture: Picture) -> dict[str, str]:
    # as an image, not inline: every SVG keeps its ids to itself, and still follows light and dark
    return {
        "name": picture.name,
        "title": picture.title,
        "caption": picture.caption,
        "data": base64.b64encode(picture.svg.encode()).decode(),
    }
