"""Every client as the page shows it: its steps and why no more, its seconds, what became of its work."""

from collections.abc import Mapping
from typing import Any

from amsfl.record import Manifest
from amsfl.report.live.track import Latest, about
from amsfl.report.measure.text import distinct, shown
from amsfl.schedule import REASON_TEXTS

ROWS = 500  # sites that a page has room for


def sites(manifest: Manifest, latest: Latest) -> dict[str, Any]:
    """The table of a trial's last round."""
    record, plan = latest.record, latest.record.plan
    place = {who: nth for nth, who in enumerate(record.cohort)}
    planned = plan.get("planned") or {}
    asked = dict(zip(planned.get("cohort", ()), planned.get("steps", ()), strict=False))
    refused = {each.get("client"): str(each.get("reason", "")) for each in plan.get("refused") or ()}
    refused |= {int(who): "late: its work was not used" for who, *_ in record.dropped}
    reasons = None if any(record.staleness) else plan.get("why")  # of work begun in this round
    everyone = range(_clients(manifest, latest))
    names = _names(manifest, len(everyone))
    rows = []
    first = sorted(everyone, key=lambda who: who not in refused)  # who needs a look stands on top
    for who in first[:ROWS]:
        nth = place.get(who)
        rows.append(
            {
                "name": names[who],
                "steps": record.steps[nth] if nth is not None else asked.get(who),
                "total": latest.steps.get(who, 0),
                "seconds": _of(plan.get("client_seconds"), nth),
                "planned": _of(plan.get("predicted_client_seconds"), nth),
                "why": shown(_why(reasons, nth)),
                "refused": who in refused or (nth is None and who in asked),
                "trouble": shown(_trouble(nth, who in asked, refused.get(who, ""))),
            }
        )
    whose = f"{shown(manifest.methods[latest.entry].title)}, trial {latest.trial + 1}, "
    title = f"{whose if manifest.kind == 'study' else ''}round {record.round}"
    more = len(everyone) - len(rows)
    return {"title": title, "rows": rows, "more": f"and {more:,} more sites" if more else ""}


def _of(column: Any, nth: int | None) -> float | None:
    return column[nth] if isinstance(column, list) and nth is not None and nth < len(column) else None


def _why(reasons: Any, nth: int | None) -> str:
    reason = _of(reasons, nth)
    return "" if reason is None else REASON_TEXTS.get(str(reason), str(reason))


def _trouble(nth: int | None, asked: bool, refused: str) -> str:
    if refused:
        return refused
    if nth is None:
        return "its work was not taken" if asked else "not in this round"
    return ""


def trouble(manifest: Manifest, row: Mapping[str, Any]) -> dict[str, str]:
    """One line of refused.jsonl."""
    who, named = row.get("client"), row.get("name")
    label = "somebody unknown" if who is None else f"client {who}"
    return {"who": shown(str(named or label)), "why": shown(str(row.get("reason", "")))}


def _clients(manifest: Manifest, latest: Latest) -> int:
    named = len(about(manifest).get("clients", {}).get("names") or ())
    told = manifest.made_from.get("clients") or manifest.settings.get("run", {}).get("clients") or 0
    return max(named or int(told), 1 + max([*latest.record.cohort, *latest.steps], default=-1))


def _names(manifest: Manifest, count: int) -> list[str]:
    """The data's own, or numbers from 1 up, as in the report."""
    own = distinct([str(name) for name in about(manifest).get("clients", {}).get("names") or ()])
    return [*own, *(f"C{number + 1}" for number in range(len(own), count))]
