"""Rounds on Flower that do not wait for all: the same moves, records and models as in simulation.

A grid with a clock of its own: every node answers so many seconds after it was asked. Nothing waits.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

import amsfl
from amsfl import data, methods
from amsfl.core import UserError
from amsfl.engines import Jobs, JobStarts, make, models, task
from amsfl.flower import Shard, jax_client
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.server.options import ServerOptions
from amsfl.flower.server.server import FlowerServer
from amsfl.record import read_run
from amsfl.record.run import load_checkpoint
from amsfl.simulation import serve_config

DIGITS = data.load("digits")
PARTS = data.partition("dirichlet:0.5", DIGITS.y, 3, 0)
TASK = task.make(DIGITS, models.make("softmax", 64, 10), [PARTS], [0])
NODES = [{"partition-id": place} for place in range(3)]
SPEEDS, LINKS = [0.11, 0.293, 0.717], [0.513, 0.211, 0.057]  # such that nobody comes at the same moment
POLL = 0.002
ALIKE: dict[str, Any] = {"model": "softmax", "clients": 3, "batch": 16, "seed": 0, "steps": 3, "lr": 0.1}


def shard(context: Any) -> Shard:
    rows = PARTS[int(context.node_config["partition-id"])]
    return Shard(DIGITS.x[rows], DIGITS.y[rows], 10, "softmax")


CLIENT = jax_client(shard)


class Timed(InProcessGrid):
    """Node i replies to an order of t steps after t SPEEDS[i] + LINKS[i] seconds; to a question at once."""

    def __init__(self) -> None:
        super().__init__(CLIENT, NODES)
        self.time, self.due = 0.0, dict[str, float]()
        self.gone: set[int] = set()

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def get_node_ids(self) -> Any:
        return [node for node in self.contexts if node not in self.gone]

    def push_messages(self, messages: Any) -> Any:
        todo = list(messages)
        ids = list(super().push_messages(todo))
        for key, message in zip(ids, todo, strict=True):
            place = message.metadata.dst_node_id - 1000
            steps = int(message.content["order"]["steps"]) if "order" in message.content else 0
            self.due[key] = self.time + (steps * SPEEDS[place] + LINKS[place] if steps else 0.0)
        return ids

    def pull_messages(self, message_ids: Any) -> Any:
        ready = [key for key in message_ids if self.due.get(key, np.inf) <= self.time and self.here(key)]
        for key in ready:
            del self.due[key]
        return super().pull_messages(ready)

    def here(self, key: str) -> bool:
        return self.posted[key].metadata.dst_node_id not in self.gone


def served(out: Path | None = None, resume: bool = False, watch: Any = None, **settings: Any) -> Any:
    grid = Timed()
    config = serve_config({**ALIKE, "poll": POLL, "patience": 100.0, **settings})
    server = FlowerServer(grid, config, ServerOptions(None, TASK.start()[0], None, out, watch))
    server.transport.now, server.transport.sleep = grid.now, grid.sleep
    return server.run(resume)


CASES = {
    "fedbuff": {"method": "fedbuff", "round_end": "buffer:2"},
    "doubted": {"method": "fedbuff", "round_end": "buffer:3", "robust": "median"},
    "fedasync": {"method": "fedasync", "staleness": "hinge:1/1"},
    "quorum": {"method": "fedavg", "round_end": "quorum:2"},
    "deadline": {"method": "fedavg", "round_end": "deadline:1.2", "staleness": "constant"},
    "dropped": {"method": "scaffold", "round_end": "quorum:2", "late": "drop"},
}


@pytest.mark.parametrize("case", CASES)
def test_moves_records_and_models_are_the_simulations(case: str, tmp_path: Path) -> None:
    settings = {**CASES[case], "rounds": 6}
    profile = tmp_path / "sites.csv"
    lines = [f"{speed},{link}" for speed, link in zip(SPEEDS, LINKS, strict=True)]
    profile.write_text("\n".join(["step_seconds,latency", *lines]))
    want = amsfl.run(
        data="digits", engine="loop", clock="makespan", partition="dirichlet:0.5", profile=str(profile),
        details=False, **ALIKE, **settings,
    )  # fmt: skip
    state, records = served(**settings)
    assert [r.cohort for r in records] == [r.cohort for r in want.rounds]
    if "robust" in settings:  # a rule counts results: one of each client, however fast it answers
        assert [r.cohort for r in records] == [[0, 1, 2]] * 6
    assert [r.staleness for r in records] == [r.staleness for r in want.rounds]
    assert [r.steps for r in records] == [r.steps for r in want.rounds]
    for mine, theirs in zip(records, want.rounds, strict=True):
        for name in ("started", "arrived", "mix"):
            np.testing.assert_allclose(getattr(mine, name), getattr(theirs, name), atol=30 * POLL)
        # nobody can stop a real client: what is dropped ends by itself before it is asked again
        assert {each[0] for each in mine.dropped} <= {each[0] for each in theirs.dropped}
        assert mine.seconds["makespan"] == pytest.approx(theirs.seconds["makespan"], abs=30 * POLL)
    scored = methods.make(settings["method"]).arithmetic.model(state.anchor, state.server)
    np.testing.assert_allclose(scored, want.params, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("method", ["amsfl", "fedbuff"])
def test_a_killed_server_goes_on_without_what_was_under_way(method: str, tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def watch(record: Any) -> None:
        if record.round == 3:
            raise Killed

    settings = {"method": method, "round_end": "buffer:2", "rounds": 6, "poll": 0.05}
    with pytest.raises(Killed):
        served(tmp_path / "run", watch=watch, **settings)
    state, records = served(tmp_path / "run", resume=True, **settings)
    assert [record.round for record in read_run(tmp_path / "run").rounds] == [1, 2, 3, 4, 5, 6]
    ends = [record.seconds["makespan"] for record in records]
    assert ends == sorted(ends) and np.isfinite(state.anchor).all()
    assert all(len(record.cohort) == 2 for record in records) and min(records[3].started) >= ends[2]
    accepted = [seat.accepted for seat in state.clients]
    assert max(accepted) >= 3 and not any(record.plan["notes"] for record in records)


def test_a_round_that_is_begun_again_has_all_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody answers in time at first, and then all do: the second try does not end with the first reply."""
    push = Timed.push_messages

    def stalled(self: Timed, messages: Any) -> Any:
        ids = push(self, messages)
        if self.time < 1:
            self.due |= {key: 10.0 for key in ids if self.due[key] > self.time}
        return ids

    monkeypatch.setattr(Timed, "push_messages", stalled)
    _, records = served(method="fedavg", give_up=5.0, rounds=1)
    assert records[0].cohort == [0, 1, 2] and records[0].seconds["makespan"] > 10


def test_a_quorum_goes_on_with_those_who_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a quorum of three one leaves in the second round: the round ends with the two that are there."""
    push = Timed.push_messages

    def leaving(self: Timed, messages: Any) -> Any:
        todo = list(messages)
        if any("order" in m.content and m.content["order"]["round"] == 1 for m in todo):
            self.gone.add(1002)
        return push(self, todo)

    monkeypatch.setattr(Timed, "push_messages", leaving)
    _, records = served(method="fedavg", round_end="quorum:3", rounds=3)
    assert [record.cohort for record in records] == [[0, 1, 2], [0, 1], [0, 1]]
    assert records[1].plan["refused"][0]["reason"].startswith("gone: no reply within")
    assert records[1].dropped[0][0] == 2


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"method": "scaffold", "round_end": "quorum:2"}, "needs everyone's work on the newest model"),
        ({"method": "fedavg", "round_end": "buffer:4"}, "waits for 4 clients, and 3 are under way"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        served(**settings, rounds=1)


@pytest.mark.slow
def test_real_nodes_of_different_speeds(tmp_path: Path) -> None:
    """A SuperLink and three SuperNodes, one of them twelve times slower: the others do not wait for it."""
    from amsfl.flower.deploy.run import deploy

    settings = {**ALIKE, "data": "digits", "steps": 5, "method": "fedbuff", "round_end": "buffer:1"}
    settings["rounds"] = 12
    summary = deploy(settings, tmp_path / "run", [1.0, 1.0, 12.0], 0.1, say=lambda line: None)
    rounds = read_run(tmp_path / "run").rounds
    assert summary.rounds == 12 and not any(record.plan["refused"] for record in rounds)
    slow = [
        age for record in rounds for who, age in zip(record.cohort, record.staleness, strict=True) if who == 2
    ]
    assert not slow or max(slow) >= 1  # the server moved while it worked; how often is the machine's affair
    for record in rounds:
        assert record.started < record.arrived and max(record.arrived) <= record.seconds["makespan"] + 1e-6


def replayed(rounds: Any, steps: int) -> Any:
    """FedAvg from a record alone: each upload from the model that its client began from, by the loop engine,
    in shares of those who came, times 1/sqrt(1 + age)."""
    engine, x = make("loop", TASK, methods.make("fedavg"), ALIKE["batch"]), TASK.start()[0]
    nothing, held, numbers = np.zeros((1, 0)), [np.array(x)], dict[int, int]()
    size = np.array([len(rows) for rows in PARTS])
    for version, record in enumerate(rounds):
        moved = held[-1].copy()
        shares = size[record.cohort] / size[record.cohort].sum()
        for who, age, share in zip(record.cohort, record.staleness, shares, strict=True):
            numbers[who] = max(version - age, numbers.get(who, -1) + 1)
            began = held[version - age][None]
            jobs = Jobs(*(np.array([each]) for each in (0, who, steps, ALIKE["lr"], 1.0, numbers[who])))
            delta = engine.work(JobStarts(began, nothing, nothing, nothing, 0 * began), jobs).upload.delta[0]
            moved += share / np.sqrt(1 + age) * delta
        held.append(moved)
    return held[-1]


@pytest.mark.slow
@pytest.mark.parametrize("end", ["quorum:2", "deadline:2.5"])
def test_real_nodes_that_come_late_count_by_their_age(end: str, tmp_path: Path) -> None:
    """Three SuperNodes, of which one takes twelve times as long: what it began with counts moves later. Who
    comes when is the machine's affair; who belongs to which move, how old, and the model follow from that."""
    from amsfl.flower.deploy.run import deploy

    settings = {**ALIKE, "data": "digits", "steps": 5, "method": "fedavg", "round_end": end, "rounds": 10}
    settings |= {"partition": "dirichlet:0.5", "poll": 0.05}
    deploy(settings, tmp_path / "run", [1.0, 2.0, 12.0], 0.1, say=lambda line: None)
    rounds = read_run(tmp_path / "run").rounds
    moved = [0.0, *(record.seconds["makespan"] for record in rounds)]
    for version, record in enumerate(rounds):
        assert len(record.cohort) >= 2 or end.startswith("deadline")
        for began, came, age in zip(record.started, record.arrived, record.staleness, strict=True):
            assert began >= moved[version - age] - 1e-6  # after the move whose model it was given
            assert began <= moved[version - age + 1] and came <= moved[version + 1] + 1e-6
            assert came > moved[max(version - 1, 0)]  # and not kept back for a whole move
        if end.startswith("deadline") and len(record.cohort) < 3:  # somebody was still under way
            assert moved[version + 1] - moved[version] >= 2.5
    late = [
        age for record in rounds for who, age in zip(record.cohort, record.staleness, strict=True) if who == 2
    ]
    assert (not late or max(late) >= 1) and not any(record.dropped for record in rounds)
    found = load_checkpoint(tmp_path / "run")
    assert found is not None
    np.testing.assert_allclose(found.arrays["anchor"][0], replayed(rounds, 5), rtol=2e-4, atol=2e-5)
