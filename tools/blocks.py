"""Fenced blocks of our Markdown, and what a comment before them says that tests do with them.

<!-- test: run -->         the block's commands (or Python) are run, page by page in a folder of its own
<!-- test: file NAME -->   the block is written there first
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(
    r"(?:^<!-- test: (?P<word>\w+) ?(?P<name>\S*) -->\n)?"
    r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<text>.*?)^ *```$",
    re.M | re.S,
)
INLINE = re.compile(r"`(amsfl [^`]+)`")


class Block(NamedTuple):
    page: Path
    word: str  # run, file or ""
    name: str
    language: str
    text: str


def pages() -> list[Path]:
    """All Markdown that people read."""
    tops = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")
    return [*(ROOT / top for top in tops), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    for found in BLOCK.finditer(page.read_text(encoding="utf-8")):
        language = found["language"].strip()
        yield Block(page, found["word"] or "", found["name"] or "", language, found["text"])


def commands(page: Path) -> list[str]:
    """Every `amsfl ...` of a page, in blocks and in the text, one line each."""
    text = page.read_text(encoding="utf-8")
    found = []
    for block in blocks(page):
        if block.language in ("", "bash", "console", "sh"):
            joined = re.sub(r"\\\n\s*", " ", block.text)
            for line in joined.splitlines():
                line = line.strip().removeprefix("$ ")
                found += [part.strip() for part in re.split(r"&&|;|\|", line.split(" #")[0])]
    found += [" ".join(match.split()) for match in INLINE.findall(BLOCK.sub("", text))]
    return [command for command in found if command.split()[:1] == ["amsfl"]]
