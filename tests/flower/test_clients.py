"""Clients of ours: as the engines compute, whatever computes; PyTorch in all its forms; mistakes."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from virtual_grid import VirtualGrid, steps_of

import amsfl
from amsfl import data, sampling
from amsfl.core import UserError
from amsfl.flower import (
    AMSFL,
    GradientTrainer,
    InProcessGrid,
    Measured,
    RoundGrid,
    Shard,
    client_app,
    jax_client,
    serve,
    trainer,
)
from amsfl.flower.jax_trainer import NAME, one_array, program
from amsfl.study.calibrate import calibrate

DIGITS = data.load("digits")
PARTS = data.partition("dirichlet:0.5", DIGITS.y, 3, 0)
NODES = [{"partition-id": place} for place in range(3)]
SETTINGS: dict[str, Any] = {"data": "digits", "clients": 3, "partition": "dirichlet:0.5", "batch": 16}
SETTINGS |= {"seed": 0, "model": "softmax", "steps": 4, "rounds": 5, "engine": "loop", "clock": "makespan"}
SOFTMAX = program("softmax", 64, 10)


def shard(context: Any) -> Shard:
    rows = PARTS[int(context.node_config["partition-id"])]
    return Shard(DIGITS.x[rows], DIGITS.y[rows], 10, "softmax")


def logits(x: Any, w: Any) -> Any:
    return x @ w[:640].reshape(10, 64).T + w[640:]


class ByHand(GradientTrainer):
    """The same softmax in plain numpy, written from docs/protocol.md."""

    def __init__(self, context: Any):
        self.own = shard(context)
        self.rows = len(self.own.y)

    def gradient(self, w: Any, step: int) -> tuple[float, Any]:
        places = np.arange(self.task.batch, dtype=np.uint32)
        with np.errstate(over="ignore"):
            some = sampling.draw(self.task.key, sampling.words(step), places, np.int32(self.rows))
        x, y = self.own.x[some], self.own.y[some]
        out = logits(x, w.astype(float))
        likely = np.exp(out - out.max(1, keepdims=True))
        likely /= likely.sum(1, keepdims=True)
        loss = -np.log(likely[np.arange(len(y)), y]).mean()
        likely[np.arange(len(y)), y] -= 1
        return loss, np.concatenate([(likely.T @ x / len(y)).ravel(), likely.mean(0)])


METHODS: dict[str, dict[str, float]] = {name: {} for name in ("fedavg", "fednova", "scaffold")}
METHODS |= {"fedprox": {"mu": 0.5}, "feddyn": {"alpha": 0.1}, "fedavgm": {"momentum": 0.9}}


@pytest.mark.parametrize("name", METHODS)
def test_a_federation_is_the_simulation_s(name: str) -> None:
    """Five rounds from the same first model, by the loop engine and through Flower's messages."""
    own = {"method": name, "lr": 0.2, "options": METHODS[name]}
    wanted = amsfl.run(**SETTINGS | own, details="", progress=False)
    real = {key: value for key, value in (SETTINGS | own).items() if key not in ("engine", "partition")}
    grid = InProcessGrid(jax_client(shard), NODES)
    result = serve(grid, real | {"held_back": 0.0}, SOFTMAX.start(0), watch=lambda record: None)
    for part, numbers in SOFTMAX.tensors(result.arrays[NAME].numpy()).items():
        np.testing.assert_allclose(numbers, wanted.model.tensors[part], rtol=1e-3, atol=2e-5)
    assert (
        0 < grid.queued < grid.seconds
    )  # by which a record's own seconds are those of real nodes, side by side


def test_plain_numpy_is_one_of_them() -> None:
    models = []
    for app in (jax_client(shard), client_app(ByHand)):
        strategy = AMSFL(steps=3, lr=0.2, batch_size=16, judge=False)
        strategy.run = "same"
        result = strategy.start(InProcessGrid(app, NODES), one_array(SOFTMAX.start(0)), num_rounds=3)
        models.append(result.arrays)
    np.testing.assert_allclose(models[0][NAME].numpy(), models[1][NAME].numpy(), rtol=1e-4, atol=1e-6)


def test_a_reading_around_a_loop_of_ones_own_times_the_loop_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=0.0)
    clock.perf_counter = lambda: clock.now
    monkeypatch.setattr(trainer, "time", clock)
    scale = [1.0]

    def gradient() -> Any:
        clock.now += 5.0
        return [np.array([1.0, 2.0]) * scale[0]]

    with Measured(gradient, 4, 0.5) as taken:
        clock.now += 0.3
        scale[0] = 0.5  # half of the gradient is left: fading ln 2 over 4 steps of 0.5
    assert taken.metrics == pytest.approx({"train-seconds": 0.3, "fading": np.log(2) / 2})
    with Measured() as alone:
        clock.now += 0.2
    assert alone.metrics == pytest.approx({"train-seconds": 0.2})


# -- PyTorch -------------------------------------------------------------------------------------------------

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'amsfl[torch]'")
torch.set_num_threads(1)

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from amsfl.flower import torch_arrays, torch_client  # noqa: E402

X, Y = torch.from_numpy(DIGITS.x[:96].copy()), torch.from_numpy(DIGITS.y[:96].copy()).long()


def linear() -> Any:
    torch.manual_seed(1)
    return torch.nn.Linear(64, 10)


def loader(context: Any = None) -> Any:
    return DataLoader(TensorDataset(X, Y), batch_size=16, shuffle=True)


def ask(app: Any, arrays: ArrayRecord, kind: str = MessageType.TRAIN, **config: Any) -> Any:
    """One order to one client; its reply's content."""
    grid = InProcessGrid(app, [{"partition-id": 0}])
    fields = {"local-steps": 3, "lr": 0.1, "server-round": 1}
    fields |= {key.replace("_", "-"): v for key, v in config.items()}
    message = Message(RecordDict({"arrays": arrays, "config": ConfigRecord(fields)}), 1000, kind)
    [reply] = grid.send_and_receive([message])
    if reply.has_error():
        raise UserError(reply.error.reason)
    return reply.content


def sgd(module: Any, batches: list[Any], lr: float, more: Any = lambda at, part: 0.0) -> Any:
    """Plain steps by hand; `more(place, part)` is added to a parameter's gradient."""
    for x, y in batches:
        loss = torch.nn.functional.cross_entropy(module(x), y)
        grads = torch.autograd.grad(loss, list(module.parameters()))
        with torch.no_grad():
            for at, (part, grad) in enumerate(zip(module.parameters(), grads, strict=True)):
                part -= lr * (grad + more(at, part))
    return module


def fixed(context: Any = None) -> list[Any]:
    return [(X[at : at + 16], Y[at : at + 16]) for at in range(0, 96, 16)]


EXTRA = np.linspace(-1, 1, 650).astype("<f4")


def prox_and_correction() -> Any:
    began = [part.detach().clone() for part in linear().parameters()]
    pieces = [torch.from_numpy(EXTRA[:640].reshape(10, 64).copy()), torch.from_numpy(EXTRA[640:].copy())]
    return sgd(linear(), fixed()[:3], 0.1, lambda at, part: 0.5 * (part - began[at]) + pieces[at])


def by_adam() -> Any:
    module = linear()
    adam = torch.optim.Adam(module.parameters(), 0.1)
    for x, y in fixed()[:3]:
        adam.zero_grad()
        torch.nn.functional.cross_entropy(module(x), y).backward()
        adam.step()
    return module


def own_loop(module: Any, batches: Any, task: Any) -> dict[str, float]:
    for _, batch in zip(task, batches, strict=False):
        sgd(module, [batch], task.lr)
    return {"own": 0.5}


STEPS = {
    "plain": ({}, {}, lambda: sgd(linear(), fixed()[:3], 0.1)),
    "a loop of one's own": ({"train": own_loop}, {}, lambda: sgd(linear(), fixed()[:3], 0.1)),
    "prox and correction": ({}, {"proximal_mu": 0.5, "correction": EXTRA.tobytes()}, prox_and_correction),
    "an optimizer": ({"optimizer": torch.optim.Adam}, {}, by_adam),
}


@pytest.mark.parametrize("kind", STEPS)
def test_a_module_steps_as_by_hand(kind: str) -> None:
    own, order, by_hand = STEPS[kind]
    content = ask(torch_client(linear, fixed, **own), torch_arrays(linear()), **order)
    assert content["arrays"]["weight"].numpy() == pytest.approx(by_hand().weight.detach().numpy(), abs=1e-5)
    metrics, loop = content["metrics"], kind == "a loop of one's own"
    assert metrics["num-examples"] == 96 and metrics["local-steps"] == 3 and metrics["train-seconds"] > 0
    assert metrics["own"] == 0.5 and "fading" not in metrics if loop else metrics["fading"] > 0


def test_running_statistics_travel_and_frozen_parameters_stay() -> None:
    def model() -> Any:
        torch.manual_seed(0)
        whole = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 10))
        whole[0].requires_grad_(False)
        return whole

    start = torch_arrays(model())
    running = "1.running_mean 1.running_var 1.num_batches_tracked"
    assert {*start} == {*f"1.weight 1.bias {running} 2.weight 2.bias".split()}
    result = AMSFL(steps=2).start(InProcessGrid(torch_client(model, loader), NODES), start, num_rounds=2)
    assert result.arrays["1.num_batches_tracked"].dtype == "int64"
    assert result.arrays["1.num_batches_tracked"].numpy() == 4  # what the reading looks at leaves no trace


def entropy(inputs: Any, labels: Any) -> Any:
    """A batch_loss by the names, or the places, of inputs and labels."""
    return lambda module, batch: torch.nn.functional.cross_entropy(module(batch[inputs]), batch[labels])


BATCHES = {
    "with text": ({"x": X[:8], "labels": Y[:8], "id": ["a"] * 8}, {"batch_loss": entropy("x", "labels")}),
    "triples": ((X[:8], torch.ones(8), Y[:8]), {"batch_loss": entropy(0, 2)}),
    "pairs, squared": ((X[:8], torch.zeros(8, 10)), {"loss": torch.nn.functional.mse_loss}),
}


@pytest.mark.parametrize("kind", BATCHES)
def test_batches_of_any_make(kind: str) -> None:
    batch, more = BATCHES[kind]
    content = ask(torch_client(linear, lambda context: [batch], **more), torch_arrays(linear()))
    assert content["metrics"]["num-examples"] == 8 and content["metrics"]["local-steps"] == 3


def test_rows_are_held_back_for_the_judge_and_not_trained_on() -> None:
    content = ask(torch_client(linear, loader), torch_arrays(linear()), held_back=0.1)
    trained, held = sampling.hold_back(0, 0, 96, 0.1)
    with torch.no_grad():
        wanted = torch.nn.functional.cross_entropy(linear()(X[held]), Y[held])
    assert content["metrics"]["held-loss"] == pytest.approx(float(wanted), rel=1e-5)
    assert len(trained) + len(held) == 96 and content["metrics"]["output-spread"] > 0


def test_a_stream_that_ends_gives_fewer_steps_and_a_loss_that_is_none_is_told() -> None:
    short = ask(torch_client(linear, lambda context: iter(fixed()[:2]), rows=32), torch_arrays(linear()))
    assert short["metrics"]["local-steps"] == 2
    bad = [fixed()[0], (X[:16] * float("nan"), Y[:16])]
    with pytest.raises(UserError, match="nan in step 1; lower the learning rate"):
        ask(torch_client(linear, lambda context: bad), torch_arrays(linear()))


def test_clients_score_the_model_on_rows_of_their_own() -> None:
    app = torch_client(linear, loader, loader, metrics=lambda module, batch: {"own": 0.25})
    metrics = ask(app, torch_arrays(linear()), MessageType.EVALUATE)["metrics"]
    with torch.no_grad():
        right = float((linear()(X).argmax(1) == Y).float().mean())
    assert metrics["accuracy"] == pytest.approx(right)
    assert metrics["own"] == 0.25 and metrics["num-examples"] == 96


def tried(model: Any = linear, batches: Any = loader, arrays: Any = linear, **more: Any) -> Any:
    order = {key: more.pop(key) for key in ("local_steps",) if key in more}
    return ask(torch_client(model, batches, **more), torch_arrays(arrays()), **order)


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "a module in place of a function": ({"model": linear()}, "give a function"),
    "a data set in place of batches": ({"batches": lambda context: TensorDataset(X, Y)}, "single rows"),
    "another model": ({"arrays": lambda: torch.nn.Linear(64, 9)}, "this client's"),
    "missing arrays": ({"arrays": lambda: torch.nn.Linear(64, 10, bias=False)}, "has no 'bias'"),
    "no batch": ({"batches": lambda context: [], "rows": 3}, "no batch"),
    "nothing to train": ({"model": lambda: linear().requires_grad_(False)}, "wants a gradient"),
    "rows that nobody can count": ({"batches": lambda context: iter(fixed())}, "rows=1000"),
    "a loss per row": ({"batch_loss": lambda module, batch: module(batch[0]).sum(1)}, "one number"),
    "a loop that counts no step": ({"train": lambda *given: None}, "for step in task"),
    "no steps in the order": ({"local_steps": "3"}, "whole number"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_of_a_first_try_are_sentences(mistake: str) -> None:
    given, word = MISTAKES[mistake]
    with pytest.raises(UserError, match=word):
        tried(**given)


def test_torch_clients_learn_the_digits() -> None:
    def own(context: Any) -> Any:
        place = int(context.node_config["partition-id"])
        x, y = torch.from_numpy(DIGITS.x[place::3].copy()), torch.from_numpy(DIGITS.y[place::3].copy()).long()
        return DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)

    settings = {"clients": 3, "rounds": 8, "lr": 0.5, "evaluate_clients": 1, "target": 0.9}
    grid = InProcessGrid(torch_client(linear, own, own), NODES)
    result = serve(grid, settings, linear, watch=lambda record: None)
    scores = [each["accuracy"] for each in result.evaluate_metrics_clientapp.values()]
    assert scores[-1] >= 0.9 and len(scores) < 8  # the target ended it


def test_a_client_s_process_imports_no_more_than_what_trains() -> None:
    """Flower starts a process a message: seconds of import are seconds of a round."""
    code = "import sys, amsfl.flower as f; f.torch_client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    heavy = {"jax", "sklearn", "scipy.stats", "matplotlib", "amsfl.simulation", "amsfl.report", "pandas"}
    assert not heavy & {*loaded} and "torch" in loaded


def test_pace_is_the_node_s_or_the_run_s() -> None:
    from amsfl.flower.trainer import pace_of

    run = {"slowdowns": "1,2,4", "step-seconds": 0.1}
    context: Any = SimpleNamespace(node_config={"partition-id": 2}, run_config=run)
    assert pace_of(context) == (4.0, 0.1)


def slow_client(monkeypatch: pytest.MonkeyPatch, load: Callable[[int], float], look: float = 0.0) -> Any:
    """A client on a clock of its own: a minibatch of site i takes load(i) seconds and `look` more."""
    clock = SimpleNamespace(now=0.0, sleep=lambda seconds: None)
    clock.perf_counter = lambda: clock.now
    monkeypatch.setattr(trainer, "time", clock)

    def collate(seconds: float, rows: Any) -> Any:
        clock.now += seconds
        return torch.utils.data.default_collate(rows)

    def loss(module: Any, batch: Any) -> Any:
        clock.now += look
        return torch.nn.functional.cross_entropy(module(batch[0]), batch[1])

    def batches(context: Any) -> Any:
        seconds = load(context.node_config["partition-id"])
        return DataLoader(TensorDataset(X, Y), batch_size=16, collate_fn=partial(collate, seconds))

    return torch_client(linear, batches, batch_loss=loss)


@pytest.mark.parametrize("steps", [1, 2, 3, 20])
def test_seconds_a_step_are_right_for_few_steps(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reading is no step, and not of their seconds, though its rows are there; nor are held-back rows."""
    app = slow_client(monkeypatch, lambda site: 0.16, look=0.04)
    metrics = ask(app, torch_arrays(linear()), local_steps=steps, held_back=0.1)["metrics"]
    assert metrics["train-seconds"] / metrics["local-steps"] == pytest.approx(0.2) and "fading" in metrics


def test_calibrate_finds_how_slow_loaders_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The slowest of five, which is asked for the fewest steps, came out as the fastest."""

    def seconds(site: int) -> float:
        return 0.01 * 2.0**site

    app = slow_client(monkeypatch, seconds)
    grid = VirtualGrid(app, 5, lambda site, order: seconds(site) * steps_of(order) + 0.5)
    strategy = AMSFL(lr=0.1, out=tmp_path / "run", fraction_evaluate=0.0)
    strategy.start(RoundGrid(grid, poll=0.01), torch_arrays(linear()), num_rounds=6)
    assert strategy.log[-1]["steps"][1004] < 3 < strategy.log[-1]["steps"][1000]
    found = calibrate([tmp_path / "run"])[0].columns["step_seconds"]
    assert found == pytest.approx([seconds(site) for site in range(5)])
