"""Pages with everything in them: our own style and script, and a policy that lets nothing else run."""

import base64
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

PLACES = (Path(__file__).parent, Path(__file__).parent.parent / "live")


class Page(NamedTuple):
    text: str
    policy: str  # Content-Security-Policy: our own style and script by their hashes


def page(name: str, styles: Sequence[str], scripts: Sequence[str], asks: bool = False, **values: Any) -> Page:
    """The template of that name; only one that `asks` may talk to its server.

    It escapes all values; marked as safe are our own files and nothing else.
    """
    style, script = _ours(styles), _ours(scripts)
    policy = _policy(style, script) + ("; connect-src 'self'" if asks else "")
    places = Environment(loader=FileSystemLoader(PLACES), autoescape=True, undefined=StrictUndefined)
    text = places.get_template(name).render(policy=policy, style=style, script=script, **values)
    return Page(text, policy)


def _ours(names: Sequence[str]) -> Markup:
    paths = [next(place / name for place in PLACES if (place / name).exists()) for name in names]
    return Markup("\n".join(path.read_text(encoding="utf-8") for path in paths))


def _policy(style: str, script: str) -> str:
    style_hash, script_hash = (
        base64.b64encode(sha256(text.encode()).digest()).decode() for text in (style, script)
    )
    return (
        f"default-src 'none'; script-src 'sha256-{script_hash}'; style-src 'sha256-{style_hash}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
