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

FOLDERS = (Path(__file__).parent, Path(__file__).parent.parent / "live")


class Page(NamedTuple):
    text: str
    policy: str  # Content-Security-Policy: our own style and script by their hashes


def page(
    template: str, styles: Sequence[str], scripts: Sequence[str], connects: bool = False, **values: Any
) -> Page:
    """Fill a template; only a page that `connects` may talk to its server.

    All values are escaped; only our own files are marked as safe.
    """
    style, script = _own_files(styles), _own_files(scripts)
    policy = (
        f"default-src 'none'; script-src 'sha256-{_hash(script)}'; style-src 'sha256-{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    policy += "; connect-src 'self'" if connects else ""
    templates = Environment(loader=FileSystemLoader(FOLDERS), autoescape=True, undefined=StrictUndefined)
    own = {"policy": policy, "style": style, "script": script, "version": VERSION}
    text = templates.get_template(template).render(**own, **values)
    return Page(text, policy)


def figure(picture: Picture) -> dict[str, str]:
    """A picture for a template. As an image, not inline: every SVG keeps its ids to itself."""
    data = base64.b64encode(picture.svg.encode()).decode()
    return {"name": picture.name, "title": picture.title, "caption": picture.caption, "data": data}


def _own_files(names: Sequence[str]) -> Markup:
    paths = [next(folder / name for folder in FOLDERS if (folder / name).exists()) for name in names]
    return Markup("\n".join(path.read_text(encoding="utf-8") for path in paths))


def _hash(text: str) -> str:
    return base64.b64encode(sha256(text.encode()).digest()).decode()
