"""One name, one thing: what a stranger needs in order to read the package."""

import ast
import re
from functools import partial
from pathlib import Path

import house

ROOT = Path(__file__).parents[2]
parsed = partial(house.parse, ROOT / "src" / "amsfl")  # in the one process that runs this file
# what stood for other things here once, and nobody guesses
PRIVATE_WORDS = "aloft|takeoff|landing|flight|weather|foes|door|purse|desk|cards|hasten|audience"
PRIVATE_WORDS += "|brought|leaving|meeting|told"


def test_class_names_are_unique():
    assert house.twins(parsed()) == []


def test_no_identifier_is_a_private_word():
    used = {
        f"{path.relative_to(ROOT)}:{node.lineno} {name}"
        for path, tree in parsed().items()
        for node in ast.walk(tree)
        for name in names_of(node)
        if re.fullmatch(PRIVATE_WORDS, name.lower())
    }
    assert used == set()


def names_of(node: ast.AST) -> list[str]:
    """What a node defines: a variable, a parameter, a function, a class."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    return []
