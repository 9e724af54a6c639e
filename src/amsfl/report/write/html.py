"""HTML pages with everything in them: our own style and script, and a policy that lets nothing else run."""

import base64
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from amsfl.core.version import VERSION
from amsfl.report.draw.drawing import Picture

FOLDER = Path(__file__).parent


class Page(NamedTuple):
    text: str
    policy: str  # Content-Security-Policy: our own style and script by their hashes


def page(template: str, styles: Sequence[str], scripts: Sequence[str], **values: Any) -> Page:
    """Fill a template.

    All values are escaped; only our own files are marked as safe.
    """
    style, script = _own_files(styles), _own_files(scripts)
    policy = (
        f"default-src 'none'; script-src 'sha256-{_hash(script)}'; style-src 'sha256-{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    templates = Environment(loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined)
    own = {"policy": policy, "style": style, "script": script, "version": VERSION}
    text = templates.get_template(template).render(**own, **values)
    return Page(text, policy)


def figure(picture: Picture) -> dict[str, str]:
    """A picture for a template. As an image, not inline: every SVG keeps its ids to itself."""
    data = base64.b64encode(picture.svg.encode()).decode()
    return {"name": picture.name, "title": picture.title, "caption": picture.caption, "data": data}


def _own_files(names: Sequence[str]) -> Markup:
    return Markup("\n".join((FOLDER / name).read_text(encoding="utf-8") for name in names))


def _hash(text: str) -> str:
    return base64.b64encode(sha256(text.encode()).digest()).decode()
