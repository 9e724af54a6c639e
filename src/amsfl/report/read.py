"""Records on disk as rows: one for every trial, one for every round of it, one for every client of a round.

Everything that a report says is computed from these three data frames. A run is a study of one trial. Names
from users' data are made such as may be shown: on one line, without control characters.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from amsfl import record
from amsfl.clock import CLOCKS
from amsfl.clock.profile import MEGABYTE
from amsfl.core import Score, UserError
from amsfl.core.records import Json
from amsfl.record import Manifest, Metrics, RunRecord, StudyRecord, TrialRecord

DAGGER = "†"
HOLDOUT, OWN_ROWS = "holdout", "clients"  # the server's rows; real clients' own rows where it has none
ONE_NUMBER = ("accuracy", "macro_f1", "r2", "mae", "rmse", "macro_auc")  # scores of a split
BY_CLASS = ("recall", "precision", "f1", "auc")  # lists, one value a class
OWN = "own: "  # before the names of all other scores: metrics of the user's own
Row = dict[str, object]
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
LONG = 40  # letters that a figure has room for
UNKNOWN = "\N{REPLACEMENT CHARACTER}"


class ReportedMethod(NamedTuple):
    """One line of a table: a method with its settings."""

    key: str  # in files: fedavg, or fedavg@FOLDER where several folders are compared
    label: str
    name: str  # of the method itself
    settings: Json
    note: str  # what a reader of its numbers must know
    trials: list[TrialRecord]


def read(folders: list[Path]) -> list[StudyRecord]:
    """Every folder's study, folders that have the same name told apart."""
    if not folders:
        raise UserError("Name a folder: 'amsfl report results/reproduce'.")
    sources, names = list[StudyRecord](), [folder.name for folder in folders]
    for number, folder in enumerate(folders, start=1):
        name = f"{folder.name}-{number}" if folder.name in names[: number - 1] else folder.name
        kind = record.read_manifest(folder, "run", "flower", "study").kind
        study = record.read_study(folder) if kind == "study" else as_study(record.read_run(folder))
        sources.append(study._replace(folder=name))
    if not any(trials for source in sources for trials in source.trials.values()):
        raise UserError(f"Nothing is finished yet in {', '.join(map(str, folders))}; run it first.")
    return sources


def as_study(run: RunRecord) -> StudyRecord:
    """A run as a study of one method and one trial; of none where it has not ended."""
    settings, facts = {key: value for key, value in run.settings.items() if value is not None}, run.method
    seed = settings["seed"]
    trials = [TrialRecord(facts["name"], 0, run.summary, run.rounds)] if run.summary else []
    whole = {
        **run.manifest.about,
        "title": "",
        "kind": "run",
        "trials": 1,
        "seed": seed,
        "reference": facts["name"],
        "run": settings,
        "methods": {facts["name"]: {}},
    }
    manifest = Manifest(kind="study", settings=whole, methods={facts["name"]: facts})
    return StudyRecord(manifest, {facts["name"]: trials})


def methods(sources: list[StudyRecord]) -> list[ReportedMethod]:
    """All that have a finished trial; with its folder where several have one."""
    found, entries = list[ReportedMethod](), [entry for source in sources for entry in source.trials]
    for source in sources:
        key = f"@{source.folder}" if len(sources) > 1 else ""
        for entry, trials in source.trials.items():
            facts, settings = source.manifest.methods[entry], source.settings
            title = facts["title"] if entry == facts["name"] else f"{facts['title']} ({entry})"
            sign = f" {DAGGER}" if facts["note"] else ""
            label = f" · {source.folder}" if entries.count(entry) > 1 else ""
            own = {"method": entry, **settings["run"], **settings["methods"][entry]}
            own |= {"searched": settings.get("searched", {}).get(entry)}
            note = f"{DAGGER} {facts['note']}" if facts["note"] else ""
            one = ReportedMethod(
                entry + key, shown(title + sign + label), facts["name"], own, shown(note), list(trials)
            )
            found += [one] if trials else []
    return found


def judged(metrics: Metrics) -> Metrics:
    """Scores by split; clients' own rows stand in for the hold-out where there is none."""
    if HOLDOUT in metrics or OWN_ROWS not in metrics:
        return metrics
    return {HOLDOUT: metrics[OWN_ROWS]} | {split: row for split, row in metrics.items() if split != OWN_ROWS}


def trial_rows(method: ReportedMethod, score: Score) -> Iterator[Row]:
    """How every trial ended: its costs, its scores as NAME_SPLIT, NAME_SPLIT_CLASS and NAME_SPLIT_cCLIENT."""
    for trial in method.trials:
        summary, rounds = trial.summary, max(len(trial.rounds), 1)
        row: Row = {"method": method.key, "trial": trial.trial, "seed": trial.seed, "status": summary.status}
        row |= {
            "rounds": summary.rounds,
            "steps": sum(summary.steps.values()),
            "megabytes": (summary.bytes_up + summary.bytes_down) / MEGABYTE,
            "joules": summary.joules,
        }
        for clock in CLOCKS:
            row[f"seconds_{clock}"] = summary.virtual_seconds_by_clock[clock]
            row[f"round_seconds_{clock}"] = summary.virtual_seconds_by_clock[clock] / rounds
        for split, scores in judged(summary.metrics).items():
            for name, value in scores.items():
                if name in BY_CLASS:
                    row |= {f"{name}_{split}_{place}": each for place, each in enumerate(value)}
                elif name not in ("loss", "rows"):
                    row[f"{name}_{split}" if name in ONE_NUMBER else f"{OWN}{split}, {name}"] = value
            row[score.measure(split)] = score.of(scores)
        for name, local in (("accuracy", summary.local_accuracy), ("r2", summary.local_scores)):
            for split, values in (local or {}).items():
                row |= {f"{name}_{split}_c{client}": value for client, value in enumerate(values, start=1)}
        for split, scores in summary.details.get("splits", {}).items():
            row |= {f"macro_auc_{split}": scores["macro_auc"], f"ece_{split}": scores["ece"]}
            row |= {f"auc_{split}_{place}": value for place, value in enumerate(scores["auc"])}
        for place, scores in enumerate(summary.details.get("clients", {}).values()):
            row |= {f"{name}_own_{place}": scores[name] for name in ("accuracy", "r2") if name in scores}
        yield row


def round_rows(method: ReportedMethod, score: Score, splits: Iterable[str]) -> Iterator[Row]:
    """When every round ended, what had been spent by then, and its score of every split, if it was scored."""
    for trial in method.trials:
        megabytes = joules = 0.0
        for each in trial.rounds:
            megabytes += (each.bytes_up + each.bytes_down) / MEGABYTE
            joules += float("nan") if each.joules is None else each.joules
            scores = judged(each.metrics)
            yield {
                "method": method.key,
                "trial": trial.trial,
                "seed": trial.seed,
                "round": each.round,
                **{clock: each.seconds[clock] for clock in CLOCKS},
                "lr": each.lr,
                "megabytes": megabytes,
                "joules": joules,
                **{split: score.of(scores.get(split, {})) for split in splits},
            }


WORK = ("method", "trial", "round", "client", "steps", "seconds", "claimed", "counted", "lost", "refused")


def client_rows(method: ReportedMethod) -> Iterator[Row]:
    """What every client of a round did and how much that counted under a robust rule; seconds that were for
    nothing, and why the server refused a reply, in rows of their own."""
    for trial in method.trials:
        for each in trial.rounds:
            of: Row = {"method": method.key, "trial": trial.trial, "round": each.round}
            links, spent = list(each.weighed.values()), each.plan.get("client_seconds")
            if each.started:
                spent = [end - begin for begin, end in zip(each.started, each.arrived, strict=True)]
            for place, (client, steps) in enumerate(zip(each.cohort, each.steps, strict=True)):
                row = of | {"client": client, "steps": steps, "seconds": spent and spent[place]}
                if links and None not in (shares := [link[place] for link in links]):
                    row |= {"claimed": shares[0], "counted": shares[-1]}
                yield row
            for who, sent, given_up in each.dropped:
                yield of | {"client": int(who), "lost": given_up - sent}
            for item in each.plan.get("refused", ()):
                if item["client"] is not None:
                    yield of | {"client": item["client"], "refused": shown(item["reason"])}


def shown(text: str) -> str:
    """The text on one line; what no file can hold becomes a sign."""
    letters = (
        UNKNOWN if unicodedata.category(c) in ("Cc", "Cn", "Cs") and not c.isspace() else c for c in text
    )
    return " ".join("".join(letters).split())


def with_article(title: str) -> str:
    """As in `an AUC` and `a macro-F1`."""
    return f"{'an' if title[0] in 'aeiouARF' else 'a'} {title}"


def listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def plural(number: int, what: str) -> str:
    word = WORDS[number] if number < len(WORDS) else str(number)
    return f"{word} {what}{'' if number == 1 else 's'}"


def short(text: str, most: int = LONG) -> str:
    """For figures: the beginning of a long name; tables have it whole."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def differing(title: str, values: Iterable[object]) -> list[str]:
    """`TITLE: A; B` where values differ; None and '' differ from nothing."""
    texts = list(dict.fromkeys(str(value) for value in values if value not in (None, "")))
    return [f"{title}: {'; '.join(short(shown(text)) for text in texts)}"] if len(texts) > 1 else []
