"""Every sentence that a user's mistake can raise, collected from the source: `python tools/mistakes.py`.

The page on troubleshooting lists them room by room, and a test holds that no room is forgotten.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src/amsfl"
KINDS = ("UserError", "DiskError", "Unavailable")
GAP = "…"


class Mistake(NamedTuple):
    room: str  # first folder below src/amsfl
    file: str
    line: int
    sentence: str  # with … for what depends on the input; "" where all of it is put together elsewhere
    kind: str


def mistakes() -> list[Mistake]:
    """All places that raise one, in the order of files and lines."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        inside = path.relative_to(SOURCE)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for kind, line, argument in _raised(tree):
            found.append(Mistake(inside.parts[0], inside.as_posix(), line, _text(argument), kind))
    return found


def _raised(tree: ast.AST) -> Iterator[tuple[str, int, ast.expr | None]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            called = node.exc.func
            if isinstance(called, ast.Name) and called.id in KINDS:
                yield called.id, node.lineno, node.exc.args[0] if node.exc.args else None


def _text(node: ast.expr | None) -> str:
    text = re.sub(f"{GAP}(?:{GAP})+", GAP, _parts(node))
    return "" if not text.replace(GAP, "").strip(" .,;:'") else " ".join(text.split())


def _parts(node: ast.AST | None) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(map(_parts, values))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _parts(left) + _parts(right)
        case _:
            return GAP


if __name__ == "__main__":
    for each in mistakes():
        print(f"{each.file}:{each.line}: {each.sentence or GAP}")
