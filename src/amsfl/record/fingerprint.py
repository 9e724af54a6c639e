"""What a record was made from: a record means nothing without the same, and says what is not."""

from collections.abc import Container
from typing import Any
from zlib import crc32

import numpy as np

from amsfl.core import UserError
from amsfl.core.records import Json, JsonMapping
from amsfl.core.registry import own_names
from amsfl.core.score_names import split_target
from amsfl.record.folder import changed_values
from amsfl.record.schema import Array, Manifest
from amsfl.record.sums import checksum, dumps

# What may change when a run goes on: how long it is, how often it is saved, where its data lies, who shares
# its model; and how a server of real clients waits for them.
CHANGEABLE = (
    *("rounds", "seconds", "joules", "megabytes"),
    *("score", "target", "stop_at_target", "checkpoint_every", "data_dir"),
    *("give_up", "poll", "norm_limit", "patience", "evaluate_clients"),
    *("evaluate_quorum", "keyed", "most_clients", "stop_after", "judge_by"),
)


# What a record may name that is loaded as code.
CODE = ("method", "policy", "robust", "transmit", "server_optimizer", "round_end", "privacy", "attack")


def checksum_arrays(*arrays: Array) -> str:
    """A checksum of numbers, their shape and their type."""
    crc = 0
    for array in arrays:
        crc = crc32(f"{array.dtype.str}{array.shape}".encode(), crc)
        crc = crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, crc)
    return f"{crc:08x}"


def identity(settings: JsonMapping, made_from: JsonMapping) -> int:
    """The same for the same run, whoever makes it, however often it was stopped and made longer."""
    fixed = {key: value for key, value in settings.items() if key not in CHANGEABLE}
    return checksum([fixed, made_from])


def check_same(manifest: Manifest, made_from: Json, machine: Json, anyway: bool) -> None:
    """Raise if a resumed run would not find what it began with."""
    for what, (was, now) in changed_values(manifest.made_from, made_from).items():
        if dumps(was) != dumps(now):
            then = "give it the same data, model and costs as before, or start a new run."
            raise UserError(f"{_change(what, was, now)}; {then}")
    for what, (was, now) in changed_values(manifest.machine, machine).items():
        if not anyway:
            then = "Go on where it began, or pass --anyway, which goes on record."
            raise UserError(f"{_change(what, was, now)}: it would not end with the same bits. {then}")


def _change(what: str, *values: Any) -> str:
    was, now = (text if len(text) <= 80 else text[:77] + "..." for text in map(repr, values))
    return f"The run began with {what} {was} and would continue with {now}"


def refuse_recorded_code(settings: JsonMapping, named: Container[str] = ()) -> None:
    """A record may name code, as in `method = "module:attribute"`; only its reader decides what is run."""
    for key in CODE:
        value = settings.get(key)
        if key not in named and isinstance(value, str) and own_names(value):
            raise UserError(
                f"The record was made with code of somebody's own, {key} {value!r}, and a record must not "
                f"choose what is run. Name it again: --{key.replace('_', '-')} {value}, or pass it in Python."
            )


def merge_settings(manifest: Manifest, changes: JsonMapping) -> Json:
    """The settings that a run goes on with; only its length and the like may change."""
    changes = split_target(changes)
    refuse_recorded_code(manifest.settings, changes)
    for key in changes:
        if key not in CHANGEABLE and changes[key] != manifest.settings.get(key):
            raise UserError(
                f"The run began with {key} {manifest.settings.get(key)!r} and cannot go on with "
                f"{changes[key]!r}; what may change is {', '.join(CHANGEABLE)}. For the rest start a new run."
            )
    return manifest.settings | dict(changes)
