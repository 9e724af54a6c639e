"""Flags from the definitions of settings: no command types a name, a default or a sentence again."""

import functools
import inspect
from collections.abc import Callable, Collection, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

from cyclopts import Group, Parameter
from pydantic.fields import FieldInfo

from amsfl.core import UserError
from amsfl.core.records import Json, JsonMapping
from amsfl.settings.definitions import RunConfig, ServeConfig, Training

Command = Callable[..., None]
MOST_USED = Group("Most used", sort_key=0)
GROUPS = {  # of --help: those that most people need first, then a command's own, then the others by topic
    group: Group(group, sort_key=place)  # type: ignore[arg-type]
    for place, group in enumerate(
        dict.fromkeys(
            field.json_schema_extra["group"]  # type: ignore[index,call-overload]
            for kind in (Training, RunConfig, ServeConfig)
            for field in kind.model_fields.values()
        ),
        start=2,
    )
}
TableFile = Annotated[str, Parameter(help="a table to train on, as --data FILE; several: one a site")]

MORE = "\n\n    --help-all shows every flag.\n"
RARE = Parameter(show=False)  # of a command's own flag that --help leaves to --help-all


def takes(
    kind: type[Training],
    only: Collection[str] | None = None,
    leave_out: Collection[str] = (),
) -> Callable[[Command], Command]:
    """Give a command the flags of these settings; it gets those that were typed as `settings`, a dict.

    `only` or `leave_out` say which. Flags of the other kind of runs are there, but never shown: who types
    one is told by the settings' check why it has no place.

        @takes(RunConfig)
        def run(settings: Json, *, out: Path | None = None) -> None:
    """
    other = ServeConfig if kind is RunConfig else RunConfig
    fields = {  # and whether they are ever shown
        name: (field, name in kind.model_fields)
        for name, field in (kind.model_fields | _without(other, kind)).items()
        if name not in leave_out and (only is None or name in only)
    }

    def decorate(command: Command) -> Command:
        own = [each for each in inspect.signature(command).parameters.values() if each.name != "settings"]
        whole = [each.replace(annotation=_shown(each.annotation)) for each in own]

        def show(every: bool) -> None:
            """What --help shows from now on: every flag, or those that most people need."""
            typed.__doc__ = f"{command.__doc__}{'' if every else MORE}"
            flags = [
                inspect.Parameter(
                    name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=None,
                    annotation=_annotation(name, field, known and (every or _first(field))),
                )
                for name, (field, known) in fields.items()
            ]
            shown = [*(whole if every else own), *flags]
            typed.__annotations__ = {each.name: each.annotation for each in shown}
            typed.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]

        @functools.wraps(command)
        def typed(*words: Any, **values: Any) -> None:
            settings = {
                name: _numbers(name, value) if isinstance(value, list) else value
                for name in fields
                if (value := values.pop(name, None)) is not None and value != []
            }
            command(settings, *words, **values)

        show(only is not None)
        typed.show = show  # type: ignore[attr-defined]
        return typed

    return decorate


def with_tables(settings: Json, tables: Sequence[str]) -> Json:
    """`amsfl run FILE.csv` is `amsfl run --data FILE.csv`; of sites/*.csv a shell makes several."""
    files = [*([settings["data"]] if "data" in settings else []), *tables]
    if len(files) < 2:
        return settings | {"data": files[0]} if files else settings
    from amsfl.data.files import is_table
    from amsfl.methods import METHODS

    for file in files:
        if not is_table(file):
            if file in METHODS.table:
                raise UserError(f"{file!r} is a method; write it with its flag: --method {file}.")
            names = " and ".join(map(repr, files[:2]))
            raise UserError(f"Data are named twice, {names}, and {file!r} is no table; leave one out.")
        if "," in file:
            raise UserError(f"Of several tables none may have a comma in its name, as {file!r} has.")
    return settings | {"data": ",".join(files)}


def flag(name: str) -> str:
    """`--option` for options: what is repeated is written in the singular."""
    return "--" + name.removesuffix("s" if name.endswith("options") else "").replace("_", "-")


def merged(base: JsonMapping, flags: JsonMapping) -> Json:
    """Flags over a file's settings; those that have names of their own, name by name."""
    settings = dict(base)
    for key, value in flags.items():
        old = settings.get(key)
        settings[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    return settings


def _shown(annotation: Any) -> Any:
    """A rare flag's as any other's."""
    kind, *marks = get_args(annotation)
    return Annotated[kind, *(mark for mark in marks if mark is not RARE)]


def _annotation(name: str, field: FieldInfo, show: bool) -> Any:
    extra: Any = field.json_schema_extra
    kind: Any = field.annotation
    if isinstance(kind, UnionType):  # int | None
        kind = next(part for part in get_args(kind) if part is not type(None))
    if get_origin(kind) is dict:
        kind = list[str]
    elif get_origin(kind) is Literal or extra["text"]:
        kind = str
    return Annotated[
        kind | None,
        Parameter(
            name=flag(name),
            negative=f"--no-{flag(name)[2:]}" if kind is bool else "",
            help=f"{field.description}{_default(field)}",
            group=MOST_USED if _first(field) else GROUPS[extra["group"]],
            show=show,
            metavar="NAME=NUMBER" if kind == list[str] else extra["text"] or None,
            show_default=False,
        ),
    ]


def _without(kind: type[Training], other: type[Training]) -> dict[str, FieldInfo]:
    return {name: field for name, field in kind.model_fields.items() if name not in other.model_fields}


def _first(field: FieldInfo) -> bool:
    extra: Any = field.json_schema_extra
    return "first" in extra["marks"]


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is None or value == {} or value == "":
        return ""
    return f" ({'yes' if value is True else 'no' if value is False else value})"


def _numbers(name: str, pairs: list[str]) -> dict[str, float]:
    numbers = {}
    for pair in pairs:
        key, sign, number = pair.partition("=")
        try:
            numbers[key.strip()] = float(number)
        except ValueError:
            sign = ""
        if not (key and sign):
            raise UserError(f"{flag(name)} {pair!r} is not NAME=NUMBER, as in mu=0.1.")
    return numbers
