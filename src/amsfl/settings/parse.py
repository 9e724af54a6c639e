"""From what a user gives (flags, a TOML file, keywords, a record) to checked settings."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from amsfl.core import UserError, nearest
from amsfl.core.records import Json, JsonMapping
from amsfl.core.score_names import split_target
from amsfl.settings.definitions import RunConfig, ServeConfig, Serving, Settings, Simulation

Config = TypeVar("Config", bound=Settings)
LARGEST = 1_000_000  # bytes of a settings file
OWN_OF_A_TRIAL = {
    *("attack", "epsilon", "delta", "noise", "availability", "jitter", "failure", "stragglers"),
    *("seed", "partition", "profile", "clock", "steps", "epochs", "lr", "lr_decay", "policy_options"),
    *("budget", "joules", "megabytes"),
    *("rounds", "seconds", "target", "stop_at_target"),
}
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


CLIENTS_OWN = ("loss", "class_weights")  # on real clients each app's own


def check_alike(configs: Sequence[RunConfig]) -> None:
    """Trials of a batch share an engine: but for what is a trial's own, they must not differ."""
    if not configs:
        raise UserError("There are no trials to run; give settings of at least one.")
    first = configs[0].model_dump(exclude=OWN_OF_A_TRIAL)
    for place, config in enumerate(configs):
        for key, value in config.model_dump(exclude=OWN_OF_A_TRIAL).items():
            if value != first[key]:
                raise UserError(
                    f"Trial {place} has {key} {_short(value)}, the first one {_short(first[key])}; trials "
                    "of a batch share it: run them in batches of their own."
                )


def _stranger(key: str, kind: type[Settings]) -> str:
    """Why a setting is not one of these."""
    if key in Serving.model_fields:
        return f"Setting {key!r} is about real clients, and this is a simulation; leave it out."
    if key in CLIENTS_OWN:
        return (
            f"Setting {key!r} says what simulated clients minimise; a real client's loss is its app's own, "
            "as in torch_client(loss=...), and clients of `amsfl deploy --data` take the cross-entropy of "
            "classes, the squared error of numbers; leave it out."
        )
    if key in Simulation.model_fields:
        return f"Setting {key!r} is about simulations, and here real clients train; leave it out."
    return f"Unknown setting {_short(key)}{nearest(key[:SHOWN], kind.model_fields)}."


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        text = "a number too long to print"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def read_toml(path: Path) -> Json:
    """The settings of a TOML file, as `make_config` takes them."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise UserError(f"The settings file {str(path)!r} has more than {LARGEST:,} bytes: no settings.")
        return tomllib.loads(content.decode("utf-8"))
    except OSError as error:
        raise UserError(f"The settings file {str(path)!r} cannot be read: {error.strerror}.") from None
    except RecursionError:
        raise UserError(f"The settings file {str(path)!r} is nested too deep.") from None
    except ValueError as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"The settings file {str(path)!r} is not valid TOML: {error}.") from None
