"""docs/settings.md from the definitions of settings: `python tools/settings.py` writes it anew."""

from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt

from amsfl.cli.flags import flag
from amsfl.settings.definitions import RunConfig, ServeConfig, Training

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/settings.md"
BOUNDS = {Ge: ("from", "ge"), Gt: ("above", "gt"), Le: ("to", "le"), Lt: ("below", "lt")}


INTRODUCTION = """# Settings

Every setting is a flag of `amsfl run` and `compare` or `deploy`, a key of TOML files (`--config`) and of
Flower's run-config, and a keyword of `amsfl.run` or `server_app`. `--help` shows those that most people need,
`--help-all` all of them.

- `options` are repeated on the command line (`--option mu=0.1`), and are a table in TOML
  (`[options]`) and a dict in Python.
- `method`, `policy`, `robust`, `transmit` and `round_end` name what `amsfl methods` lists, or
  something of your own as `module:attribute`; in Python they may be objects.
- Values out of bounds, unknown names and settings of another kind of run are refused. A setting without
  effect is named in a line before training.

`python tools/settings.py` writes this page from `src/amsfl/settings/`.
"""


def page() -> str:
    """docs/settings.md."""
    lines = [INTRODUCTION.rstrip()]
    groups: dict[str, list[str]] = {}
    for kind, where in ((Training, ""), (RunConfig, "in simulations: "), (ServeConfig, "on real clients: ")):
        for name, field in kind.model_fields.items():
            if kind is Training or name not in Training.model_fields:
                groups.setdefault(field.json_schema_extra["group"], []).append(_row(name, field, where))
    for group, rows in groups.items():
        lines += ["", f"## {group}", ""]
        lines += ["| setting | flag | values | default | what it says |", "| --- | --- | --- | --- | --- |"]
        lines += rows
    return "\n".join(lines) + "\n"


def _row(name: str, field: Any, where: str) -> str:
    given = (
        {True: "yes", False: "no"}.get(field.default) if isinstance(field.default, bool) else field.default
    )
    default = "" if given in (None, "", {}) else f"`{given}`"
    return f"| `{name}` | `{flag(name)}` | {_values(field)} | {default} | {where}{field.description} |"


def _values(field: Any) -> str:
    """Kind and bounds in words."""
    kinds = get_args(field.annotation) if isinstance(field.annotation, UnionType) else (field.annotation,)
    kind = kinds[0]
    if get_origin(kind) is dict:
        return "name=number"
    if get_args(kind):
        return " or ".join(get_args(kind))
    words = {str: "text", int: "whole number", float: "number", bool: "yes or no"}[kind]
    bounds = [
        f"{word} {getattr(rule, attribute):,.15g}"
        for rule in field.metadata
        for sign, (word, attribute) in BOUNDS.items()
        if isinstance(rule, sign)
    ]
    return " ".join([words, *bounds])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
