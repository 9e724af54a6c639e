"""Every round end does on every server what its docstring says: who is taken, when, and with which weight.

A server is a function of the round end, of the seconds that each client needs for a round, and of how many
moves to make; it returns its moves. To hold another server to the contract, add it to SERVERS.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from federation_small import SMALL, own_data
from patient import patient

import amsfl
from amsfl.clock import ROUND_ENDS, RoundEnd, round_end
from amsfl.core import UserError

SECONDS = [1.0037, 2.3113, 0.7071, 3.9231, 1.7321]  # such that no two arrive at the same moment
MOVES = 8
ENDS = {
    "all": round_end("all"),
    "deadline": round_end("deadline:1.9"),
    "a deadline that nobody meets": round_end("deadline:0.3"),
    "late work is dropped": round_end("deadline:1.9,drop"),
    "quorum": round_end("quorum:3"),
    "a share of the cohort": round_end("quorum:0.5", cohort=len(SECONDS)),
    "buffer": round_end("buffer:2"),
    "buffer of one": round_end("buffer:1"),
    "a user's own": patient(0.6, 1.5),
    "its deadline alone": patient(1.0, 0.5),
    "overlapping, with a deadline": RoundEnd(
        "window", lambda *_: False, lambda start, _: start + 1.1, overlap=True, weight=lambda age: 1 / 3**age
    ),
}


class Taken(NamedTuple):
    """One move: when, and of each result the client, its age and its weight."""

    seconds: float
    clients: list[int]
    ages: list[int]
    weights: list[float]


Server = Callable[[RoundEnd, list[float], int, Path], list[Taken]]


def simulator(end: RoundEnd, seconds: list[float], moves: int, folder: Path) -> list[Taken]:
    profile = folder / "sites.csv"
    profile.write_text("\n".join(["step_seconds", *(f"{each}" for each in seconds)]))
    settings = SMALL | {"clock": "makespan", "steps": 1, "clients": len(seconds), "partition": "iid"}
    result = amsfl.run(
        dataset=own_data(120), **settings | {"profile": str(profile), "rounds": moves}, round_end=end
    )
    return [
        Taken(
            each.seconds["makespan"],
            each.cohort,
            each.staleness or [0] * len(each.cohort),
            [share * len(each.mix) for share in each.mix],  # all clients have as many rows
        )
        for each in result.rounds
    ]


def flower(end: RoundEnd, seconds: list[float], moves: int, folder: Path) -> list[Taken]:
    """The Flower server in this process, with a clock of its own: client i replies after seconds[i]."""
    pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")
    from virtual_grid import moves_of

    return [Taken(*each) for each in moves_of(end, seconds, moves)]


SERVERS: dict[str, Server] = {"simulator": simulator, "flower": flower}


def by_the_docstring(end: RoundEnd, seconds: list[float], moves: int) -> list[Taken]:
    """The contract in plain Python, for round ends without arrival groups."""
    now, started, predicted, invited = 0.0, 0.0, None, -1
    at_work: dict[int, tuple[float, int]] = {}  # client: when it arrives, the model it began from
    arrived: list[tuple[int, int]] = []
    taken: list[Taken] = []
    while len(taken) < moves:
        deadline = end.deadline(started, predicted)
        passed = deadline is not None and now >= deadline
        if arrived and (passed or end.ready(len(arrived), len(at_work), now, started)):
            some = arrived[: end.size]
            arrived = arrived[len(some) :]
            ages = [len(taken) - began for _, began in sorted(some)]
            clients = [client for client, _ in sorted(some)]
            taken.append(Taken(now, clients, ages, [end.weight(age) for age in ages]))
            if end.late == "drop":
                at_work = {}
            continue
        if invited != len(taken):
            started, invited = now, len(taken)
            asked = True
        if asked or end.overlap or not at_work:
            idle = [client for client in range(len(seconds)) if client not in at_work]
            at_work |= {client: (now + seconds[client], len(taken)) for client in idle}
            predicted = max((seconds[client] for client in idle), default=predicted)
            asked = False
        deadline = end.deadline(started, predicted)
        times = [arrives for arrives, _ in at_work.values()]
        now = min([*times, *([deadline] if deadline is not None and deadline > now else [])])
        for client in sorted(client for client, (arrives, _) in at_work.items() if arrives == now):
            arrived.append((client, at_work.pop(client)[1]))
    return taken


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("name", ENDS)
def test_who_is_taken_when_and_with_which_weight(name: str, server: str, tmp_path: Path) -> None:
    if server == "flower" and ENDS[name].late == "drop":
        pytest.skip("nobody can stop a real client: it is asked again when it has ended")
    expected = by_the_docstring(ENDS[name], SECONDS, MOVES)
    moves = SERVERS[server](ENDS[name], SECONDS, MOVES, tmp_path)
    assert [(each.clients, each.ages) for each in moves] == [(each.clients, each.ages) for each in expected]
    for move, wanted in zip(moves, expected, strict=True):
        assert move.seconds == pytest.approx(wanted.seconds, abs=1e-6 if server == "simulator" else 0.05)
        assert move.weights == pytest.approx(wanted.weights)


def test_every_kind_is_held_to_the_contract_or_to_its_own_test() -> None:
    """groups has arrival groups: tests/clock/test_fedcompass.py compares it with the paper's pseudo-code."""
    assert {end.name.partition(":")[0] for end in ENDS.values()} | {"groups"} >= {*ROUND_ENDS.table}


def test_a_round_that_waits_for_all_is_recognised() -> None:
    waits = {name: end.waits_for_all for name, end in ENDS.items()}
    assert [name for name, each in waits.items() if each] == ["all"]
    everybody = RoundEnd("mine", lambda arrived, expected, *_: not expected)
    assert everybody.waits_for_all


@pytest.mark.parametrize(
    "text", ["qorum:3", "no_such_module:end", "quorum", "all:3", "buffer:0", "quorum:2.5", ""]
)
def test_what_is_no_round_end_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="ound end"):
        round_end(text)


def test_a_users_own_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert round_end("patient:patient:0.25/3").name == "patient:0.25/3"
    assert round_end("patient:patient").deadline(1.0, 2.0) == 5.0
