"""A study of units: each one batch of trials and one sealed file, so that a stopped study goes on."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from amsfl.data import Dataset
from amsfl.record import Busy, locked, read_sealed, write_sealed
from amsfl.simulation import CustomParts, Result, RunConfig, run_batch

AGAIN = "remove it, and the study runs it again."


class Unit(NamedTuple):
    name: str  # its file's, and what is said while it runs
    about: dict[str, Any]  # what is kept of it beside the ends of its trials
    configs: list[RunConfig]
    own: CustomParts = CustomParts()  # a policy or a method of its own; data are the study's


def run(
    folder: Path,
    dataset: Dataset,
    todo: Sequence[Unit],
    end: Callable[[RunConfig, Result], Mapping[str, Any]],
    watch: Callable[[str, int, int], None] | None = None,
) -> None:
    """Run what is not there yet; `end` says what is kept of a trial. Other settings: it is run again.

    A unit that another process works on is left to it: as many as there are cores may share a folder.
    """
    holdout = dataset._replace(evals={"holdout": dataset.evals["holdout"]})
    for number, unit in enumerate(todo):
        file, settings = file_of(folder, unit.name), settings_of(dataset, unit.configs)
        with suppress(Busy), locked(folder, f".{file.stem}-lock"):
            if finished(file, settings):
                continue
            if watch:
                watch(unit.name, number, len(todo))
            pairs = zip(
                unit.configs, run_batch(unit.configs, unit.own._replace(dataset=holdout)), strict=True
            )
            ends = [dict(end(config, result)) for config, result in pairs]
            write_sealed(file, {**unit.about, "settings": settings, "ends": ends})


def file_of(folder: Path, name: str) -> Path:
    return folder / f"unit-{''.join(c if c.isalnum() else '-' for c in name.lower())}.json"


def settings_of(dataset: Dataset, configs: Sequence[RunConfig]) -> dict[str, Any]:
    """What a unit was run with: it is run again where that changes."""
    return {"data": dataset.name, "runs": [each.model_dump() for each in configs]}


def finished(file: Path, settings: Mapping[str, Any]) -> bool:
    return file.exists() and bool(read_sealed(file, AGAIN)["settings"] == settings)


def read(folder: Path) -> Iterator[dict[str, Any]]:
    """Every finished unit: what it is about, and its `ends`."""
    for file in sorted(folder.glob("unit-*.json")):
        yield read_sealed(file, AGAIN)
