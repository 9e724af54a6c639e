"""Who did what when, from a record's rounds: at work, at work for nothing, away. What is left is waiting."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from amsfl.record.schema import RoundRecord

WORKED, STALE, LOST, AWAY = "worked", "stale", "lost", "away"
GONE = "gone"  # how the reason begins of a real client that left, or could not be reached
LATE, AT_LAST = "late: ", "late reply"  # of one that was not waited for any longer, and when it came at last


class Span(NamedTuple):
    client: int
    begin: float
    end: float
    kind: str


class BusyTimes(NamedTuple):
    """When clients were at work, so that a time can be looked up without reading every span."""

    begins: dict[int, list[float]]  # by client, rising
    ends: dict[int, list[float]]  # the latest end of the spans up to each begin
    overlapping: bool  # rounds overlap: some work was for an older model

    def at_work(self, client: int, opened: float, closed: float) -> bool:
        """Whether a span of it begins before `closed` and ends after `opened`."""
        before = bisect_left(self.begins.get(client, []), closed)
        return before > 0 and self.ends[client][before - 1] > opened

    def returns(self, client: int, closed: float) -> bool:
        """Whether it is at work later."""
        return client in self.begins and self.begins[client][-1] >= closed


def spans(rounds: Sequence[RoundRecord], clients: int, clock: str = "makespan") -> list[Span]:
    """All that is known of clients' time; `clients` is 0 where only some were asked each round."""
    work = [span for each in rounds for span in _work(each, clock)]
    busy = busy_times(work)
    work += [span for place in range(len(rounds)) for span in _overdue(rounds[place:], busy, clock)]
    busy = busy_times(work)
    return work + [
        Span(who, *_bounds(each, clock), AWAY)
        for each in rounds
        for who in sorted(absent(each, clients, busy, clock))
    ]


def has_times(each: RoundRecord) -> bool:
    """Whether a round says when its clients worked."""
    return bool(each.started or each.plan.get("client_seconds"))


def _bounds(each: RoundRecord, clock: str) -> tuple[float, float]:
    """When a round began and ended."""
    close = each.seconds[clock]
    return close - each.round_seconds.get(clock, 0.0), close


def _work(each: RoundRecord, clock: str) -> Iterator[Span]:
    opened, close = _bounds(each, clock)
    if each.started:
        rows = zip(each.cohort, each.started, each.arrived, each.staleness, strict=True)
        yield from (Span(who, begin, end, STALE if age else WORKED) for who, begin, end, age in rows)
    elif has_times(each):
        begin = opened
        for who, took in zip(each.cohort, each.plan["client_seconds"], strict=True):
            yield Span(who, begin, begin + took, WORKED)
            begin += took if clock == "sum" else 0.0  # one after another
    yield from (Span(int(who), begin, end, LOST) for who, begin, end in each.dropped)
    if not each.started:  # a real round that waited for all, and of somebody in vain
        asked = each.plan.get("planned", {}).get("cohort", [])
        left = [who for who in asked if who not in each.cohort and who not in refused(each, GONE)]
        yield from (Span(who, opened, close, LOST) for who in left)


def _overdue(rounds: Sequence[RoundRecord], busy: BusyTimes, clock: str) -> Iterator[Span]:
    """Real clients cannot be stopped: who was late in the first of these rounds works on, for nothing, until
    its reply is in, or to the end."""
    close = rounds[0].seconds[clock]
    for who in refused(rounds[0], LATE):
        arrivals = (each.seconds[clock] for each in rounds[1:] if who in refused(each, AT_LAST))
        ends = [next(arrivals, rounds[-1].seconds[clock])]
        begins = busy.begins.get(who, [])
        ends += begins[bisect_left(begins, close) :][:1]  # asked again
        end = min(ends)
        if end > close:
            yield Span(who, close, end, LOST)


def refused(each: RoundRecord, why: str) -> set[int]:
    """Real clients that were refused in this round for a reason that begins so."""
    items = each.plan.get("refused", [])
    return {int(i["client"]) for i in items if i["client"] is not None and i["reason"].startswith(why)}


def absent(each: RoundRecord, clients: int, busy: BusyTimes, clock: str = "makespan") -> set[int]:
    """Who was neither asked nor at work, where everybody would have been asked."""
    opened, close = _bounds(each, clock)
    asked = {*each.cohort, *each.plan.get("planned", {}).get("cohort", [])}
    asked |= {int(i["client"]) for i in each.plan.get("refused", []) if i["client"] is not None}
    left = {*range(clients)} - asked
    idle = {client for client in left if not busy.at_work(client, opened, close)}
    if busy.overlapping:  # a client that never returns may be at work to the end
        idle = {client for client in idle if busy.returns(client, close)}
    return refused(each, GONE) | idle


def busy_times(spans: Sequence[Span]) -> BusyTimes:
    """When each client was at work."""
    by_client: dict[int, list[Span]] = {}
    for span in sorted(spans, key=lambda span: span.begin):
        by_client.setdefault(span.client, []).append(span)
    return BusyTimes(
        {client: [span.begin for span in mine] for client, mine in by_client.items()},
        {client: list(accumulate((span.end for span in mine), max)) for client, mine in by_client.items()},
        any(span.kind == STALE for span in spans),
    )
