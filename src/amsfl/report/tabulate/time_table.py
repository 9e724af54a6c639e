"""Where clients' time went, method by method."""

from amsfl.report.measure import timeline
from amsfl.report.measure.subject import Study
from amsfl.report.tabulate.paper_tables import METHOD
from amsfl.report.tabulate.table import Column, Row, Table


def time_spent(study: Study) -> Table | None:
    """Shares of all clients' seconds, from the run's start to its last round."""
    known = [one for one in study.found if timeline.known(one.series)]
    if not known:
        return None
    found = [timeline.shares(one.series, study.clock) for one in known]
    aged = any(each.oldest for each in found)
    columns = [
        METHOD,
        Column("working", "At work, %", 1),
        Column("waiting", "Waiting, %", 1),
        Column("lost", "Too late or failed, %", 1),
        Column("away", "Away, %", 1),
        *([Column("staleness", "Staleness", 2), Column("oldest", "Oldest work", 0)] if aged else []),
    ]
    rows = [
        Row({"method": one.label, **each._asdict(), "oldest": float(each.oldest)})
        for one, each in zip(known, found, strict=True)
    ]
    notes = [
        "Of the time of all clients together, from the start to the last round. Waiting: for the others, for "
        "the server, or for a turn; and what was still under way at the end, which is not on record."
    ]
    if aged:
        notes.append(
            "Staleness: how often the server had moved since the work began; the mean, and the most."
        )
    return Table("time_spent", "Where clients' time went", columns, rows, notes)
