"""Records on disk -> series of trials. A folder is a study's or a plain run's."""

from pathlib import Path
from typing import Any, NamedTuple

from amsfl import record
from amsfl.core import UserError
from amsfl.record import MethodFacts, RoundRecord, RunRecord, StudyRecord, Summary

DAGGER = "†"


class Trial(NamedTuple):
    number: int
    seed: int
    summary: Summary  # of a finished run
    rounds: list[RoundRecord]


class Series(NamedTuple):
    """One line of a table: a method with its settings, over its trials."""

    key: str  # for file contents: fedavg, or fedavg@FOLDER where several folders are overlaid
    label: str  # for people
    method: str
    settings: dict[str, Any]
    trials: list[Trial]
    note: str = ""  # what a reader of its numbers must know

    @property
    def diverged(self) -> int:
        """Trials whose model stopped being finite."""
        return sum(trial.summary.status == "diverged" for trial in self.trials)


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
    sources = [_source(folder) for folder in folders]
    if not any(series.trials for source in sources for series in source.series):
        raise UserError(f"Nothing is finished yet in {', '.join(str(f) for f in folders)}; run it first.")
    return _told_apart(sources)


def _source(folder: Path) -> Source:
    if record.holds_parts(folder) or record.read_manifest(folder, "run", "flower", "study").kind == "study":
        return _study(folder, record.read_study(folder))
    return _run(folder, record.read_run(folder))


def _study(folder: Path, found: StudyRecord) -> Source:
    settings = found.settings
    return Source(
        folder.name,
        settings["title"],
        settings["kind"],
        settings["trials"],
        settings["reference"],
        settings,
        [_entry(found, entry) for entry in found.trials],
    )


def _entry(found: StudyRecord, entry: str) -> Series:
    facts = found.manifest.methods[entry]
    own = {"method": entry, **found.settings["run"], **found.settings["methods"][entry]}
    own |= {"searched": found.settings.get("searched", {}).get(entry)}
    trials = [Trial(each.trial, each.seed, each.summary, each.rounds) for each in found.trials[entry]]
    label = facts.title if entry == facts.name else f"{facts.title} ({entry})"
    return _series(entry, label, facts, own, trials)


def _series(
    key: str, label: str, facts: MethodFacts, settings: dict[str, Any], trials: list[Trial]
) -> Series:
    """A sign behind the name of a method whose numbers come with a note."""
    note = f"{DAGGER} {facts.note}" if facts.note else ""
    return Series(key, f"{label} {DAGGER}" if note else label, facts.name, settings, trials, note)


def _run(folder: Path, found: RunRecord) -> Source:
    """A folder of `amsfl run`, as a study of one method and one trial."""
    settings = {key: value for key, value in found.settings.items() if value is not None}
    facts, seed = found.method, settings["seed"]
    # a run that has not ended has no summary to stand in a table
    trials = [Trial(0, seed, found.summary, found.rounds)] if found.summary else []
    about = found.manifest.about
    return Source(
        folder.name,
        f"{facts.title} on {about['data']['name']}",
        "compare",
        1,
        facts.name,
        {**about, "run": settings, "methods": {facts.name: {}}, "seed": seed},
        [_series(facts.name, facts.title, facts, settings, trials)],
    )


def _told_apart(sources: list[Source]) -> list[Source]:
    """Labels with the folder behind them where there are several."""
    several = len(sources) > 1
    result = []
    for number, source in enumerate(sources):
        name = source.folder
        if any(other.folder == name for other in sources[:number]):
            name = f"{name}-{number + 1}"
        renamed = []
        for series in source.series:
            renamed.append(
                series._replace(
                    key=f"{series.key}@{name}" if several else series.key,
                    label=f"{series.label} · {name}" if several else series.label,
                )
            )
        reference = f"{source.reference}@{name}" if several else source.reference
        result.append(source._replace(series=renamed, reference=reference))
    return result
