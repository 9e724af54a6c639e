"""Flags from the definitions of settings: no command types a name, a default or a sentence again."""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from amsfl.core import UserError
from amsfl.core.records import Json, JsonMapping
from amsfl.data.paths import is_table
from amsfl.methods import METHODS
from amsfl.settings.definitions import Serving, Settings, Simulation, Training

Command = Callable[..., None]
TableFiles = Annotated[
    list[str] | None,
    typer.Argument(metavar="FILE...", help="a table to train on, as --data FILE; several: one a site"),
]
PANELS = {  # of --help: the flags that most people need first, then the others by topic
    "Most used": "data label method clients model rounds seconds target seed",
    "Data": "data_dir client_column drop columns missing task binary partition feature_skew",
    "Method and steps": "options policy policy_options steps epochs lr lr_decay batch batches "
    "client_momentum weight_decay extrapolation server_optimizer loss class_weights",
    "Limits of a round": "budget",
    "End of the run": "joules megabytes score stop_at_target stop_after judge_by",
    "Clients and rounds": "cohort clock profile availability jitter failure stragglers round_end late "
    "staleness",
    "Uploads": "transmit robust held_back attack",
    "Privacy": "privacy public_columns epsilon delta noise clip clip_quantile",
    "Record": "worth readings eval_every test_every local_accuracy details checkpoint_every",
    "Engine": "engine precision",
    "Real clients": "give_up poll norm_limit patience evaluate_clients evaluate_quorum keyed most_clients",
}
FIRST = "Most used"
PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names.split()}


def takes(
    *groups: type[Settings],
    only: Collection[str] | None = None,
    leave_out: Collection[str] = (),
    other_names: Mapping[str, str] | None = None,
) -> Callable[[Command], Command]:
    """Give a command the flags of these groups; it gets those that were typed as `settings`, a dict.

    `only` or `leave_out` say which; `other_names` are further spellings of a flag. Flags of the other groups
    are there, too, but hidden: who types one is told by the settings' own check why it has no place.

        @takes(Training, Simulation)
        def run(settings: Json, out: Path | None = None) -> None:
    """
    others = [group for group in (Training, Simulation, Serving) if group not in groups and only is None]
    fields = {
        name: (field, group in others)
        for group in (*groups, *others)
        for name, field in group.model_fields.items()
        if name not in leave_out and (only is None or name in only)
    }
    fields = {name: fields[name] for name in (*PANEL_OF, *fields) if name in fields}
    spelled = other_names or {}

    def decorate(command: Command) -> Command:
        own = [p for p in inspect.signature(command).parameters.values() if p.name != "settings"]
        flags = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=_annotation(name, field, spelled.get(name), hidden),
            )
            for name, (field, hidden) in fields.items()
        ]

        @functools.wraps(command)
        def typed(**values: Any) -> None:
            settings = {
                name: _numbers(name, value) if isinstance(value, list) else value
                for name in fields
                if (value := values.pop(name)) is not None and value != []
            }
            command(settings=settings, **values)

        last = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own if p.default is not p.empty]
        first = [p for p in own if p.default is p.empty]
        typed.__signature__ = inspect.Signature([*first, *flags, *last])  # type: ignore[attr-defined]
        typed.__annotations__ = {p.name: p.annotation for p in [*own, *flags]}
        return typed

    return decorate


def with_tables(settings: Json, tables: list[str] | None) -> Json:
    """`amsfl run FILE.csv` is `amsfl run --data FILE.csv`; of sites/*.csv a shell makes several."""
    files = [*([settings["data"]] if "data" in settings else []), *(tables or [])]
    if len(files) < 2:
        return settings | {"data": files[0]} if files else settings

    for file in files:
        if not is_table(file):
            if file.lower() in METHODS.names():
                raise UserError(f"{file!r} is a method; write several with commas: --methods fedavg,{file}.")
            names = " and ".join(map(repr, files[:2]))
            raise UserError(f"Data are named twice, {names}, and {file!r} is no table; leave one out.")
        if "," in file:
            raise UserError(f"Of several tables none may have a comma in its name, as {file!r} has.")
    return settings | {"data": ",".join(files)}


def flag(name: str) -> str:
    """`--policy-option` for policy_options: what is repeated is written in the singular."""
    return "--" + name.removesuffix("s" if name.endswith("options") else "").replace("_", "-")


def merged(base: JsonMapping, flags: JsonMapping) -> Json:
    """Flags over a file's settings; those that have names of their own, name by name."""
    settings = dict(base)
    for key, value in flags.items():
        old = settings.get(key)
        settings[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    return settings


def _annotation(name: str, field: FieldInfo, other: str | None, hidden: bool) -> Any:
    kind: Any = field.annotation
    if isinstance(kind, UnionType):  # int | None
        kind = next(part for part in get_args(kind) if part is not type(None))
    if get_origin(kind) is dict:
        kind = list[str]
    elif get_origin(kind) is Literal or _text(field):
        kind = str
    names = [flag(name), *([other] if other else [])]
    if kind is bool:
        names = [f"{flag(name)}/--no-{flag(name)[2:]}"]
    return Annotated[
        kind | None,
        typer.Option(
            *names,
            help=f"{field.description}{_default(field)}".replace("[", "\\["),
            show_default=False,
            hidden=hidden,
            metavar="NAME=NUMBER" if kind == list[str] else _text(field),
            rich_help_panel=PANEL_OF.get(name, "Others"),
        ),
    ]


def _text(field: FieldInfo) -> str | None:
    """How a setting is spelled that is text on the way in and something else afterwards."""
    extra = field.json_schema_extra
    text = extra.get("text") if isinstance(extra, dict) else None
    return str(text) if text else None


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is None or value == {} or value == "":
        return ""
    return f" ({'yes' if value is True else 'no' if value is False else value})"


def _numbers(name: str, pairs: list[str]) -> dict[str, float]:
    """`mu=0.1` and the like."""
    numbers = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        try:
            numbers[key.strip()] = float(text)
        except ValueError:
            raise UserError(f"{flag(name)} {pair!r} is not NAME=NUMBER, as in mu=0.1.") from None
    return numbers
