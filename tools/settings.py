"""What is made from the definitions of settings: `python tools/settings.py` writes both files anew.

- src/amsfl/settings/keywords.py: keywords of `amsfl.run` and `server_app` for editors and type checkers
- docs/settings.md: the page for people
"""

from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt

from amsfl.cli.flags import flag
from amsfl.settings.definitions import RunConfig, ServeConfig, Serving, Settings, Simulation, Training

ROOT = Path(__file__).parents[1]
KEYWORDS, PAGE = ROOT / "src/amsfl/settings/keywords.py", ROOT / "docs/settings.md"
BOUNDS = {Ge: ("from", "ge"), Gt: ("above", "gt"), Le: ("to", "le"), Lt: ("below", "lt")}


HEAD = '''"""The settings as keywords, for editors and type checkers. Written by tools/settings.py."""

from typing import Literal, TypedDict

from amsfl.clock import RoundEnd
from amsfl.core import Combine, Transmit
from amsfl.methods import Method
from amsfl.planning import Policy
'''
OBJECTS = {
    "method": "Method",
    "policy": "Policy",
    "robust": "Combine",
    "transmit": "Transmit",
    "round_end": "RoundEnd",
}
INTRODUCTION = """# Settings

Every setting is a flag of `amsfl run`, `compare`, `reproduce`, `deploy` and `plan`, a key of TOML files
(`--config`) and of Flower's run-config, and a keyword of `amsfl.run` and `server_app`.

- A simulation has the settings of the first two groups, a server of real clients those of the first and the
  third; its clock is makespan.
- `options` and `policy_options` are repeated on the command line (`--option mu=0.1`), and are tables in TOML
  (`[options]`) and dicts in Python.
- `method`, `policy`, `robust`, `transmit` and `round_end` name what `amsfl methods` lists, or
  something of your own as `module:attribute`; in Python they may be objects.
- Values out of bounds, unknown names and settings of another group are refused. A setting that has no effect
  is named in a line before training.

`python tools/settings.py` writes this page from `src/amsfl/settings/`.
"""


def keywords() -> str:
    """The module: what both have in common once, and each one's own."""
    return (
        HEAD
        + _typed("TrainingKeywords", Training)
        + _typed("RunKeywords", RunConfig, "TrainingKeywords", Training)
        + _typed("ServeKeywords", ServeConfig, "TrainingKeywords", Training)
    )


def page() -> str:
    """docs/settings.md."""
    lines = [INTRODUCTION.rstrip()]
    for group in (Training, Simulation, Serving):
        lines += ["", f"## {group.__name__}", "", (group.__doc__ or "").strip(), ""]
        lines += ["| setting | flag | values | default | what it says |", "| --- | --- | --- | --- | --- |"]
        lines += [_row(name, group) for name in group.model_fields]
    return "\n".join(lines) + "\n"


def _typed(name: str, kind: type[Settings], base: str = "TypedDict", known: type[Settings] = Settings) -> str:
    lines = [
        "",
        "",
        f"class {name}({base}, total=False):",
        f'    """{(kind.__doc__ or "").strip()}"""',
        "",
    ]
    for key, field in kind.model_fields.items():
        if key not in known.model_fields:
            types = _spelled(field.annotation) + (f" | {OBJECTS[key]}" if key in OBJECTS else "")
            types = f"str | {types}" if field.json_schema_extra else types
            lines.append(f"    {key}: {types}")
    return "\n".join(lines) + "\n"


def _row(name: str, group: type[Settings]) -> str:
    field = group.model_fields[name]
    given = (
        {True: "yes", False: "no"}.get(field.default) if isinstance(field.default, bool) else field.default
    )
    default = "" if given in (None, "", {}) else f"`{given}`"
    return f"| `{name}` | `{flag(name)}` | {_values(field)} | {default} | {field.description} |"


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


def _spelled(annotation: Any) -> str:
    text = (
        annotation.__name__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)
    )
    return text.replace("typing.", "").replace("'", '"')


if __name__ == "__main__":
    KEYWORDS.write_text(keywords(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")
