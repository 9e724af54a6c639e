"""docs/settings.md's tables from the definitions of settings: `python tools/settings.py` writes them anew."""

from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt

from amsfl.cli.flags import flag
from amsfl.settings.definitions import RunConfig, ServeConfig, Training

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/settings.md"
BOUNDS = {Ge: ("from", "ge"), Gt: ("above", "gt"), Le: ("to", "le"), Lt: ("below", "lt")}


def page() -> str:
    """docs/settings.md: what stands before the first table, and all tables."""
    lines = [PAGE.read_text(encoding="utf-8").partition("\n## ")[0].rstrip()]
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
