"""Who worked when: spans by hand."""

import sys
from typing import Any

import numpy as np

from amsfl.record import RoundRecord
from amsfl.record.timeline import Span, busy_times, spans


def waited(number: int, close: float, took: list[float], cohort: list[int], **plan: Any) -> RoundRecord:
    spent = {"makespan": max(took), "sum": sum(took)}
    seconds = {"makespan": close, "sum": 2 * close}
    told = {"client_seconds": took, "refused": [], **plan}
    return RoundRecord(number, seconds, spent, cohort=cohort, steps=[1] * len(cohort), plan=told)


def test_rounds_that_wait_for_all_by_hand() -> None:
    """Two rounds of 4 and 2 s: client 1 is late in the first, client 2 gone in the second."""
    late = [{"client": 1, "reason": "late: no reply within 4.0 s"}]
    gone = [{"client": 2, "reason": "gone: no heartbeat"}]
    rounds = [
        waited(1, 4.0, [1.0, 4.0], [0, 2], refused=late, planned={"cohort": [0, 1, 2]}),
        waited(2, 6.0, [2.0, 1.0], [0, 1], refused=gone, planned={"cohort": [0, 1, 2]}),
    ]
    assert spans(rounds, 3) == [
        Span(0, 0.0, 1.0, "worked"),
        Span(2, 0.0, 4.0, "worked"),
        Span(1, 0.0, 4.0, "lost"),
        Span(0, 4.0, 6.0, "worked"),
        Span(1, 4.0, 5.0, "worked"),
        Span(2, 4.0, 6.0, "away"),
    ]
    one_by_one = [span for span in spans(rounds[1:], 0, "sum") if span.kind == "worked"]
    assert one_by_one == [Span(0, 9.0, 11.0, "worked"), Span(1, 11.0, 12.0, "worked")]


def test_busy_times_are_those_of_the_spans() -> None:
    rng = np.random.default_rng(0)
    begins, lengths = rng.integers(0, 40, 60), rng.integers(0, 12, 60)
    work = [
        Span(n % 3, float(b), float(b + d), "worked")
        for n, (b, d) in enumerate(zip(begins, lengths, strict=True))
    ]
    busy = busy_times(work)
    for client in range(4):
        mine = [span for span in work if span.client == client]
        for opened, closed in rng.integers(0, 60, (50, 2)):
            touched = any(span.begin < closed and span.end > opened for span in mine)
            assert busy.at_work(client, opened, closed) == touched
            assert busy.returns(client, closed) == any(span.begin >= closed for span in mine)


def test_the_work_for_a_timeline_grows_with_its_rounds() -> None:
    """Every second round is without client 1: who is away is looked up, not searched for."""

    def calls(count: int) -> int:
        cohorts = [[0, 1] if number % 2 else [0] for number in range(count)]
        rounds = [waited(n, 2.0 * n + 2, [2.0] * len(who), who) for n, who in enumerate(cohorts)]
        counted = 0

        def count_call(frame: Any, event: str, _: Any) -> None:
            nonlocal counted
            counted += event in ("call", "c_call")

        sys.setprofile(count_call)
        try:
            spans(rounds, 2)
        finally:
            sys.setprofile(None)
        return counted

    assert calls(400) < 3 * calls(200)


def test_a_late_client_that_nobody_can_stop_is_at_work_and_not_away() -> None:
    """Three rounds of 2 s: client 1 is late in the first and its reply comes in the second; in the third it
    is late again, in a run that ends with it. Between, at 4 s, it is asked anew."""
    late = [{"client": 1, "reason": "late: no reply within 2.0 s"}]
    came = [{"client": 1, "reason": "late reply: work for round 1 came after 3.1 s"}]
    planned = {"cohort": [0, 1]}
    rounds = [
        waited(1, 2.0, [2.0], [0], refused=late, planned=planned),
        waited(2, 4.0, [2.0], [0], refused=came, planned={"cohort": [0]}),
        waited(3, 6.0, [2.0], [0], refused=late, planned=planned),
        waited(4, 8.0, [2.0], [0], planned={"cohort": [0]}),
    ]
    mine = sorted(span for span in spans(rounds, 2) if span.client == 1)
    assert [(span.begin, span.end, span.kind) for span in mine] == [
        (0.0, 2.0, "lost"), (2.0, 4.0, "lost"), (4.0, 6.0, "lost"), (6.0, 8.0, "lost"),
    ]  # fmt: skip


def test_who_is_under_way_is_not_away() -> None:
    """A quorum of two: client 2 begins in round 1 and comes in round 2, when it is one move old."""
    kept = {"steps": [1, 1], "plan": {"client_seconds": [1.0, 2.0]}}
    first = RoundRecord(
        1, {"makespan": 2.0}, {"makespan": 2.0}, cohort=[0, 1], **kept,
        staleness=[0, 0], started=[0.0, 0.0], arrived=[1.0, 2.0],
    )  # fmt: skip
    second = RoundRecord(
        2, {"makespan": 3.0}, {"makespan": 1.0}, cohort=[0, 2], **kept, dropped=[[1, 2.0, 2.5]],
        staleness=[0, 1], started=[2.0, 0.0], arrived=[3.0, 3.0],
    )  # fmt: skip
    found = spans([first, second], 3)
    assert Span(2, 0.0, 3.0, "stale") in found and Span(1, 2.0, 2.5, "lost") in found
    assert not [span for span in found if span.kind == "away"]
