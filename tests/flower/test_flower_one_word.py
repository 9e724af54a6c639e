"""One client's word does not keep the others from training: its name, its hello, what it says it costs."""

from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from least_squares import least_squares

from amsfl.core import UserError
from amsfl.flower import NumpyTrainer, messages, numpy_client, serve
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.server import costs, transport
from amsfl.flower.server import server as server_module

trainer = least_squares(6)
SETTINGS: dict[str, Any] = {"method": "fedavg", "clients": 5, "rounds": 3, "steps": 2, "lr": 0.1}
SETTINGS |= {"poll": 0.001, "patience": 20.0}
LIAR = 4


class Told(InProcessGrid):
    """The liar's answers are changed by `change(kind, content)`."""

    def __init__(self, change: Any, count: int = 5, liar: int = LIAR, **more: Any):
        nodes = [{"partition-id": place, **more} for place in range(count)]
        super().__init__(numpy_client(trainer), nodes)
        self.change, self.liar = change, 1000 + liar

    def answer(self, message: Any) -> Any:
        answer = super().answer(message)
        if message.metadata.dst_node_id == self.liar and not answer.has_error():
            self.change(message.metadata.message_type, answer.content)
        return answer


def hello(**fields: Any) -> Any:
    def change(kind: str, content: Any) -> None:
        if kind == "query":
            for name, value in fields.items():
                content["hello"][name] = value

    return change


def reasons(records: Any) -> list[str]:
    return [item["reason"] for record in records for item in record.plan["refused"]]


@pytest.mark.parametrize("name", ["²", "①", "४"])
def test_digits_that_are_no_numbers_are_names(name: str) -> None:
    state, records = serve(Told(hello(name=name)), SETTINGS)
    assert len(records) == 3 and name in [client.name for client in state.clients]


def test_nobody_minds_a_client_that_could_not_be_private_if_asked() -> None:
    assert len(serve(Told(hello(open="no")), SETTINGS)[1]) == 3


@pytest.mark.parametrize("method", ["scaffold", "fedprox", "amsfl"])
def test_one_optimizer_changes_nobody_else_s_method(method: str) -> None:
    asked = {**SETTINGS, "method": method}
    state, records = serve(Told(hello(own_optimizer=True)), asked)
    assert [record.cohort for record in records] == [[0, 1, 2, 3]] * 3
    assert any("optimizer" in reason for reason in reasons(records))
    assert np.linalg.norm(state.anchor - [1, -2, 3, 0.5]) < 3  # from 3.8: the others have moved it


def test_most_clients_optimizers_end_a_run_whose_method_has_its_own_steps() -> None:
    class All(Told):
        def answer(self, message: Any) -> Any:
            answer = super().answer(message)
            if message.metadata.message_type == "query" and message.metadata.dst_node_id > 1001:
                answer.content["hello"]["own_optimizer"] = True
            return answer

    with pytest.raises(UserError, match="optimizer"):
        serve(All(lambda *_: None), {**SETTINGS, "method": "scaffold"})


@pytest.mark.parametrize("claim, counts", [(1e12, 10), (float("nan"), 1), (-1.0, 1), (float("inf"), 1)])
def test_one_client_does_not_spend_the_others_joules(claim: float, counts: float) -> None:
    """The others say 1 J a step: more than ten times that is not believed, and no amount is as theirs.
    Six rounds of two steps are at most 12 x 14 J."""
    grid = Told(hello(joules_step=claim), **{"joules-step": 1.0, "joules-mb": 0.0})
    _, records = serve(grid, {**SETTINGS, "rounds": 6, "joules": 200.0})
    assert [record.joules for record in records] == [pytest.approx(2 * (4 + counts))] * 6
    notes = " ".join(note for record in records for note in record.plan["notes"])
    assert "'4'" in notes and "joules_step" in notes


class Placed(NumpyTrainer):
    """A buffer of positions, which stays as it is."""

    def start(self, seed: int) -> Any:
        return np.zeros(4, np.float32), {"positions": np.arange(3)}

    def begin(self, order: Any, model: Any, method: Any) -> None:
        super().begin(order, model, method)
        assert model.buffers["positions"].tolist() == [0, 1, 2]  # else this client can do nothing any more

    def buffers(self) -> Any:
        return {"positions": np.arange(3)}


def placed(wild: int, count: int, since: int = 0) -> Told:
    """The last of so many clients moves its positions from round `since` on."""

    def change(kind: str, content: Any) -> None:
        if kind == "train" and content["echo"]["round"] >= since:
            held = messages.arrays(content, "buffers")
            content["buffers"] = messages.pack_arrays({"positions": held["positions"] + wild})

    def make(context: Any) -> NumpyTrainer:
        plain = trainer(context)
        return Placed(plain.rows, np.zeros(4, np.float32), plain._gradient)

    grid = Told(change, count=count, liar=count - 1)
    grid.app = numpy_client(make)
    return grid


@pytest.mark.parametrize("robust", [{}, {"robust": "cap:0.2,clip,median"}])
@pytest.mark.parametrize("wild", [2**40, -(2**40)])
@pytest.mark.parametrize("count", [2, 4, 5])
def test_integers_that_the_others_leave_stay_as_they_are(robust: Any, wild: int, count: int) -> None:
    state, records = serve(placed(wild, count), {**SETTINGS, "clients": count, **robust})
    assert all({*range(count - 1)} <= {*record.cohort} for record in records)
    assert state.buffers["positions"].tolist() == [0, 1, 2]


def test_integers_that_nobody_changed_stay_where_replies_come_alone() -> None:
    state, records = serve(placed(2**40, 5, since=2), {**SETTINGS, "method": "fedasync", "rounds": 30})
    assert {who for record in records[-10:] for who in record.cohort} == {0, 1, 2, 3}
    assert state.buffers["positions"].tolist() == [0, 1, 2]


def test_a_single_client_s_integers_are_its_own() -> None:
    class Counting(Placed):
        def begin(self, order: Any, model: Any, method: Any) -> None:
            NumpyTrainer.begin(self, order, model, method)

    def make(context: Any) -> NumpyTrainer:
        plain = trainer(context)
        return Counting(plain.rows, np.zeros(4, np.float32), plain._gradient)

    grid = placed(1, 1, since=2)
    grid.app = numpy_client(make)
    state, records = serve(grid, {**SETTINGS, "clients": 1, "rounds": 4, "patience": 2.0})
    assert len(records) == 4 and state.buffers["positions"].tolist() == [1, 2, 3]


def test_integers_that_the_others_left_stay_in_a_round_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last client moves its positions in every round, and in the third it is alone."""

    class Alone(Clocked):
        def get_node_ids(self) -> Any:
            return [1002] if self.rounds == 2 else [*self.contexts]

    told = placed(2**40, 3)
    grid = Alone(monkeypatch, told.change, count=3, liar=2)
    grid.app = told.app
    state, records = serve(grid, {**SETTINGS, "clients": 3, "rounds": 5, "patience": 600.0})
    assert state.buffers["positions"].tolist() == [0, 1, 2] and {0, 1} <= {*records[-1].cohort}
    assert any("integers" in reason for reason in reasons(records))


# -- names and hellos that fail ------------------------------------------------------------------------


class Clocked(Told):
    """On a clock of our own; nodes of which `away(grid)` says so are not connected."""

    def __init__(self, monkeypatch: Any, *args: Any, **more: Any):
        super().__init__(*args, **more)
        self.time, self.rounds, self.away = 0.0, 0, lambda grid: set[int]()
        ours = partial(transport.Transport, now=lambda: self.time, sleep=self.sleep)
        monkeypatch.setattr(server_module, "Transport", ours)

    def sleep(self, seconds: float) -> None:
        self.time += max(seconds, 0.2)

    def get_node_ids(self) -> Any:
        return [node for node in self.contexts if node not in self.away(self)]

    def push_messages(self, messages: Any) -> Any:
        todo = list(messages)
        self.rounds += any("order" in message.content for message in todo)
        return super().push_messages(todo)


def test_a_name_is_free_when_its_squatter_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 1004 says that it is x before node 1005 can, takes part in two rounds, and leaves."""
    grid = Clocked(monkeypatch, hello(name="x"), count=6)
    grid.contexts[1005].node_config["client"] = "x"
    grid.away = lambda grid: {1000 + LIAR} if grid.rounds > 2 else set()
    state, records = serve(grid, {**SETTINGS, "rounds": 6, "patience": 600.0})
    assert any("'x'" in reason for reason in reasons(records))
    assert [client.node for client in state.clients if client.name == "x"] == [1005]
    assert len(records[-1].cohort) == 5


def test_a_squatter_that_leaves_before_the_run_has_no_seat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 1004 is there at once and says that it is 0, 1000 comes, 1004 goes, 1005 comes."""
    grid = Clocked(monkeypatch, hello(name="0"), count=6)
    away = [(2, {1000, 1005}), (4, {1005}), (6, {1005, 1004}), (1e9, {1004})]
    grid.away = lambda grid: next(nodes for until, nodes in away if grid.time < until)
    state, _ = serve(grid, {**SETTINGS, "patience": 600.0})
    assert [(client.name, client.node) for client in state.clients] == [
        (str(place), 1000 + place) for place in (0, 1, 2, 3, 5)
    ]


@pytest.mark.parametrize("fails, comes", [(2, True), (99, False)])
def test_a_hello_that_failed_is_asked_for_again(
    fails: int, comes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid, left = Clocked(monkeypatch, lambda *_: None), [fails]

    def flaky(context: Any) -> NumpyTrainer:
        if int(context.node_config["partition-id"]) == LIAR and left[0]:
            left[0] -= 1
            raise OSError("the disk is not mounted yet")
        return trainer(context)

    grid.app = numpy_client(flaky)
    if comes:
        assert len(serve(grid, SETTINGS)[1]) == 3 and grid.time < 20
        return
    with pytest.raises(UserError, match="not mounted"):
        serve(grid, {**SETTINGS, "patience": 5000.0})
    assert 80 <= left[0] < 95  # a few times, not at every look


# -- seconds -------------------------------------------------------------------------------------------


def test_seconds_that_nobody_measured_do_not_hold_up_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that says that a step takes it six hours, sends what is refused, and then nothing at all."""

    class Silent(Clocked):
        def pull_messages(self, message_ids: Any) -> Any:
            some = [key for key in message_ids if key in self.posted]
            mine = [key for key in some if self.posted[key].metadata.dst_node_id == self.liar]
            late = [key for key in mine if self.rounds > 1 and "order" in self.posted[key].content]
            return super().pull_messages([key for key in some if key not in late])

    def change(kind: str, content: Any) -> None:
        if kind == "query":
            content["hello"]["step_seconds"] = 20_000.0
        else:
            content["report"]["steps"] = 10**6

    grid = Silent(monkeypatch, change)
    _, records = serve(grid, {**SETTINGS, "rounds": 4, "patience": 1e6})
    assert len(records) == 4 and max(record.round_seconds["makespan"] for record in records) <= 301


def test_what_a_client_says_of_its_seconds_is_held_against_its_first_reply() -> None:
    said = costs.start(2, [20_000.0, 0.5])
    seen = costs.observe(said, 0, costs.ReplyTimes(4, 0.1, 2.0), 0.0)
    assert max(seen.step[0]) <= 0.5 and costs.costs(seen).step_seconds[0] <= 0.5
    again = costs.observe(seen, 0, costs.ReplyTimes(4, 0.1, 0.8), 0.0)
    assert again.step[0] == [*seen.step[0], 0.1]
