"""From what a user gives (flags, a TOML file, keywords, a record) to checked settings."""

import inspect
import tomllib
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from amsfl.core import UserError, nearest
from amsfl.core.names import own_names
from amsfl.core.records import Json, JsonMapping
from amsfl.core.scores import split_target
from amsfl.record import Manifest
from amsfl.settings.definitions import RunConfig, ServeConfig, Training, marked

Config = TypeVar("Config", bound=Training)
F = TypeVar("F", bound=Callable[..., Any])
SHOWN = 60  # characters of a wrong value


def make_config(settings: JsonMapping) -> RunConfig:
    """The settings of a simulation, checked; a mistake is one sentence that names the setting."""
    return checked(RunConfig, settings)


def serve_config(settings: JsonMapping) -> ServeConfig:
    """The settings of a Flower server, checked alike."""
    return checked(ServeConfig, settings)


def checked(kind: type[Config], settings: JsonMapping) -> Config:
    settings = split_target(settings)
    for key in settings:
        if key not in kind.model_fields:
            raise UserError(_stranger(str(key), kind))
    try:
        return kind(**settings)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        why = first["msg"].removeprefix("Value error, ").rstrip(".")
        why = why.replace("Input should", "it should", 1)
        if not where:  # of several settings together
            raise UserError(f"{why[:1].upper()}{why[1:]}.") from None
        raise UserError(f"Setting {where!r} is {_short(first['input'])}: {why}.") from None


def takes(kind: type[Training]) -> Callable[[F], F]:
    """A function whose `**settings` are those of a kind: notebooks and help() see each of them."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        settings = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.annotation
            )
            for name, field in kind.model_fields.items()
        ]
        function.__signature__ = signature.replace(parameters=[*own, *settings])  # type: ignore[attr-defined]
        return function

    return decorate


CLIENTS_OWN = ("loss", "class_weights")  # on real clients each app's own


def check_alike(configs: Sequence[RunConfig]) -> None:
    """Trials of a batch share an engine: but for what is a trial's own, they must not differ."""
    if not configs:
        raise UserError("There are no trials to run; give settings of at least one.")
    own = {*marked(RunConfig, "trial")}
    first = configs[0].model_dump(exclude=own)
    for place, config in enumerate(configs):
        for key, value in config.model_dump(exclude=own).items():
            if value != first[key]:
                raise UserError(
                    f"Trial {place} has {key} {_short(value)}, the first one {_short(first[key])}; trials "
                    "of a batch share it: run them in batches of their own."
                )


def _stranger(key: str, kind: type[Training]) -> str:
    """Why a setting is not one of these."""
    if key in ServeConfig.model_fields:
        return f"Setting {key!r} is about real clients, and this is a simulation; leave it out."
    if key in CLIENTS_OWN:
        return (
            f"Setting {key!r} says what simulated clients minimise; a real client's loss is its app's own, "
            "as in torch_client(loss=...), and clients of `amsfl deploy --data` take the cross-entropy of "
            "classes, the squared error of numbers; leave it out."
        )
    if key in RunConfig.model_fields:
        return f"Setting {key!r} is about simulations, and here real clients train; leave it out."
    return f"Unknown setting {_short(key)}{nearest(key[:SHOWN], kind.model_fields)}."


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        text = "a number too long to print"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def merge_settings(manifest: Manifest, changes: JsonMapping) -> Json:
    """The settings that a run goes on with; only its length and the like may change."""
    changes = split_target(changes)
    refuse_recorded_code(manifest.settings, changes)
    may = dict.fromkeys((*marked(RunConfig, "later"), *marked(ServeConfig, "later")))
    for key in changes:
        if key not in may and changes[key] != manifest.settings.get(key):
            raise UserError(
                f"The run began with {key} {manifest.settings.get(key)!r} and cannot go on with "
                f"{changes[key]!r}; what may change is {', '.join(may)}. For the rest start a new run."
            )
    return manifest.settings | dict(changes)


def refuse_recorded_code(settings: JsonMapping, named: Container[str] = ()) -> None:
    """A record may name code, as in `method = "module:attribute"`; only its reader decides what is run."""
    for key in marked(RunConfig, "own"):
        value = settings.get(key)
        passed = (key, value) == ("client_optimizer", "own")  # an object, which has no name
        if key not in named and isinstance(value, str) and (passed or own_names(value)):
            raise UserError(
                f"The record was made with code of somebody's own, {key} {value!r}, and a record must not "
                f"choose what is run. Name it again: --{key.replace('_', '-')} {value}, or pass it in Python."
            )


def read_toml(path: Path) -> Json:
    """The settings of a TOML file, as `make_config` takes them."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise UserError(f"The settings file {str(path)!r} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"The settings file {str(path)!r} is not valid TOML: {error}.") from None
