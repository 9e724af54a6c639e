"""Tables of clients: their own rows, how they spent their time, and whose work the server did not trust."""

from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np

from amsfl.report.measure import clients as each_client
from amsfl.report.measure.read import Series
from amsfl.report.measure.subject import Subject
from amsfl.report.tabulate.score_tables import MANY
from amsfl.report.tabulate.table import METHOD, ReportTable, TableColumn, TableRow

LOW = 0.5  # of the weight that a client claims: below this it was weighed down
MOST_ROWS = 40  # those that lost the most


def own_rows(subject: Subject) -> ReportTable | None:
    """The global model on each client's own training rows."""
    name, title = ("r2", "R²") if subject.is_regression else ("accuracy", "Accuracy")
    details = (trial.summary.details.get("clients") or {} for trial in subject.reference.series.trials)
    clients = list(next(details, {}))
    if not 1 < len(clients) <= MANY or subject.differences:
        return None
    columns = [METHOD]
    columns += [
        TableColumn(f"own_{place}", subject.client(place + 1), 4, "max") for place in range(len(clients))
    ]
    rows = [
        TableRow(
            {
                "method": one.label,
                **{f"own_{place}": one.mean(f"{name}_own_{client}") for place, client in enumerate(clients)},
            }
        )
        for one in subject.methods
    ]
    note = f"{title} of the last global model on the training rows of each client."
    return ReportTable("own_rows", "Each client's own rows", columns, rows, [note])


def time_spent(subject: Subject) -> ReportTable | None:
    """Shares of all clients' seconds, from the run's start to its last round."""
    methods = [one for one in subject.methods if each_client.has_times(one.series)]
    if not methods:
        return None
    shares = [each_client.shares(one.series, subject.clock) for one in methods]
    stale = any(each.oldest for each in shares)
    columns = [
        METHOD,
        TableColumn("working", "At work, %", 1),
        TableColumn("waiting", "Waiting, %", 1),
        TableColumn("lost", "Too late or failed, %", 1),
        TableColumn("away", "Away, %", 1),
    ]
    if stale:
        columns += [TableColumn("staleness", "Staleness", 2), TableColumn("oldest", "Oldest work", 0)]
    rows = [
        TableRow({"method": one.label, **each._asdict(), "oldest": float(each.oldest)})
        for one, each in zip(methods, shares, strict=True)
    ]
    notes = [
        "Of the time of all clients together, from the start to the last round. Waiting: for other clients, "
        "for the server, or for a turn; work that was under way at the end is not on record and counts as "
        "waiting."
    ]
    if stale:
        notes.append("Staleness: how often the server had moved since the work began; its mean and its most.")
    return ReportTable("time_spent", "Where clients' time went", columns, rows, notes)


class ClientDoubts(NamedTuple):
    """How often a client was refused or weighed down, over all rounds and trials of a series."""

    rounds: int  # that used its work
    claimed: float | None  # mean share that it claims
    counted: float | None  # mean share after the robust rule
    links: Counter[str]  # of rounds in which it counted less than LOW of its claim: what took the most
    refused: Counter[str]  # by reason

    @property
    def left(self) -> float:
        """Of its claim, less 1 for every refusal."""
        share = self.counted / self.claimed if self.counted is not None and self.claimed else 1.0
        return share - self.refused.total()


def doubts(subject: Subject) -> ReportTable | None:
    """By client: how often it was refused or weighed down, by which rule, and by how much its weight fell."""
    clients = [
        (one.label, client, each)
        for one in subject.methods
        for client, each in sorted(client_doubts(one.series).items())
    ]
    if not any(each.refused or each.counted is not None for *_, each in clients):
        return None
    worst = sorted(clients, key=lambda row: row[2].left)[:MOST_ROWS]
    rows = [
        TableRow(
            {
                "method": label,
                "client": subject.client(client + 1),
                "heard": float(each.rounds),
                "claimed": each.claimed,
                "counted": each.counted,
                "low": float(each.links.total()) if each.counted is not None else None,
                "link": max(each.links, key=each.links.__getitem__, default=None),
                "refused": float(each.refused.total()),
                "why": max(each.refused, key=each.refused.__getitem__, default=None),
            }
        )
        for label, client, each in clients
        if (label, client, each) in worst
    ]
    columns = [
        METHOD,
        TableColumn("client", "Client"),
        TableColumn("heard", "Rounds used"),
        TableColumn("claimed", "Weight claimed", 3),
        TableColumn("counted", "Weight counted", 3),
        TableColumn("low", "Rounds weighed down"),
        TableColumn("link", "Mostly by"),
        TableColumn("refused", "Replies refused"),
        TableColumn("why", "Mostly because"),
    ]
    notes = [
        f"Weights are means over the rounds that used a client's work. Weighed down: it counted less than "
        f"{LOW:g} of its claim; by the link of the rule that took the most. A rule that chooses by "
        "coordinates counts on average over them."
    ]
    if len(clients) > len(rows):
        notes.append(f"{len(rows)} of {len(clients)}: those that lost the most.")
    return ReportTable("doubted", "Refused and weighed down", columns, rows, notes)


def client_doubts(series: Series) -> dict[int, ClientDoubts]:
    claims, counts = defaultdict[int, list[float]](list), defaultdict[int, list[float]](list)
    links, refused = defaultdict[int, Counter[str]](Counter), defaultdict[int, Counter[str]](Counter)
    used: Counter[int] = Counter()
    for record in (each for trial in series.trials for each in trial.rounds):
        used.update(record.cohort)
        for item in record.plan.get("refused", ()):
            if item["client"] is not None:
                refused[item["client"]][item["reason"]] += 1
        names = [*record.weighed]
        for place, client in enumerate(record.cohort if names else ()):
            shares = [record.weighed[name][place] for name in names]
            numbers = [share for share in shares if share is not None]
            if len(numbers) < len(shares):
                continue  # a user's own rule that does not report weights
            claims[client].append(numbers[0])
            counts[client].append(numbers[-1])
            if numbers[-1] < LOW * numbers[0]:
                links[client][names[1 + int(np.argmin(np.diff(numbers)))]] += 1
    return {
        client: ClientDoubts(
            used[client], _mean(claims[client]), _mean(counts[client]), links[client], refused[client]
        )
        for client in {*used, *refused}
    }


def _mean(values: list[float]) -> float | None:
    return float(np.mean(values)) if values else None
