"""Records on disk -> series of trials. A folder is a study's (study.toml) or a plain run's (config.toml)."""

import json
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from amsfl import methods
from amsfl.core import UserError
from amsfl.federation import folder as run_folder

STUDY, TRIALS = "study.toml", "trials"
DAGGER = "†"


class Trial(NamedTuple):
    number: int
    seed: int
    summary: dict[str, Any]  # of a finished run
    rounds: list[dict[str, Any]]  # fields of RoundRecord


class Series(NamedTuple):
    """One line of a table: a method with its settings, over its trials."""

    key: str  # for file contents: fedavg, or fedavg@FOLDER where several folders are overlaid
    label: str  # for people
    method: str
    variant: int  # 0 for the first series of a method, then 1, 2, ...: colour says method, dashes say this
    settings: dict[str, Any]
    trials: list[Trial]

    @property
    def diverged(self) -> int:
        """Trials whose model stopped being finite."""
        return sum(trial.summary["status"] == "diverged" for trial in self.trials)

    @property
    def note(self) -> str:
        note = methods.make(self.method).note
        return f"{DAGGER} {note}" if note else ""


class Source(NamedTuple):
    folder: str
    title: str
    kind: str
    planned: int  # trials asked for
    reference: str
    settings: dict[str, Any]  # study.toml, or what a plain run's files say in the same shape
    series: list[Series]


def read(folders: list[Path]) -> list[Source]:
    """All folders' series, with keys and labels that tell them apart."""
    if not folders:
        raise UserError("Name a folder: 'amsfl report results/reproduce'.")
    sources = [_study(folder) if (folder / STUDY).exists() else _run(folder) for folder in folders]
    if not any(series.trials for source in sources for series in source.series):
        raise UserError(f"Nothing is finished yet in {', '.join(str(f) for f in folders)}; run it first.")
    return _told_apart(sources)


def _study(folder: Path) -> Source:
    try:
        settings = tomllib.loads((folder / STUDY).read_text(encoding="utf-8"))
        series = [_entry(folder, settings, entry) for entry in settings["methods"]]
    except (OSError, KeyError, ValueError) as error:
        raise UserError(f"The study in {str(folder)!r} cannot be read: {error!r}.") from None
    return Source(
        folder.name,
        settings["title"],
        settings["kind"],
        settings["trials"],
        settings["reference"],
        settings,
        series,
    )


def _entry(folder: Path, settings: dict[str, Any], entry: str) -> Series:
    own = {"method": entry, **settings["run"], **settings["methods"][entry]}
    lines = [
        json.loads(text)
        for path in sorted((folder / TRIALS / entry).glob("*.jsonl"))
        for text in path.read_text(encoding="utf-8").splitlines()
    ]
    trials = [Trial(row["trial"], row["seed"], row["summary"], row["rounds"]) for row in lines]
    trials.sort(key=lambda trial: trial.number)
    method = own["method"]
    label = methods.make(method).title if entry == method else f"{methods.make(method).title} ({entry})"
    return Series(entry, label + _mark(method), method, 0, own, trials)


def _mark(method: str) -> str:
    """A sign behind the name of a method whose numbers come with a note."""
    return f" {DAGGER}" if methods.make(method).note else ""


def _run(folder: Path) -> Source:
    """A folder of `amsfl run`, as a study of one method and one trial."""
    if not (folder / run_folder.CONFIG).exists():
        raise UserError(
            f"The folder {str(folder)!r} holds neither a study ({STUDY}) nor a run ({run_folder.CONFIG})."
        )
    config = run_folder.read_config(folder)
    settings = config.model_dump(exclude_none=True)
    path = folder / run_folder.SUMMARY
    trials = []
    if path.exists():  # else the run has not ended, and has no summary to stand in a table
        summary = json.loads(path.read_text(encoding="utf-8"))
        rounds = [record._asdict() for record in run_folder.read_rounds(folder)]
        trials = [Trial(0, config.seed, summary, rounds)]
    seen = trials[0].summary if trials else {}
    data = {"name": seen.get("data", config.data), "synthetic": seen.get("synthetic", False), "note": ""}
    data["note"] = seen.get("note", "") if data["synthetic"] else ""
    title = methods.make(config.method).title
    return Source(
        folder.name,
        f"{title} on {data['name']}",
        "compare",
        1,
        config.method,
        {"data": data, "run": settings, "methods": {config.method: {}}, "seed": config.seed},
        [Series(config.method, title + _mark(config.method), config.method, 0, settings, trials)],
    )


def _told_apart(sources: list[Source]) -> list[Source]:
    """Labels with the folder behind them where there are several; variants counted a method."""
    seen: dict[str, int] = {}
    several = len(sources) > 1
    result = []
    for number, source in enumerate(sources):
        name = source.folder
        if any(other.folder == name for other in sources[:number]):
            name = f"{name}-{number + 1}"
        renamed = []
        for series in source.series:
            variant = seen.get(series.method, 0)
            seen[series.method] = variant + 1
            renamed.append(
                series._replace(
                    variant=variant,
                    key=f"{series.key}@{name}" if several else series.key,
                    label=f"{series.label} · {name}" if several else series.label,
                )
            )
        reference = f"{source.reference}@{name}" if several else source.reference
        result.append(source._replace(series=renamed, reference=reference))
    return result
