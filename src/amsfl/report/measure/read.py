"""Read records from disk as series of trials. A folder holds a study or a single run."""

from pathlib import Path
from typing import NamedTuple

from amsfl import record
from amsfl.core import UserError
from amsfl.core.records import Json
from amsfl.record import MethodFacts, Metrics, RoundRecord, RunRecord, StudyRecord, Summary

DAGGER = "†"
HOLDOUT, OWN_ROWS = "holdout", "clients"  # the server's rows; real clients' own rows where it has none


class FinishedTrial(NamedTuple):
    number: int
    seed: int
    summary: Summary
    rounds: list[RoundRecord]


class Series(NamedTuple):
    """One line of a table: a method with its settings, over its trials."""

    key: str  # in files: fedavg, or fedavg@FOLDER where several folders are compared
    label: str  # on the page
    method: str
    settings: Json
    trials: list[FinishedTrial]
    note: str = ""  # what a reader of its numbers must know

    @property
    def diverged(self) -> int:
        """Trials whose model stopped being finite."""
        return sum(trial.summary.status == "diverged" for trial in self.trials)


class DataFacts(NamedTuple):
    name: str
    synthetic: bool
    note: str
    classes: tuple[str, ...]
    eval_rows: dict[str, int]  # by split
    base: dict[str, Json]  # by split, the scores of always predicting the commonest class or mean


class ReportSource(NamedTuple):
    folder: str
    title: str
    kind: str
    planned: int  # trials asked for
    reference: str
    settings: Json  # study.toml, or a run's settings in the same shape
    series: list[Series]

    @property
    def data(self) -> DataFacts:
        facts = self.settings["data"]
        rates = facts.get("base_rate") or {}  # older records have the accuracy alone
        return DataFacts(
            str(facts["name"]),
            bool(facts["synthetic"]),
            str(facts.get("note") or ""),
            tuple(map(str, facts.get("classes") or ())),
            dict(facts.get("eval_rows") or {}),
            dict(facts.get("base") or {split: {"accuracy": rate} for split, rate in rates.items()}),
        )

    @property
    def client_names(self) -> tuple[str, ...]:
        """Names of the data's sites."""
        return tuple(map(str, (self.settings.get("clients") or {}).get("names") or ()))

    @property
    def step_seconds(self) -> tuple[float, ...]:
        return tuple((self.settings.get("clients") or {}).get("step_seconds") or ())

    @property
    def partition(self) -> str:
        """How rows were dealt to clients; `auto` depends on whether the data has sites."""
        named = str(self.settings["run"].get("partition", "auto"))
        if named != "auto":
            return named
        return "column" if self.client_names else "dirichlet:0.5"


def judged(metrics: Metrics) -> Metrics:
    """Scores by split; clients' own rows stand in for the hold-out where there is none."""
    if HOLDOUT in metrics or OWN_ROWS not in metrics:
        return metrics
    return {HOLDOUT: metrics[OWN_ROWS]} | {split: row for split, row in metrics.items() if split != OWN_ROWS}


def read(folders: list[Path]) -> list[ReportSource]:
    """All folders' series, with keys and labels that differ."""
    if not folders:
        raise UserError("Name a folder: 'amsfl report results/reproduce'.")
    kinds = ("run", "flower", "study")
    sources = [
        _study(folder, record.read_study(folder))
        if record.holds_parts(folder) or record.read_manifest(folder, *kinds).kind == "study"
        else _run(folder, record.read_run(folder))
        for folder in folders
    ]
    if not any(series.trials for source in sources for series in source.series):
        raise UserError(f"Nothing is finished yet in {', '.join(str(f) for f in folders)}; run it first.")
    return _with_folder_names(sources) if len(sources) > 1 else sources


def _study(folder: Path, study: StudyRecord) -> ReportSource:
    settings = study.settings
    return ReportSource(
        folder.name,
        settings["title"],
        settings["kind"],
        settings["trials"],
        settings["reference"],
        settings,
        [_entry(study, entry) for entry in study.trials],
    )


def _entry(study: StudyRecord, entry: str) -> Series:
    facts = study.manifest.methods[entry]
    settings = {"method": entry, **study.settings["run"], **study.settings["methods"][entry]}
    settings |= {"searched": study.settings.get("searched", {}).get(entry)}
    trials = [FinishedTrial(each.trial, each.seed, each.summary, each.rounds) for each in study.trials[entry]]
    label = facts.title if entry == facts.name else f"{facts.title} ({entry})"
    return _series(entry, label, facts, settings, trials)


def _series(key: str, label: str, facts: MethodFacts, settings: Json, trials: list[FinishedTrial]) -> Series:
    """A method with a note has a sign behind its label."""
    note = f"{DAGGER} {facts.note}" if facts.note else ""
    return Series(key, f"{label} {DAGGER}" if note else label, facts.name, settings, trials, note)


def _run(folder: Path, run: RunRecord) -> ReportSource:
    """A folder of `amsfl run`, as a study of one method and one trial."""
    settings = {key: value for key, value in run.settings.items() if value is not None}
    facts, seed, about = run.method, settings["seed"], run.manifest.about
    # a run that has not ended has no summary
    trials = [FinishedTrial(0, seed, run.summary, run.rounds)] if run.summary else []
    return ReportSource(
        folder.name,
        f"{facts.title} on {about['data']['name']}",
        "compare",
        1,
        facts.name,
        {**about, "run": settings, "methods": {facts.name: {}}, "seed": seed},
        [_series(facts.name, facts.title, facts, settings, trials)],
    )


def _with_folder_names(sources: list[ReportSource]) -> list[ReportSource]:
    """Keys and labels with the folder behind them."""
    renamed = list[ReportSource]()
    for number, source in enumerate(sources, start=1):
        again = any(other.folder == source.folder for other in renamed)
        name = f"{source.folder}-{number}" if again else source.folder
        series = [
            each._replace(key=f"{each.key}@{name}", label=f"{each.label} · {name}") for each in source.series
        ]
        renamed.append(source._replace(series=series, reference=f"{source.reference}@{name}"))
    return renamed
