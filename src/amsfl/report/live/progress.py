"""How far a trial is: its last round, its clients so far, and its point on the curves."""

import math
from typing import Any, NamedTuple

from amsfl.core.records import Json
from amsfl.core.scores import Score, recorded_score, shown_score
from amsfl.record import Manifest, RoundRecord
from amsfl.report.measure.text import distinct, shown
from amsfl.schedule import REASON_TEXTS
from amsfl.worth.costs import caused

ROWS = 500  # sites that a page has room for


class TrialProgress(NamedTuple):
    """A trial's last round, and its clients' steps since the first."""

    entry: str
    trial: int
    record: RoundRecord
    steps: dict[int, int]
    wall: float  # seconds of this machine, where they are on record
    alone: dict[int, float]  # seconds that each client alone caused, where a ledger is kept
    look: RoundRecord | None = None  # the last round at which the ledger was looked at


def next_progress(
    manifest: Manifest, before: TrialProgress | None, entry: str, trial: int, record: RoundRecord
) -> TrialProgress:
    steps = dict(before.steps) if before else {}
    for client, count in zip(record.cohort, record.steps, strict=False):
        steps[client] = steps.get(client, 0) + count
    spent = record.wall.get("seconds", 0.0) + (before.wall if before else 0.0)
    alone = dict(before.alone) if before else {}
    if run_settings(manifest).get("worth"):
        for client, seconds in zip(record.cohort, caused(record, clock(manifest)).tolist(), strict=False):
            alone[client] = alone.get(client, 0.0) + seconds
    look = record if record.worth else before.look if before else None
    return TrialProgress(entry, trial, record, steps, record.wall.get("elapsed", spent), alone, look)


def about(manifest: Manifest) -> Json:
    """Facts on data and clients: a run's record has them by themselves, a study's among its settings."""
    return manifest.settings if manifest.kind == "study" else manifest.about


def run_settings(manifest: Manifest) -> Json:
    settings: Json = manifest.settings.get("run", manifest.settings)
    return settings


def clock(manifest: Manifest) -> str:
    return str(run_settings(manifest).get("clock", "sum"))


def main_score(manifest: Manifest, record: RoundRecord) -> Score | None:
    """The score that the settings name, else the usual one for what is predicted."""
    name = str(run_settings(manifest).get("score") or "")
    if name:
        return recorded_score(name, about(manifest).get("data", {}).get("classes") or ())
    return shown_score("", next(iter(record.metrics.values()), {}))


def score_values(record: RoundRecord, main: Score | None) -> dict[str, float]:
    """Every score of a round that is one number, by split and name; the main score's first."""
    if main is None:
        return record.scores
    first = {
        f"{split}/{main.name}": value
        for split, scores in record.metrics.items()
        if (value := main.of(scores)) is not None and math.isfinite(value)
    }
    twice = {f"{split}/{main.key}" for split in record.metrics if main.place is None}
    return first | {key: value for key, value in record.scores.items() if key not in twice}


def seconds_now(manifest: Manifest, progress: TrialProgress) -> float:
    """Virtual seconds by the run's clock; of real clients the seconds since the start."""
    return progress.wall if manifest.kind == "flower" else progress.record.seconds[clock(manifest)]


def site_table(manifest: Manifest, progress: TrialProgress) -> Json:
    """Every client in a trial's last round: its steps and why no more, its seconds, problems."""
    record, plan = progress.record, progress.record.plan
    places = {client: place for place, client in enumerate(record.cohort)}
    planned = plan.get("planned") or {}
    asked = dict(zip(planned.get("cohort", ()), planned.get("steps", ()), strict=False))
    refused = {each.get("client"): str(each.get("reason", "")) for each in plan.get("refused") or ()}
    refused |= {int(client): "late: its work was not used" for client, *_ in record.dropped}
    reasons = None if any(record.staleness) else plan.get("why")  # of work begun in this round
    names = _client_names(manifest, progress)
    rows = []
    for client in sorted(range(len(names)), key=lambda each: each not in refused)[:ROWS]:  # refused on top
        place = places.get(client)
        why = _item(reasons, place)
        trouble = refused.get(client, "")
        if place is None and not trouble:
            trouble = "its work was not taken" if client in asked else "not in this round"
        rows.append(
            {
                "name": names[client],
                "steps": record.steps[place] if place is not None else asked.get(client),
                "total": progress.steps.get(client, 0),
                "seconds": _item(plan.get("client_seconds"), place),
                "planned": _item(plan.get("predicted_client_seconds"), place),
                "why": "" if why is None else shown(REASON_TEXTS.get(str(why), str(why))),
                "refused": client in refused or (place is None and client in asked),
                "trouble": shown(trouble),
            }
        )
    whose = f"{shown(manifest.methods[progress.entry].title)}, trial {progress.trial + 1}, "
    title = f"{whose if manifest.kind == 'study' else ''}round {record.round}"
    more = len(names) - len(rows)
    return {"title": title, "rows": rows, "more": f"and {more:,} more sites" if more else ""}


def worth_table(manifest: Manifest, progress: TrialProgress) -> Json | None:
    """Of every client what the score would be lower by without it, in points, and what it costs."""
    if progress.look is None:
        return None
    score, without = progress.look.worth["score"], progress.look.worth["without"]
    names = _client_names(manifest, progress)[: len(without)]
    rows = [
        {"name": name, "points": 100 * (score - other), "seconds": progress.alone.get(client, 0.0)}
        for client, (name, other) in enumerate(zip(names, without, strict=True))
    ]
    return {"title": f"round {progress.look.round}", "rows": rows}


def _item(column: Any, place: int | None) -> Any:
    return column[place] if isinstance(column, list) and place is not None and place < len(column) else None


def _client_names(manifest: Manifest, progress: TrialProgress) -> list[str]:
    """The data's own, or numbers from 1 up, as in the report."""
    own = distinct([str(name) for name in about(manifest).get("clients", {}).get("names") or ()])
    planned = manifest.made_from.get("clients") or manifest.settings.get("run", {}).get("clients") or 0
    least = 1 + max([*progress.record.cohort, *progress.steps], default=-1)
    count = max(len(own) or int(planned), least)
    return [*own, *(f"C{number + 1}" for number in range(len(own), count))]
