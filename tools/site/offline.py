"""The finished site loads nothing from elsewhere: a page that would ends the build."""

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

OUTSIDE = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\ssrc\s*=\s*["']?(?:https?:)?//[^"'>\s]*"""
    r"""|<link\b(?=[^>]*\brel\s*=\s*["']?(?:stylesheet|preload|icon|preconnect))[^>]*href\s*=\s*["']?(?:https?:)?//[^"'>\s]*"""
)
STYLED = re.compile(r"""(?:url\(|@import)\s*["']?(?:https?:)?//[^"')\s]*""")


def on_post_build(config: Any) -> None:
    site = Path(config.site_dir)
    for pattern, ending in ((OUTSIDE, "*.html"), (STYLED, "*.css")):
        for path in site.rglob(ending):
            found = pattern.search(path.read_text(encoding="utf-8"))
            if found:
                raise PluginError(
                    f"{path.relative_to(site)} loads something from elsewhere: {found[0][:200]}"
                )
