"""A study's folder: study.toml, and trials/ENTRY/FIRST-LAST.jsonl, each written whole or not at all."""

import json
import shutil
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomli_w

from amsfl import __version__, clock
from amsfl.core import UserError
from amsfl.data import Dataset
from amsfl.federation.folder import write_atomically
from amsfl.study.settings import Study

SETTINGS, TRIALS = "study.toml", "trials"
PLACES = ("data_dir",)  # where the user keeps things: no part of a study, and of no use elsewhere


def create(folder: Path, study: Study, dataset: Dataset, force: bool = False) -> None:
    """Make or reopen a study's folder. One with other settings is left alone unless `force`."""
    path = folder / SETTINGS
    fresh = described(study, dataset)
    if path.exists():
        old = tomllib.loads(path.read_text(encoding="utf-8"))
        changed = sorted(_differences(old, fresh, ()))
        if changed and not force:
            raise UserError(
                f"The folder {str(folder)!r} holds a study with other settings ({'; '.join(changed[:3])}); "
                "choose another --out, or start it anew with --force."
            )
        if changed:
            shutil.rmtree(folder / TRIALS, ignore_errors=True)
        else:
            fresh["trials"] = max(fresh["trials"], old["trials"])
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, tomli_w.dumps(fresh).encode())
    except OSError as error:
        raise UserError(f"The folder {str(folder)!r} cannot be written: {error.strerror}.") from None


def described(study: Study, dataset: Dataset) -> dict[str, Any]:
    """study.toml: every setting of every method as it was run, the data, and how fast the clients are."""
    configs = {entry: study.config(entry).model_dump(exclude_none=True) for entry in study.methods}
    for settings in configs.values():
        for place in PLACES:
            settings.pop(place, None)
    first = next(iter(configs.values()))
    shared = {
        key: value for key, value in first.items() if all(c.get(key) == value for c in configs.values())
    }
    speeds = clock.profile(first["profile"], first["clients"], study.seed)
    return {
        "title": study.title,
        "kind": study.kind,
        "trials": study.trials,
        "seed": study.seed,
        "reference": study.reference,
        "version": __version__,
        "data": {
            "name": dataset.name,
            "synthetic": dataset.synthetic,
            "note": dataset.note,
            "classes": list(dataset.classes),
            "rows": len(dataset.y),
            "eval_rows": {split: len(y) for split, (_, y) in dataset.evals.items()},
        },
        "clients": {
            "step_seconds": speeds.step_seconds.tolist(),
            "latency": speeds.latency.tolist(),
            "up_mbps": speeds.up_mbps.tolist(),
            "down_mbps": speeds.down_mbps.tolist(),
        },
        "run": shared,
        "methods": {
            entry: {key: value for key, value in settings.items() if key not in shared}
            for entry, settings in configs.items()
        },
    }


def finished(folder: Path, entry: str) -> dict[int, dict[str, Any]]:
    """Trials on record, by number: entry, trial, seed, wall; curves stay on the disk."""
    found = {}
    for path in sorted((folder / TRIALS / entry).glob("*.jsonl")):
        for text in path.read_text(encoding="utf-8").splitlines():
            trial = json.loads(text)
            found[trial["trial"]] = {key: trial[key] for key in ("seed", "wall")}
    return found


def save(folder: Path, entry: str, trials: Sequence[int], lines: list[str]) -> None:
    where = folder / TRIALS / entry
    where.mkdir(parents=True, exist_ok=True)
    name = f"{trials[0]:04d}-{trials[-1]:04d}.jsonl"
    write_atomically(where / name, "".join(text + "\n" for text in lines).encode())


def _differences(old: dict[str, Any], new: dict[str, Any], path: tuple[str, ...]) -> list[str]:
    """`run.lr: 0.05, now 0.1` for every setting that matters to the numbers and is not the same."""
    found = []
    for key in old.keys() | new.keys():
        if not path and key in ("trials", "title", "reference"):
            continue
        was, now = old.get(key), new.get(key)
        if isinstance(was, dict) and isinstance(now, dict):
            found += _differences(was, now, (*path, key))
        elif was != now and key != "note":
            found.append(f"{'.'.join((*path, key))}: {was!r}, now {now!r}")
    return found
