"""Whom the server doubted: replies that it refused and why, and how far a rule weighed clients down."""

from collections import Counter
from typing import NamedTuple

import numpy as np

from amsfl.report.measure.read import Series
from amsfl.report.measure.subject import Study
from amsfl.report.tabulate.paper_tables import METHOD
from amsfl.report.tabulate.table import Column, Row, Table, Value

CLAIMED = "claimed"  # in a record: shares before any rule
LOW = 0.5  # of what a client claims: below this it was weighed down
MANY = 40  # rows; those that lost the least are left out


class Doubted(NamedTuple):
    """Of one client, over all rounds and trials of a series."""

    rounds: int  # in which it was heard
    claimed: float | None  # mean share by its own word
    counted: float | None  # and after the rule
    low: int  # rounds in which it counted less than LOW of its claim
    links: Counter[str]  # which link took the most, in those
    refused: Counter[str]  # reasons


def doubts(study: Study) -> Table | None:
    """By client: how often it was refused or weighed down, by which rule, and by how much its weight fell."""
    found = [
        (one.label, who, each) for one in study.found for who, each in sorted(doubted(one.series).items())
    ]
    if not any(each.refused or each.counted is not None for *_, each in found):
        return None
    worst = sorted(found, key=lambda row: _left(row[2]))[:MANY]
    rows = [_row(study, *each) for each in found if each in worst]
    columns = [
        METHOD,
        Column("client", "Client"),
        Column("heard", "Rounds heard"),
        Column("claimed", "Weight claimed", 3),
        Column("counted", "Weight counted", 3),
        Column("low", "Rounds weighed down"),
        Column("link", "Mostly by"),
        Column("refused", "Replies refused"),
        Column("why", "Mostly because"),
    ]
    notes = [
        f"Weights are means over the rounds in which a client was heard. Weighed down: it counted less than "
        f"{LOW:g} of its claim; by the link of the rule that took the most. A rule that picks by coordinates "
        "counts on average over them."
    ]
    if len(found) > len(rows):
        notes.append(f"{len(rows)} of {len(found)}: those that lost the most.")
    return Table("doubted", "Refused and weighed down", columns, rows, notes)


def doubted(series: Series) -> dict[int, Doubted]:
    """Whatever records say of each client."""
    claims: dict[int, list[float]] = {}
    counts: dict[int, list[float]] = {}
    heard: Counter[int] = Counter()
    links: dict[int, Counter[str]] = {}
    refused: dict[int, Counter[str]] = {}
    for record in (each for trial in series.trials for each in trial.rounds):
        heard.update(record.cohort)
        for item in record.plan.get("refused", ()):
            if item["client"] is not None:
                refused.setdefault(item["client"], Counter())[item["reason"]] += 1
        names = [*record.weighed]
        for place, who in enumerate(record.cohort if names else ()):
            course = [record.weighed[name][place] for name in names]
            whole = [each for each in course if each is not None]
            if len(whole) < len(course):
                continue  # a rule of one's own that does not say
            claims.setdefault(who, []).append(whole[0])
            counts.setdefault(who, []).append(whole[-1])
            if whole[-1] < LOW * whole[0]:
                links.setdefault(who, Counter())[names[1 + int(np.argmin(np.diff(whole)))]] += 1
    return {
        who: Doubted(
            heard[who],
            _mean(claims.get(who)),
            _mean(counts.get(who)),
            links.get(who, Counter()).total(),
            links.get(who, Counter()),
            refused.get(who, Counter()),
        )
        for who in {*heard, *refused}
    }


def _row(study: Study, label: str, who: int, each: Doubted) -> Row:
    values: dict[str, Value] = {
        "method": label,
        "client": study.client(who + 1),
        "heard": float(each.rounds),
        "claimed": each.claimed,
        "counted": each.counted,
        "low": float(each.low) if each.counted is not None else None,
        "link": _most(each.links),
        "refused": float(each.refused.total()),
        "why": _most(each.refused),
    }
    return Row(values)


def _left(each: Doubted) -> float:
    """Of its claim, and less for every refusal."""
    kept = each.counted / each.claimed if each.counted is not None and each.claimed else 1.0
    return kept - each.refused.total()


def _most(found: Counter[str]) -> str | None:
    return found.most_common(1)[0][0] if found else None


def _mean(values: list[float] | None) -> float | None:
    return float(np.mean(values)) if values else None
