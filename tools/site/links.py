"""Links as the repository has them, turned into the site's: one Markdown serves both.

Pages outside docs/ that belong on the site are put there; any other file of the repository that a page links
to is copied as text. A link to a file that does not exist is left alone, and mkdocs --strict stops at it.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
    "README.md": "index.md",
}
AS_IS = (".png", ".svg", ".jpg", ".json")
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"^(```.*?^```)", re.M | re.S)


def on_files(files: Any, config: Any) -> Any:
    root = Path(config.config_file_path).parent
    for source, target in PAGES.items():
        if target != "index.md":
            content = (root / source).read_text(encoding="utf-8")
            files.append(File.generated(config, target, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    root = Path(config.config_file_path).parent
    docs = Path(config.docs_dir).relative_to(root).as_posix()
    home = {target: source for source, target in PAGES.items() if target != "index.md"}
    here = home.get(page.file.src_uri, f"{docs}/{page.file.src_uri}")

    def moved(match: re.Match[str]) -> str:
        target = site_uri(match[2], here, root, docs, config, files)
        if target is None:
            return match[0]
        return match[1] + posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or ".") + match[3]

    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in parts)


def site_uri(link: str, here: str, root: Path, docs: str, config: Any, files: Any) -> str | None:
    """Where a link of the repository's file `here` leads on the site; None: leave it as it is."""
    if "://" in link or link.startswith(("mailto:", "/")):
        return None
    target = posixpath.normpath(posixpath.join(posixpath.dirname(here), link))
    if target in PAGES:
        return PAGES[target]
    inside = posixpath.relpath(target, docs)
    file = files.get_file_from_path(inside)
    if file and file.inclusion.is_included():
        return inside
    if target.startswith("..") or not (root / target).is_file():
        return None
    copied = f"repository/{target}" if target.endswith(AS_IS) else f"repository/{target}.txt"
    if not files.get_file_from_path(copied):
        files.append(File.generated(config, copied, content=(root / target).read_bytes()))
    return copied
