"""Parts of pages that are made from the code while the site is built, so that they cannot go stale.

A page says `<!-- generated: KIND WORDS -->`; in the repository's view the comment is invisible.
"""

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MARKER = re.compile(r"<!-- generated: (\w+) ?(.*?) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    return MARKER.sub(lambda match: MAKERS[match[1]](*match[2].split()), markdown)


def api(module: str, *only: str) -> str:
    """Everything in a module's __all__, or `only` these, for mkdocstrings; `amsfl` has its own page."""
    front = public("amsfl") if module != "amsfl" else {}
    parts = []
    for name, home in (public(module) or dict.fromkeys(only, module)).items():
        if only and name not in only:
            continue
        if name in front and front[name] == home:
            parts.append(f"## {name}\n\n`{module}.{name}` is [`amsfl.{name}`](index.md#amsfl.{name}).")
        elif not name.startswith("__") and not name.isupper():  # constants are for reading, in the code
            # a file of the same name hides what a package passes on
            inside = ROOT / "src" / module.replace(".", "/") / f"{name}.py"
            parts.append(f"::: {home if inside.is_file() else module}.{name}")
    return "\n\n".join(parts)


def public(module: str) -> dict[str, str]:
    """The names in `__all__`, or that it imports, and the module each comes from in the end."""
    tree = parsed(module)
    names, own = list[str](), False
    homes: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            homes |= {(alias.asname or alias.name): node.module for alias in node.names}
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            names = [element.value for element in getattr(node.value, "elts", ())]
            own = not names  # it is worked out: from what comes from the package's own files
    if own:
        names = [name for name, home in homes.items() if home.startswith(f"{module}.")]
    return {name: _home(name, homes.get(name, module), module) for name in names or homes}


def _home(name: str, home: str, module: str) -> str:
    """The file that defines it: a package may only pass it on."""
    if home == module or not (ROOT / "src" / home.replace(".", "/") / "__init__.py").is_file():
        return home
    for node in ast.walk(parsed(home)):
        if isinstance(node, ast.ImportFrom) and any((a.asname or a.name) == name for a in node.names):
            return node.module or home
    return home


def parsed(module: str) -> ast.Module:
    path = ROOT / "src" / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _literal(sentence: str) -> str:
    escaped = sentence.replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([*_`\[\]$#|])", r"\\\1", escaped)


def commands() -> str:
    """Every command of `amsfl` with its arguments and flags."""
    from amsfl.cli.app import NAMES, app, parameters

    return "\n\n".join(_command(name, app[name].help, parameters(name)) for name in NAMES)


def _command(name: str, text: str, parameters: list[tuple[tuple[str, ...], str, bool]]) -> str:
    arguments = " ".join(names[0] for names, _, is_flag in parameters if not is_flag)
    lines = [f"## amsfl {name}", "", f"`amsfl {name} {arguments}".rstrip() + " [FLAGS]`", ""]
    lines += [" ".join(text.split()), "", "| | |", "| --- | --- |"]
    for names, says, _ in parameters:
        lines.append(f"| {', '.join(f'`{each}`' for each in names)} | {_said(says)} |")
    return "\n".join(lines)


def _said(text: str) -> str:
    plain = text.replace("\\[", "[").replace("\n", " ")
    return _literal(plain).replace("\\`", "`")


MAKERS: dict[str, Callable[..., str]] = {"api": api, "commands": commands}
