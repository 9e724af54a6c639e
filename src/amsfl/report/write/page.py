"""report.html: one file with everything in it."""

import base64
import html
from pathlib import Path
from string import Template

from amsfl import __version__
from amsfl.report.draw.drawing import Picture
from amsfl.report.measure.subject import Study
from amsfl.report.tabulate.table import Table, to_html
from amsfl.report.write import words

FIRST = ("accuracy_time", "time_to_target")  # before the words
VERDICTS = {True: ("yes", "agrees"), False: ("no", "does not agree"), None: ("soft", "unclear")}


def page(study: Study, tables: list[Table], pictures: list[Picture], settings: str, progress: str) -> str:
    """`settings` is TOML, `progress` a sentence if something is missing."""
    skeleton = Template((Path(__file__).parent / "page.html").read_text(encoding="utf-8"))
    return skeleton.substitute(
        title=html.escape(study.title),
        banner=f'<p class="banner">{html.escape(study.banner)}</p>' if study.banner else "",
        lead=html.escape(words.overview(study)),
        progress=f'<p class="soft">{html.escape(progress)}</p>' if progress else "",
        notes="".join(f'<p class="soft">{html.escape(note)}</p>' for note in study.notes),
        first="\n".join(_figure(picture) for picture in pictures if picture.name in FIRST),
        claims=_claims(study),
        tables="\n".join(to_html(table) for table in tables),
        figures="\n".join(_figure(picture) for picture in pictures if picture.name not in FIRST),
        settings=f"<details><summary>Settings, in full</summary><pre>{html.escape(settings)}</pre></details>",
        version=html.escape(__version__),
    )


def _claims(study: Study) -> str:
    found = words.claims(study)
    if not found:
        return ""
    items = "".join(
        f'<li><b class="{VERDICTS[claim.holds][0]}">{VERDICTS[claim.holds][1]}</b>'
        f"<span>{html.escape(claim.text)}</span></li>"
        for claim in found
    )
    return (
        f"<section><h2>Beside the paper</h2><p>{html.escape(words.protocol(study))}</p>"
        f'<ul class="claims">{items}</ul></section>'
    )


def _figure(picture: Picture) -> str:
    # as an image, not inline: every SVG keeps its ids to itself, and still follows light and dark
    data = base64.b64encode(picture.svg.encode()).decode()
    title, caption = html.escape(picture.title), html.escape(picture.caption)
    return (
        f'<figure id="{picture.name}"><h2>{title}</h2><img alt="{title}. {caption}" '
        f'src="data:image/svg+xml;base64,{data}"><figcaption>{caption}</figcaption></figure>'
    )
