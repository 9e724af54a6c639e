"""Malicious clients against an honest server: whatever two of eight say, the others' model is made."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl.core import Reading
from amsfl.flower import NumpyTrainer, messages, numpy_client, serve
from amsfl.flower.in_process import InProcessGrid

CLIENTS, LIARS = 8, (3, 6)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(CLIENTS, 30, 6)).astype(np.float32)
TRUTH = RNG.normal(size=6).astype(np.float32)
SETTINGS: dict[str, Any] = {
    "clients": CLIENTS,
    "method": "amsfl",
    "rounds": 4,
    "batch": 8,
    "poll": 0.001,
    "patience": 30.0,
    "robust": "cap:0.125,clip,voices,trust:2",
}


def make(context: Any) -> NumpyTrainer:
    """Logistic regression on rows of its own."""
    x = X[int(context.node_config["partition-id"])]
    y = np.where(x @ TRUTH > 0, 1, -1)

    def gradient(model: Any, step: int, order: Any) -> Any:
        rows = np.random.default_rng([order.seed, order.round, step]).integers(len(x), size=order.batch)
        margin = y[rows] * (x[rows] @ model)
        slope = -y[rows] / (1 + np.exp(np.clip(margin, -50, 50)))
        return float(np.logaddexp(0, -margin).mean()), x[rows].T @ slope / len(rows)

    return NumpyTrainer(len(x), np.zeros(6, np.float32), gradient)


def accuracy(model: Any) -> float:
    return float(np.mean([((x @ model > 0) == (x @ TRUTH > 0)).mean() for x in X]))


class Federation(InProcessGrid):
    """The liars' answers go through `change(kind, content)`."""

    def __init__(self, change: Any):
        super().__init__(numpy_client(make), [{"partition-id": place} for place in range(CLIENTS)])
        self.change = change

    def answer(self, message: Any) -> Any:
        answer = super().answer(message)
        if message.metadata.dst_node_id - 1000 in LIARS and not answer.has_error():
            answer.content = self.change(message.metadata.message_type, answer.content) or answer.content
        return answer


def trained(change: Any, **more: Any) -> Any:
    """A run with liars, and what holds of every such run: it ends, its model is finite, nobody honest is left
    out, and liars have at most 1.5 times their share of the steps."""
    with np.errstate(all="ignore"):
        state, records = serve(Federation(change), SETTINGS | more)
    assert state.status == "finished" and len(records) == (SETTINGS | more)["rounds"]
    assert all(np.isfinite(part).all() for part in (state.anchor, state.server, state.history))
    honest = {*range(CLIENTS)} - {*LIARS}
    for record in records:
        assert honest <= {*record.cohort}
        steps = dict(zip(record.cohort, record.steps, strict=True))
        assert sum(steps.get(who, 0) for who in LIARS) <= 1.5 * len(LIARS) / CLIENTS * sum(steps.values()) + 1
    return state, records


NUMBERS = st.one_of(
    st.sampled_from([0, -1, 1, 1e-38, 1e300, -0.0, math.nan, math.inf, -math.inf, 2**31, 2**62]),
    st.floats(allow_nan=True),
    st.integers(-(2**62), 2**62),
)
REPORT = [
    *Reading._fields,
    "steps",
    "rows",
    "step_seconds",
    "compute_seconds",
    "plain_steps",
    "skipped",
    "taken",
]
SAID = st.sampled_from(
    [*(("report", name) for name in REPORT), *(("echo", name) for name in ("run", "round", "client"))]
    + [("hello", name) for name in ("rows", "step_seconds", "own_optimizer", "epsilon", "joules_step")]
    + [("upload", name) for name in ("times", "all", "one")]
)


def put(content: Any, record: str, name: str, value: Any) -> None:
    """One field of what a client sends, as far as Flower's records take the value."""
    if record == "upload":
        delta = messages.arrays(content, "upload")["delta"].copy()
        number = np.float32(min(max(float(value), -3e38), 3e38) if value == value else value)
        delta = {"times": number * delta, "all": 0 * delta + number}.get(name, delta)
        delta[0] = number if name == "one" else delta[0]
        content["upload"] = messages.pack_arrays({"delta": delta})
        return
    kind = str if name == "run" else bool if name == "own_optimizer" else type(content[record].get(name, 0.0))
    try:
        content[record][name] = kind(value)
    except (ValueError, OverflowError, TypeError):
        content[record][name] = str(value) if record == "echo" else 0
    if (record, name) == ("hello", "rows"):  # a client without rows is none: it never registers
        content[record][name] = max(content[record][name], 1)


@settings(max_examples=5, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(st.lists(st.tuples(SAID, NUMBERS), min_size=1, max_size=4))
@example([(("hello", "epsilon"), 0.0), (("hello", "joules_step"), -1)])
@example([(("report", "held_loss"), 1e30), (("report", "loss"), 1e30)])
@example([(("hello", "rows"), 2**62), (("report", "rows"), 2**62)])
@example([(("hello", "step_seconds"), 1e-300), (("report", "step_seconds"), 0)])
@example([(("upload", "times"), -1), (("report", "grad_dir"), -1e30), (("report", "delta_dir"), 1e30)])
@pytest.mark.filterwarnings("ignore")
def test_mutated_words_end_no_run_and_win_no_steps(changes):
    def change(kind: str, content: Any) -> None:
        for (record, name), value in changes:
            if record in content:
                put(content, record, name, value)

    trained(change)


@pytest.mark.filterwarnings("ignore")
def test_replays_and_work_of_others_are_refused():
    """The first liar sends its first reply for good, the second what looks like another client's."""
    first: list[Any] = []

    def change(kind: str, content: Any) -> Any:
        if kind != "train":
            return None
        first[:] = first or [content]
        if content["echo"]["client"] == LIARS[1]:
            content["echo"]["client"] = 0
            return content
        return first[0]

    _, records = trained(change)
    reasons = {item["reason"].split(":")[0] for record in records for item in record.plan["refused"]}
    assert reasons == {"replayed round", "wrong client"}


def test_a_push_is_remembered_through_a_restart(tmp_path):
    """Both liars push one way. Their weight falls over the rounds; a server that was stopped and goes on has
    the same history and the same model as one that was not."""

    def change(kind: str, content: Any) -> None:
        if kind == "train":
            delta = messages.arrays(content, "upload")["delta"]
            way = np.float32([1, -1, 1, -1, 1, -1]) * np.linalg.norm(delta) / 6**0.5
            content["upload"] = messages.pack_arrays({"delta": way.astype(np.float32)})

    plain = {"method": "fedavg", "steps": 4, "lr": 0.2, "robust": "cap:0.125,voices,trust:2,median"}
    whole, records = trained(change, **plain, rounds=6)
    counted = [sum(record.weighed["voices:0.9/0.5"][who] for who in LIARS) for record in records]
    assert counted[-1] < 0.2 < 0.25 == pytest.approx(sum(records[0].weighed["claimed"][who] for who in LIARS))
    trained(change, **plain, rounds=3, out=str(tmp_path / "run"))
    again, _ = serve(Federation(change), {"rounds": 6, "out": str(tmp_path / "run"), "resume": True})
    np.testing.assert_array_equal(whole.history, again.history)
    np.testing.assert_array_equal(whole.anchor, again.anchor)
