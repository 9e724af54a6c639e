"""Pages that nobody put into mkdocs.yml's nav get a section of their own, so that none is lost."""

from pathlib import Path
from typing import Any

SECTION = "More"


def on_config(config: Any) -> Any:
    listed = set(pages(config.nav))
    root = Path(config.docs_dir)
    there = {path.relative_to(root).as_posix() for path in root.rglob("*.md")}
    notebooks = {path.relative_to(root).with_suffix(".md").as_posix() for path in root.rglob("*.ipynb")}
    left = sorted((there | notebooks) - listed)
    if left:
        config.nav = [*config.nav, {SECTION: left}]
    return config


def pages(nav: Any) -> list[str]:
    """All pages of a nav, however deep."""
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav.values() if isinstance(nav, dict) else nav) for page in pages(part)]
