"""PyTorch clients with optimizers and training loops of their own: numbers by hand, refusals, odd batches.

Real ClientApps and the real server in one process; rows are few, models linear.
"""

from collections import namedtuple
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")
pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'amsfl[torch]'")

import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from amsfl import drift, methods
from amsfl.core import UserError
from amsfl.flower import serve, torch_client, torch_loop_client
from amsfl.flower.client import torch_optimizer
from amsfl.flower.client.torch_optimizer import PlainStepCounter
from amsfl.flower.in_process import InProcessGrid
from amsfl.planning.planner import Decision, Planner, PlannerMemory
from amsfl.record import read_run
from amsfl.report.page import compose
from amsfl.report.read import read

torch.set_num_threads(1)
RNG = np.random.default_rng(3)
X = torch.from_numpy(RNG.normal(size=(3, 24, 4)).astype(np.float32))
Y = (X[:, :, 0] + 0.5 * X[:, :, 1] > 0).long()
STEPS = np.array([[3, 1, 5], [2, 4, 1]])
LR = 0.1


def part(context: Any) -> int:
    return int(context.node_config["partition-id"])


def linear() -> Any:
    return torch.nn.Linear(4, 2)


def loader(context: Any) -> Any:
    """In order: batch k of a round is rows 8k to 8k + 8."""
    return DataLoader(TensorDataset(X[part(context)], Y[part(context)]), batch_size=8)


def fixed(table: Any = STEPS) -> Any:
    def decide(memory: Any, number: int, cohort: Any, costs: Any) -> Decision:
        return Decision(np.asarray(table)[number % len(table)][cohort], LR, 1.0, {})

    nothing = PlannerMemory(drift.Rate(), drift.start(0))
    return lambda weights: Planner(lambda: nothing, decide, lambda memory, *_: memory)


def served(app: Any, method: str = "fedavg", rounds: int = 2, table: Any = STEPS, **more: Any) -> Any:
    count = len(table[0]) if table is not None else 3
    nodes = [{"partition-id": place} for place in range(count)]
    settings = {
        "method": method,
        "clients": count,
        "rounds": rounds,
        "poll": 0.001,
        "patience": 0.05,
        "lr": LR,
    }
    planned = fixed(table) if table is not None else None
    return serve(InProcessGrid(app, nodes), {**settings, **more}, plan_by=planned)


def sgd(params: Any, lr: float) -> Any:
    return torch.optim.SGD(params, lr)


def adam(params: Any, lr: float) -> Any:
    return torch.optim.Adam(params, lr / 10)


def batches(client: int, count: int) -> Any:
    """What a client's round begins with, as `loader` gives it."""
    return [(X[client, 8 * (k % 3) :][:8], Y[client, 8 * (k % 3) :][:8]) for k in range(count)]


def by_hand(
    anchor: Any, client: int, steps: int, make: Any, module: Any = None, optimizer: Any = None
) -> Any:
    """A client's round in plain torch: the model it comes to, and its optimizer."""
    module = module or linear()
    torch.nn.utils.vector_to_parameters(torch.from_numpy(np.array(anchor)), module.parameters())
    optimizer = optimizer or make(list(module.parameters()), LR)
    for x, y in batches(client, steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(x), y).backward()
        optimizer.step()
    return torch.nn.utils.parameters_to_vector(module.parameters()).detach().numpy().copy(), module, optimizer


# -- numbers -------------------------------------------------------------------------------------------


def test_an_optimizer_of_plain_steps_changes_nothing() -> None:
    plain, own = (served(torch_client(linear, loader, **kind))[0] for kind in ({}, {"optimizer": sgd}))
    np.testing.assert_allclose(own.anchor, plain.anchor, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("keep", [False, True])
def test_adam_is_what_torch_would_do_at_each_client(keep: bool) -> None:
    """FedAvg of three clients' Adam, round by round; kept state goes on, the other begins anew."""
    state, records = served(torch_client(linear, loader, optimizer=adam, keep_optimizer=keep), rounds=3)
    torch.manual_seed(0)
    anchor = torch.nn.utils.parameters_to_vector(linear().parameters()).detach().numpy()
    held: Any = [(None, None)] * 3
    for number in range(3):
        ends = []
        for client in range(3):
            steps = int(STEPS[number % 2][client])
            end, *kept = by_hand(anchor, client, steps, adam, *held[client])
            ends.append(end)
            held[client] = kept if keep else (None, None)
        anchor = np.mean(ends, axis=0)
    np.testing.assert_allclose(state.anchor, anchor, rtol=1e-4, atol=1e-6)
    assert not any(record.plan["notes"] or record.plan["refused"] for record in records)


def test_kept_optimizers_follow_what_the_server_took() -> None:
    """Client 1's second round is lost on the way: its third begins from the state after the first."""

    class Losing(InProcessGrid):
        def answer(self, message: Any) -> Any:
            reply = super().answer(message)
            about = message.metadata.message_type, message.metadata.dst_node_id
            if about == ("train", 1001) and int(message.content["order"]["round"]) == 1:
                reply.content["echo"]["run"] = "another"
            return reply

    app = torch_client(linear, loader, optimizer=adam, keep_optimizer=True)
    settings = {"method": "fedavg", "clients": 2, "rounds": 3, "poll": 0.001, "patience": 20.0}
    table = [[2, 2], [2, 2], [2, 2]]
    grid = Losing(app, [{"partition-id": place} for place in range(2)])
    state, records = serve(grid, settings, plan_by=fixed(table))
    assert [record.cohort for record in records] == [[0, 1], [0], [0, 1]]
    torch.manual_seed(0)
    anchor = torch.nn.utils.parameters_to_vector(linear().parameters()).detach().numpy()
    held: Any = [(None, None)] * 2
    for here in ([0, 1], [0], [0, 1]):
        ends = []
        for client in here:
            end, *held[client] = by_hand(anchor, client, 2, adam, *held[client])
            ends.append(end)
        anchor = np.mean(ends, axis=0)
    np.testing.assert_allclose(state.anchor, anchor, rtol=1e-4, atol=1e-6)


def test_fednova_divides_by_what_momentum_really_moved() -> None:
    """||a_i||_1 = [t - rho (1 - rho^t)/(1 - rho)]/(1 - rho); x+ = x + sum_j w_j a_j sum_i w_i d_i/a_i."""
    rho = 0.8
    app = torch_client(linear, loader, optimizer=lambda params, lr: torch.optim.SGD(params, lr, momentum=rho))
    state, records = served(app, "fednova", 1)
    torch.manual_seed(0)
    anchor = torch.nn.utils.parameters_to_vector(linear().parameters()).detach().numpy()
    steps = STEPS[0].astype(float)
    a = (steps - rho * (1 - rho**steps) / (1 - rho)) / (1 - rho)
    ends = [
        by_hand(anchor, c, int(t), partial(torch.optim.SGD, momentum=rho))[0] for c, t in enumerate(STEPS[0])
    ]
    deltas = np.array(ends) - anchor
    want = anchor + a.mean() * (deltas / a[:, None]).mean(0)
    np.testing.assert_allclose(state.anchor, want, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(records[0].mix, 1 / 3 / a, rtol=1e-4)


@pytest.mark.parametrize("kind", ["sgd", "adamw", "schedule", "groups", "matrices", "half"])
def test_the_pedometer_counts_plain_steps(kind: str) -> None:
    dtype = torch.bfloat16 if kind == "half" else torch.float32
    body, head = (torch.nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in ((4, 4), (2, 4)))
    schedule = None
    if kind == "adamw":
        optimizer: Any = torch.optim.AdamW([body, head], LR, weight_decay=0.5)
        want = 6.0  # a steady gradient: m / sqrt(v) is 1 from the first step on, and decay has no part in it
    elif kind == "schedule":
        optimizer = torch.optim.SGD([body, head], LR)
        schedule, want = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5), 2 * (1 - 0.5**6)
    elif kind == "groups":
        optimizer = torch.optim.SGD([{"params": [body]}, {"params": [head], "lr": 4 * LR}], LR)
        want = 6 * (16 + 4 * 8) / 24
    elif kind == "matrices":
        optimizer, want = torch.optim.Muon([body, head], LR), None
    else:
        optimizer, want = torch.optim.SGD([body, head], LR, weight_decay=0.1), 6.0
    count = PlainStepCounter(optimizer, LR)
    for _ in range(6):
        body.grad, head.grad = torch.randn_like(body), torch.randn_like(head)
        count.before()
        optimizer.step()
        count.after()
        if schedule:
            schedule.step()
    if want is None:
        assert count.plain_steps > 0
    else:
        assert count.plain_steps == pytest.approx(want, rel=1e-2 if kind == "half" else 1e-5)


def test_what_a_client_says_of_its_way_is_held_against_the_others() -> None:
    class Lying(InProcessGrid):
        def answer(self, message: Any) -> Any:
            reply = super().answer(message)
            if message.metadata.message_type == "train" and message.metadata.dst_node_id == 1001:
                reply.content["report"]["plain_steps"] = 1e-9
            return reply

    app = torch_client(linear, loader, optimizer=sgd)
    settings = {"method": "fednova", "clients": 3, "rounds": 1, "poll": 0.001, "patience": 20.0}
    grid = Lying(app, [{"partition-id": place} for place in range(3)])
    _, records = serve(grid, settings, plan_by=fixed([[2, 2, 2]]))
    np.testing.assert_allclose(records[0].mix, np.array([1 / 2, 10 / 2, 1 / 2]) / 3, rtol=1e-6)


def test_optimizer_state_survives_without_pickle() -> None:
    def things() -> Any:
        weight = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
        optimizer = torch.optim.AdamW([weight], 0.1)
        return weight, optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, 20)

    weight, optimizer, schedule = things()
    for _ in range(3):
        weight.grad = torch.ones_like(weight)
        optimizer.step()
        schedule.step()
    state = torch_optimizer.dump_state(optimizer, schedule, None)
    assert state.dtype == np.float32
    _, again, other = things()
    torch_optimizer.restore_state(np.concatenate([state[:0], state]), again, other, None)
    assert str(again.state_dict()) == str(optimizer.state_dict())
    assert other.get_last_lr() == schedule.get_last_lr() and other.last_epoch == 3
    optimizer.param_groups[0]["mine"] = object()
    with pytest.raises(UserError, match="remembers a object"):
        torch_optimizer.dump_state(optimizer)


# -- which methods -------------------------------------------------------------------------------------

REFUSED = {"fedprox", "scaffold", "feddyn", "fedcsda", "fedsps", "delta-sgd", "fedasync"}


@pytest.mark.parametrize("name", methods.METHODS.table)
def test_methods_that_step_by_their_own_rule_refuse_before_training(name: str) -> None:
    app = torch_client(linear, loader, optimizer=adam)
    if name in REFUSED:
        with pytest.raises(UserError, match="leave the optimizer out"):
            served(app, name, 1)
        return
    state, records = served(app, name, 2, STEPS if name == "amsfl-paper" else None)
    assert state.status == "finished" and np.isfinite(state.anchor).all()
    assert not any(record.plan["refused"] for record in records)
    if name.startswith("amsfl"):
        assert records[0].lr == LR  # the optimizer's own; no stride is planned for it
        assert min(records[0].readings["grad_sq"]) > 0


def test_amsfl_plans_for_optimizers_and_averages_by_their_way() -> None:
    """balance 1/2: u_i = w_i a_i^-1/2 sum_j w_j a_j^1/2, a_i the steps alone: no closing one is taken."""
    method = methods.for_own_optimizers(methods.make("amsfl", {"balance": 0.5}))
    assert not method.needs_own_steps and not method.facts.own_rate and method.facts.policy == "price"
    mix = method.arithmetic.mix(np.full(2, 0.5), np.array([4.0, 9.0]))
    np.testing.assert_allclose(mix, [0.5 / 2 * 2.5, 0.5 / 3 * 2.5])
    steps = methods.for_own_optimizers(methods.make("amsfl-steps", extrapolation=4.0))
    assert steps.name == "amsfl-steps+exp" and not steps.needs_own_steps
    assert methods.for_own_optimizers(methods.make("fedavg")) == methods.make("fedavg")


# -- batches, precisions, hooks ------------------------------------------------------------------------

Triple = namedtuple("Triple", "left right target")


class Two(torch.nn.Module):
    """Two inputs, tied weights, a frozen layer, batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.frozen = torch.nn.Linear(4, 4).requires_grad_(False)
        self.body, self.again = torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False)
        self.again.weight = self.body.weight
        self.head = torch.nn.Linear(4, 2)

    def forward(self, left: Any, right: Any) -> Any:
        return self.head(self.again(self.body(self.frozen(self.norm(left)))) + right)


def test_tuples_of_any_length_tied_frozen_and_normalised() -> None:
    def triples(context: Any) -> Any:
        x, y = X[part(context)], Y[part(context)]
        return DataLoader([Triple(*row) for row in zip(x, x.flip(1), y, strict=True)], batch_size=8)

    app = torch_client(Two, triples, test_loader=triples, optimizer=adam)
    state, records = served(app, evaluate_clients=1)
    assert state.anchor.size == sum(p.numel() for p in Two().parameters() if p.requires_grad) == 8 + 16 + 10
    assert int(state.buffers["norm.num_batches_tracked"]) == 3 + 2  # the middle client's
    assert 0 <= records[-1].metrics["clients"]["accuracy"] <= 1
    plain, _ = served(torch_client(Two, triples))
    assert plain.anchor.size == state.anchor.size


class Reader(torch.nn.Module):
    """As Hugging Face's: it works out its loss itself."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(4, 2)

    def forward(self, x: Any, labels: Any, names: Any = None) -> Any:
        assert names is None or all(isinstance(name, str) for name in names)
        logits = self.inner(x)
        out = namedtuple("Out", "loss logits")
        return out(torch.nn.functional.cross_entropy(logits, labels), logits)


def test_dictionaries_with_text_in_them_need_no_loss() -> None:
    def rows(context: Any) -> Any:
        x, y = X[part(context)], Y[part(context)]
        held = [{"names": "a", "x": a, "labels": b} for a, b in zip(x, y, strict=True)]
        return DataLoader(held, batch_size=8)

    def right(module: Any, batch: Any) -> dict[str, float]:
        hits = module(**batch).logits.argmax(1) == batch["labels"]
        return {"right": float(hits.float().mean())}

    app = torch_client(Reader, rows, test_loader=rows, optimizer=adam, metrics=right)
    state, records = served(app, evaluate_clients=1)
    scores = records[-1].metrics["clients"]
    assert scores["rows"] == 72 and 0 < scores["right"] <= 1 and scores["loss"] > 0
    inner = served(torch_client(linear, loader, optimizer=adam))[0]
    np.testing.assert_allclose(state.anchor, inner.anchor, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_stays_near_the_whole_one(precision: str) -> None:
    app = torch_client(linear, loader, optimizer=sgd, precision=precision, clip=1.0)
    state, records = served(app)
    whole = served(torch_client(linear, loader, optimizer=sgd, clip=1.0))[0]
    assert state.anchor.dtype == np.float32 and not any(record.plan["refused"] for record in records)
    np.testing.assert_allclose(state.anchor, whole.anchor, atol=0.02)


@pytest.mark.parametrize("driven", [False, True])
def test_parameters_of_half_precision_keep_their_own(driven: bool) -> None:
    """The flat model is float32: what bfloat16 rounds away at a client does not move the average."""

    def half() -> Any:
        return torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.BatchNorm1d(2)).to(torch.bfloat16)

    def rows(context: Any) -> Any:
        return DataLoader(TensorDataset(X[part(context)].bfloat16(), Y[part(context)]), batch_size=8)

    own = {"optimizer": lambda params, lr: torch.optim.SGD(params, 0.0)} if driven else {}
    app = torch_client(half, rows, **own)
    first, records = served(app, rounds=1)
    assert first.anchor.dtype == np.float32 and first.buffers["1.running_mean"].dtype == np.float32
    assert not records[0].plan["refused"]
    if driven:
        torch.manual_seed(0)
        start = torch.nn.utils.parameters_to_vector(half().parameters()).float().detach().numpy()
        np.testing.assert_array_equal(first.anchor, start)


@pytest.mark.parametrize("driven", [False, True])
def test_a_loss_that_is_none_once_costs_a_batch_not_a_client(driven: bool) -> None:
    """Client 0's second batch has rows that are none: it steps by the others, and both rounds have a note."""

    def rows(context: Any) -> Any:
        x = X[part(context)].clone()
        if part(context) == 0:
            x[8:16] = float("nan")
        return DataLoader(TensorDataset(x, Y[part(context)]), batch_size=8)

    told: list[float] = []
    hook = lambda step, loss, module: told.append(loss)  # noqa: E731
    app = torch_client(linear, rows, optimizer=sgd if driven else None, on_step=hook)
    state, records = served(app)
    assert np.isfinite(state.anchor).all() and [record.steps for record in records] == STEPS.tolist()
    left_out = ["client 0 left out 1 batches whose loss was not finite"]
    assert [record.plan["notes"] for record in records] == [left_out, left_out]
    assert len(told) == STEPS.sum() and np.isfinite(told).all()
    with pytest.raises(UserError, match="The loss was nan in 11 batches"):
        served(torch_client(linear, loader, loss=lambda o, t: o.sum() * float("nan")))


class Stream(IterableDataset):  # type: ignore[type-arg]
    """Two batches of rows, and then no more, however often it is asked."""

    def __init__(self, client: int, rows: int) -> None:
        self.rows = iter([(X[client, k], Y[client, k]) for k in range(rows)])

    def __iter__(self) -> Any:
        return self.rows


@pytest.mark.parametrize("driven", [False, True])
def test_a_stream_that_ends_gives_fewer_steps(driven: bool) -> None:
    own = {"optimizer": adam} if driven else {}

    def stream(context: Any) -> Any:
        return DataLoader(Stream(part(context), 16), batch_size=8)

    _, records = served(torch_client(linear, stream, rows=16, **own), table=[[3, 1, 5], [2, 4, 1]])
    assert [record.steps for record in records] == [[2, 1, 2], [2, 2, 1]]
    with pytest.raises(UserError, match="how many rows this loader has"):
        served(torch_client(linear, stream, **own))
    with pytest.raises(UserError, match="no batch: it is empty, or drop_last"):
        served(torch_client(linear, lambda context: DataLoader(Stream(0, 0)), rows=5, **own))


def test_groups_schedules_and_hooks() -> None:
    told: list[Any] = []

    def groups(params: Any, lr: float) -> Any:
        bias = {"params": [params.module.bias], "lr": lr / (1 + params.task.round)}
        return torch.optim.AdamW([{"params": [params.module.weight]}, bias], lr)

    def hook(step: int, loss: float, module: Any) -> dict[str, float]:
        told.append((step, loss))
        return {"norm": float(module.weight.detach().norm()), "step": float(step)}

    def schedule(optimizer: Any) -> Any:
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))

    app = torch_client(linear, loader, optimizer=groups, schedule=schedule, on_step=hook)
    _, records = served(app, "fednova")
    assert [step for step, _ in told[:9]] == [0, 1, 2, 0, 0, 1, 2, 3, 4] and len(told) == 9 + 7
    # a step of place k counts 1/(1+k): the mean over both groups is that in round 1, less for the bias later
    way = [sum(1 / (1 + k) for k in range(t)) for t in STEPS[0]]
    np.testing.assert_allclose(records[0].mix, 1 / 3 / np.array(way), rtol=1e-3)
    assert records[0].plan["refused"] == []


def test_combinations_that_mean_nothing_are_refused_at_once() -> None:
    for given in (
        {"schedule": lambda o: o},
        {"clip": 1.0},
        {"keep_optimizer": True},
        {"precision": "float16"},
    ):
        with pytest.raises(UserError, match="goes with an optimizer of your own"):
            torch_client(linear, loader, **given)
    with pytest.raises(UserError, match="precision is 'half'"):
        torch_client(linear, loader, precision="half")


# -- whole loops ---------------------------------------------------------------------------------------


LOADED, MODULE = DataLoader(TensorDataset(X[0], Y[0]), batch_size=8), torch.nn.Linear(4, 2)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"model": MODULE}, r"model is a Linear.*model=lambda: Net\(\)"),
        ({"loader": LOADED}, "loader is a DataLoader.*lambda context"),
        ({"optimizer": torch.optim.SGD(MODULE.parameters(), 0.1)}, "optimizer is a SGD.*lambda params, lr"),
        ({"loader": lambda context: TensorDataset(X[0], Y[0])}, "a TensorDataset, which gives single rows"),
        ({"optimizer": torch.optim.LBFGS}, "LBFGS takes its steps by a closure: use torch_loop_client"),
        (
            {"loss": torch.nn.CrossEntropyLoss(reduction="none")},
            r"a tensor of shape \(8,\); return one number",
        ),
        ({"on_step": lambda step, loss, module: 0.5}, "a dictionary of numbers.*got 0.5"),
    ],
)
def test_mistakes_of_a_first_try_are_sentences(given: dict[str, Any], why: str) -> None:
    """However long a server has patience: where everybody fails at the start, it is the app."""
    with pytest.raises(UserError, match=why):
        served(torch_client(**{"model": linear, "loader": loader, **given}), patience=600.0)


def test_a_list_of_batches_counts_its_own_rows() -> None:
    app = torch_client(linear, lambda context: list(loader(context)))
    assert [seat.rows for seat in served(app)[0].clients] == [24] * 3


def trained(module: Any, task: Any) -> Any:
    optimizer = adam(module.parameters(), task.lr)
    for step in task:
        x, y = batches(int(task.node["partition-id"]), task.steps)[step]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(x), y).backward()
        optimizer.step()


def test_a_loop_of_ones_own_equals_the_optimizers() -> None:
    counted: Any = lambda module, task: (trained(module, task), task.done)[1]  # noqa: E731
    want = served(torch_client(linear, loader, optimizer=adam))[0].anchor
    for train in (trained, counted):
        state, records = served(torch_loop_client(linear, train, lambda context: 24))
        np.testing.assert_allclose(state.anchor, want, rtol=1e-5, atol=1e-7)
        assert [record.steps for record in records] == STEPS.tolist()


def test_a_loop_may_do_less_say_more_and_never_do_more() -> None:
    def lazy(module: Any, task: Any) -> dict[str, float]:
        with torch.no_grad():
            module.weight += 0.01
        return {"steps": min(2, task.steps), "plain_steps": 1.5, "mood": 3.0}

    def one(module: Any, context: Any) -> Any:
        x, y = batches(part(context), 1)[0]
        return torch.nn.functional.cross_entropy(module(x), y)

    app = torch_loop_client(linear, lazy, lambda context: 24, probe_loss=one)
    _, records = served(app, "amsfl", 2, None)
    assert all(max(record.steps) <= 2 for record in records) and min(records[0].readings["grad_sq"]) > 0
    blind, records = served(torch_loop_client(linear, lazy, lambda context: 24), "amsfl", 2, None)
    assert blind.status == "finished" and max(records[0].readings["grad_sq"]) == 0
    for said, why in (
        (99, "took 99 steps, and 3 were asked for"),
        (0, "at least 1"),
        (1.5, "took 1.5"),
        (True, "took True"),
    ):
        bad = torch_loop_client(linear, lambda module, task, said=said: said, lambda context: 24)
        with pytest.raises(UserError, match=why):
            served(bad)


# -- metrics of one's own ------------------------------------------------------------------------------


def test_metrics_of_ones_own_are_means_by_rows_finite_and_few(tmp_path: Path) -> None:
    """Clients have 24, 24 and 8 rows; the third says what no record can bear."""

    def rows(context: Any) -> Any:
        last = 8 if part(context) == 2 else 24
        return DataLoader(TensorDataset(X[part(context)][:last], Y[part(context)][:last]), batch_size=8)

    def hook(step: int, loss: float, module: Any) -> dict[str, float]:
        return {"step": float(step), "loss": float("nan"), "accuracy": 7.0}

    def loop(module: Any, task: Any) -> dict[str, float]:
        who = int(task.node["partition-id"])
        odd = {f"m{k:02}": 1.0 for k in range(40)} | {"x" * 65: 1.0, "\n": 1.0, "nan": float("nan")}
        return {"steps": 1, "a": float(who), **(odd if who == 2 else {})}

    def own(module: Any, batch: Any) -> dict[str, float]:
        return {"first": float(batch[0][0, 0]), "nothing": float("nan")}

    app = torch_client(linear, rows, test_loader=rows, on_step=hook, metrics=own)
    _, records = served(app, rounds=1, evaluate_clients=1, out=str(tmp_path / "run"))
    # three steps have the mean place 1, one step 0, five steps 2; by rows (24 + 0 + 2 8) / 56
    assert records[0].metrics["training"] == {"step": pytest.approx(40 / 56), "rows": 56.0}
    scores = records[0].metrics["clients"]
    firsts = [X[c, 8 * k, 0] for c, count in enumerate((3, 3, 1)) for k in range(count)]
    assert scores["first"] == pytest.approx(float(sum(firsts)) * 8 / 56, rel=1e-5)
    assert "nothing" not in scores and len(records[0].plan["notes"]) == 6
    assert read_run(tmp_path / "run").rounds[0].metrics == records[0].metrics
    table = compose(read([tmp_path / "run"]))["table3.csv"].decode()
    assert "training, step" in table and "0.714285" in table
    looped = torch_loop_client(linear, loop, lambda context: 24)
    found = served(looped, rounds=1)[1][0]
    assert found.metrics["training"]["a"] == 1.0 and len(found.metrics["training"]) == 32 + 1
    assert found.plan["notes"][0].startswith("of client 2's own metrics 12 were left out")
