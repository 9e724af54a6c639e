"""The record folder: config.toml, rounds.jsonl, a checkpoint, summary.json. Plain formats, no pickle.

Rounds are appended as they happen, so a killed run leaves a readable record; everything else is
written beside and renamed, so a file is either whole or not there.
"""

import json
import math
import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tomli_w
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from amsfl.core import RoundRecord, UserError
from amsfl.federation.config import RunConfig, ServeConfig, Training
from amsfl.federation.given import read_toml, recorded

CONFIG, ROUNDS, POINTER, SUMMARY = "config.toml", "rounds.jsonl", "checkpoint.json", "summary.json"


class Checkpoint(NamedTuple):
    round: int  # rounds finished
    arrays: dict[str, np.ndarray[Any, Any]]
    host: dict[str, Any]  # planner and clock, as JSON


def create(folder: Path, config: Training, force: bool = False) -> None:
    """Make the folder of a new run. One that holds a run already is left alone unless `force`."""
    if any((folder / name).exists() for name in (CONFIG, ROUNDS, POINTER)):
        if not force:
            raise UserError(
                f"The folder {str(folder)!r} already holds a run; choose another --out, continue it with "
                f"'amsfl resume {folder}', or overwrite it with --force."
            )
        for old in [folder / ROUNDS, folder / POINTER, folder / SUMMARY, *folder.glob("checkpoint-*")]:
            old.unlink(missing_ok=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        settings = {key: value for key, value in config.model_dump().items() if value is not None}
        write_atomically(folder / CONFIG, tomli_w.dumps(settings).encode())
    except OSError as error:
        raise UserError(f"The folder {str(folder)!r} cannot be written: {error.strerror}.") from None


def read_config(folder: Path) -> RunConfig | ServeConfig:
    """The settings of a folder's run, simulated or real."""
    if not (folder / CONFIG).exists():
        raise UserError(f"The folder {str(folder)!r} holds no run: it has no {CONFIG}.")
    return recorded(read_toml(folder / CONFIG))


def append(folder: Path, records: Iterable[RoundRecord]) -> None:
    with (folder / ROUNDS).open("a", encoding="utf-8") as file:
        file.write(_lines(records))


def as_json(value: Any, indent: int | None = None) -> str:
    """JSON that every reader takes: it has no NaN and no infinity, so those become null."""

    def finite(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: finite(inner) for key, inner in part.items()}
        if isinstance(part, list | tuple):
            return [finite(inner) for inner in part]
        return None if isinstance(part, float) and not math.isfinite(part) else part

    return json.dumps(finite(value), indent=indent, allow_nan=False)


def _lines(records: Iterable[RoundRecord]) -> str:
    return "".join(as_json(record._asdict()) + "\n" for record in records)


def read_rounds(folder: Path) -> Iterator[RoundRecord]:
    """Rounds on record. A last line that a killed process left half-written is passed over."""
    path = folder / ROUNDS
    lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    for number, line in enumerate(lines, start=1):
        try:
            if line:
                yield RoundRecord(**json.loads(line))
        except (ValueError, TypeError):
            if number < len(lines):  # a newline follows: this line was finished, and damaged later
                raise UserError(
                    f"{path}, line {number}, is damaged; no round after it can be read."
                ) from None


def keep_rounds(folder: Path, count: int) -> list[RoundRecord]:
    """Cut the record back to a checkpoint's rounds: what came after will be run again."""
    kept = [record for record in read_rounds(folder) if record.round <= count]
    if len(kept) < count:
        raise UserError(
            f"The folder {str(folder)!r} has a checkpoint of round {count} but {len(kept)} rounds on record: "
            f"{_restart(folder)}"
        )
    write_atomically(folder / ROUNDS, _lines(kept).encode())
    return kept


def save_checkpoint(folder: Path, point: Checkpoint) -> None:
    """Rounds and arrays first, then the pointer that names them with their hash; the old arrays go last."""
    if (folder / ROUNDS).exists():
        with (folder / ROUNDS).open("rb") as file:  # a power cut must not leave fewer rounds than this
            os.fsync(file.fileno())
    content = save_tensors(point.arrays)
    name = f"checkpoint-{point.round:06d}.safetensors"
    write_atomically(folder / name, content)
    pointer = {
        "round": point.round,
        "arrays": name,
        "sha256": sha256(content).hexdigest(),
        "host": point.host,
    }
    write_atomically(folder / POINTER, json.dumps(pointer).encode())
    for old in folder.glob("checkpoint-*.safetensors"):
        if old.name != name:
            old.unlink()


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The last checkpoint, None if the run had not come to its first; a damaged one is a UserError."""
    path = folder / POINTER
    if not path.exists():
        return None
    try:
        pointer = json.loads(path.read_text(encoding="utf-8"))
        content = (folder / pointer["arrays"]).read_bytes()
        if sha256(content).hexdigest() != pointer["sha256"]:
            raise UserError(
                f"The checkpoint {pointer['arrays']} in {str(folder)!r} is damaged: {_restart(folder)}"
            )
        return Checkpoint(pointer["round"], load_tensors(content), pointer["host"])
    except (OSError, KeyError, TypeError, json.JSONDecodeError, UnicodeDecodeError, SafetensorError) as error:
        raise UserError(
            f"The checkpoint in {str(folder)!r} is damaged ({error}): {_restart(folder)}"
        ) from None


def _restart(folder: Path) -> str:
    return f"start again with 'amsfl run --config {folder / CONFIG} --out {folder} --force'."


def write_atomically(path: Path, content: bytes) -> None:
    """All of it or nothing: to a file beside it, to the disk, then renamed over it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
