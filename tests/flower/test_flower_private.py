"""Differential privacy on real clients: what travels, who counts it, and who stops when."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from flwr.app import Message
from flwr.clientapp import ClientApp

from amsfl import data, methods, sampling
from amsfl.core import RowPrivacy, UserError
from amsfl.flower import (
    NumpyTrainer,
    Shard,
    evaluator,
    jax_client,
    messages,
    numpy_client,
    serve,
    torch_client,
)
from amsfl.flower.client import private_steps
from amsfl.flower.client.jax_client import JaxTrainer
from amsfl.flower.client.privacy_ledger import SiteLedger
from amsfl.flower.client.site_policy import site_policy
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.messages import GlobalModel, Order
from amsfl.flower.server.clients import RegisteredClient
from amsfl.flower.server.privacy_budget import PrivacyBudget
from amsfl.planning.planner import policy_of
from amsfl.privacy import (
    RECORD_LEVEL,
    Event,
    Exposure,
    Terms,
    epsilon,
    poisson_gaussian,
    protect_rows,
    system_random,
)
from amsfl.record import read_run, read_sealed
from amsfl.simulation import serve_config
from amsfl.simulation.recorded_disclosure import leaves_of

DIGITS = data.load("digits")
PARTS = data.partition("quantity:1", DIGITS.y, 3, 0)
NODES = [{"partition-id": place} for place in range(3)]
QUICK: dict[str, Any] = {"patience": 5.0, "clients": 3, "poll": 0.001, "batch": 32, "seed": 0, "lr": 0.5}
QUICK |= {"method": "fedavg", "steps": 4, "rounds": 3}


def shard(context: Any) -> Shard:
    rows = PARTS[int(context.node_config["partition-id"])]
    return Shard(DIGITS.x[rows], DIGITS.y[rows], 10, "softmax", test=DIGITS.evals["holdout"])


CLIENT = jax_client(shard)
MODEL = GlobalModel(*[np.zeros(3, np.float32)] * 3, {})
PRIVATE = RowPrivacy(0.1)


class Tapped(InProcessGrid):
    """Keeps all that the clients answered."""

    def __init__(self, app: ClientApp, nodes: Any = NODES):
        super().__init__(app, nodes)
        self.heard: list[Message] = []

    def answer(self, message: Message) -> Message:
        self.heard.append(super().answer(message))
        return self.heard[-1]

    def fields(self) -> dict[str, list[Any]]:
        """Every value that left a client, by record and key."""
        found: dict[str, list[Any]] = {}
        for message in self.heard:
            for name, record in message.content.items():
                vectors = name in ("upload", "buffers", "model")
                read = messages.arrays(message.content, name) if vectors else record
                for key, value in read.items():
                    found.setdefault(f"{name}.{key}", []).append(value)
        return found


def order(**given: Any) -> Order:
    plain = Order("run", 0, -1, 0, 1, 60.0, 1.0, True, 2000, 0, "fedavg", {}, "", False)
    terms = {key: given.pop(key) for key in [*given] if key in Terms._fields}
    return plain._replace(terms=Terms("record", 0.1, 0.0, 0.0, 1e-5)._replace(**terms), **given)


def changed(order: Order, **given: Any) -> Order:
    """The order with other terms, or other fields of its own."""
    terms = {key: given.pop(key) for key in [*given] if key in Terms._fields}
    return order._replace(terms=order.terms._replace(**terms), **given)


def ledger(context: Any) -> Any:
    return SiteLedger(context, site_policy(context))


def step(trainer: Any, x: Any, noise: float = 0.0) -> Any:
    return private_steps.gradient(trainer, PRIVATE, noise, 2000, x)


def clipped_by_hand(x: Any, rows: Any, labels: Any, clip: float) -> Any:
    """Softmax regression: a row's gradient is (p - e_y) a', with W [classes, features] and b beside it."""
    weight, bias = x[:640].reshape(10, 64).astype(float), x[640:].astype(float)
    logits = rows @ weight.T + bias
    p = np.exp(logits - logits.max(1, keepdims=True))
    d = p / p.sum(1, keepdims=True) - np.eye(10)[labels]
    each = np.concatenate([(d[:, :, None] * rows[:, None, :]).reshape(len(rows), -1), d], axis=1)
    norms = np.sqrt((each**2).sum(1))
    assert (norms > clip).any()
    return (each * np.minimum(1, clip / norms)[:, None]).sum(0)


def torch_app(norm: bool = False, **more: Any) -> ClientApp:
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, TensorDataset

    def loader(context: Any) -> Any:
        rows = PARTS[int(context.node_config["partition-id"])]
        return DataLoader(
            TensorDataset(
                torch.from_numpy(DIGITS.x[rows]), torch.from_numpy(DIGITS.y[rows].astype(np.int64))
            ),
            batch_size=16,
        )

    def model() -> Any:
        layers = [torch.nn.BatchNorm1d(64)] if norm else []
        return torch.nn.Sequential(*layers, torch.nn.Linear(64, 10))

    return torch_client(model, loader, **more)


def trainer_of(app: ClientApp, place: int) -> Any:
    """The trainer that a torch_client's app makes, caught where it is asked whether it can."""
    caught: list[Any] = []
    before, private_steps.why_open = private_steps.why_open, lambda trainer: caught.append(trainer) or ""
    try:
        grid = Tapped(app, [{"partition-id": place}])
        serve(grid, {**QUICK, "clients": 1, "epsilon": 8.0, "rounds": 1, "steps": 1})
    finally:
        private_steps.why_open = before
    return caught[0]


def test_clients_cut_every_row_as_by_hand() -> None:
    """All rows are in (the batch is larger), no noise: jax and torch give the sum of the cut gradients."""
    rows = PARTS[1]
    x = np.linspace(-0.1, 0.1, 650, dtype=np.float32)
    want = clipped_by_hand(x, DIGITS.x[rows], DIGITS.y[rows], 0.1) / len(rows)
    ours = JaxTrainer(Shard(DIGITS.x[rows], DIGITS.y[rows], 10, "softmax"))
    ours.begin(order(), GlobalModel(x, x[:0], x[:0], {}), protect_rows(methods.make("fedavg"), 0.1))
    np.testing.assert_allclose(step(ours, x), want, atol=1e-6)
    theirs = trainer_of(torch_app(), 1)
    found = step(theirs, theirs.from_numpy(x))
    np.testing.assert_allclose(theirs.to_numpy(found), want, atol=1e-6)


def test_noise_is_as_large_as_ordered_and_nobodys_seed() -> None:
    rows = PARTS[1]
    ours = JaxTrainer(Shard(DIGITS.x[rows], DIGITS.y[rows], 10, "softmax"))
    ours.batch, ours.program = 2000, ours._compiled(None)
    x = np.zeros(650, np.float32)
    still = step(ours, x)
    moved = np.concatenate([step(ours, x, 3.0) - still for _ in range(8)])
    moved *= len(rows) / (3.0 * 0.1)
    assert moved.std() == pytest.approx(1, abs=0.05) and abs(moved.mean()) < 0.07
    assert len({*moved.tolist()}) > 5000
    drawn = np.concatenate([system_random.chosen(int(sampling.chance(10, 100)), 100) for _ in range(2000)])
    counts = np.bincount(drawn, minlength=100)
    assert counts.mean() == pytest.approx(200, abs=5) and counts.std() == pytest.approx(180**0.5, rel=0.35)
    tails = np.abs(system_random.normal(100_000))
    assert (tails > 3).mean() == pytest.approx(0.0027, abs=0.001) and len(system_random.normal(7)) == 7


@pytest.mark.parametrize("method", ["fedavg", "amsfl"])
def test_a_private_run_counts_and_sends_nothing_else(method: str, tmp_path: Path) -> None:
    """Its epsilon is dp-accounting's for the steps that were run; what travels is all on the list."""
    grid = Tapped(CLIENT)
    given = {**QUICK, "method": method, "epsilon": 2.0, "out": str(tmp_path / "run")}
    state, records = serve(grid, given, start=np.zeros(650, np.float32))
    found = read_run(tmp_path / "run")
    summary = found.summary
    assert summary is not None
    for place, (name, steps) in enumerate(summary.steps.items()):
        site = Exposure(sampling.share(sampling.chance(32, len(PARTS[place]))), summary.noise[name], 1e-5)
        assert summary.epsilon[name] == epsilon(site, steps) <= 2.0
        assert records[-1].epsilon[place] >= summary.epsilon[name]
    assert state.ordered_steps == state.steps and records[0].epsilon[0] < records[-1].epsilon[0]
    left, listed = grid.fields(), leaves_of(tmp_path / "run")
    on_list = {field for leaf in listed for field in leaf.fields}
    assert not {name for name in left if not {name, f"{name.split('.')[0]}.*"} & on_list}
    assert not any("loss" in name for name in left if name.startswith("metrics"))
    readings = [left[f"report.{name}"] for name in ("loss", "grad_sq", "diff_sq", "delta_sq", "grad_dir")]
    assert not np.any(readings)  # the server works out what it can from delta
    assert left["report.taken"][-1] == state.ordered_steps[2]
    assert all(leaf.protected for leaf in listed)
    if method == "amsfl":
        assert np.asarray(records[-1].readings["delta_sq"]).all()


def test_a_site_stops_and_the_run_goes_on(tmp_path: Path) -> None:
    """One site allows itself less than the run: it counts over runs and restarts, and sits out."""
    nodes = [node | {"state-dir": str(tmp_path)} for node in NODES]
    nodes[2] |= {"epsilon": 0.8}
    given = {**QUICK, "epsilon": 4.0, "noise": 3.0, "rounds": 6, "steps": 10}
    state, records = serve(InProcessGrid(CLIENT, nodes), given)
    assert 2 in records[0].cohort and 2 not in records[-1].cohort and len(records) == 6
    assert records[-1].epsilon[2] <= 0.8
    (run,) = read_sealed(tmp_path / "privacy-2.json", "").values()
    assert run["steps"] == state.ordered_steps[2] == state.steps[2]
    # another run, other processes: the file says what is left, and it is nothing
    again, records = serve(InProcessGrid(CLIENT, nodes), {**given, "rounds": 1})
    assert records[0].cohort == [0, 1]
    assert again.clients[2].epsilon is not None and again.clients[2].epsilon < 0.2


def test_a_run_goes_on_with_what_sites_have_counted(tmp_path: Path) -> None:
    """With the sites' books it counts on; sites that lost theirs do nothing, and nothing is counted."""
    nodes = [node | {"state-dir": str(tmp_path / "kept")} for node in NODES]
    given = {**QUICK, "epsilon": 2.0, "noise": 3.0, "rounds": 2, "out": str(tmp_path / "run")}
    first, _ = serve(InProcessGrid(CLIENT, nodes), given)
    longer = {"rounds": 3, "out": given["out"], "resume": True, "patience": 0.5}
    with pytest.raises(UserError, match="lost its ledger"):
        serve(InProcessGrid(CLIENT, NODES), longer)
    state, records = serve(InProcessGrid(CLIENT, nodes), longer)
    assert first.ordered_steps == [8, 8, 8] and state.ordered_steps == state.steps == [12, 12, 12]
    assert records[-1].epsilon[0] > records[-2].epsilon[0]


def test_epsilon_of_two_runs_is_that_of_both_together() -> None:
    one, two = Event(0.1, 2.0, 30), Event(0.05, 1.5, 20)
    both = poisson_gaussian((one, two), 1e-5)
    assert max(poisson_gaussian((one,), 1e-5), poisson_gaussian((two,), 1e-5)) < both
    assert both < poisson_gaussian((one,), 1e-5) + poisson_gaussian((two,), 1e-5)
    assert poisson_gaussian((one._replace(steps=10), one._replace(steps=20)), 1e-5) == pytest.approx(
        poisson_gaussian((one,), 1e-5), rel=1e-3
    )


def test_torch_clients_are_private_by_the_same_settings(tmp_path: Path) -> None:
    """Its accuracy is far above chance, its epsilon below the budget, and it sends what the list says."""
    score = evaluator(lambda x, rows: rows @ x[:640].reshape(10, 64).T + x[640:], DIGITS.evals)
    grid, given = Tapped(torch_app()), {**QUICK, "epsilon": 8.0, "rounds": 6, "out": str(tmp_path / "run")}
    _, records = serve(grid, given, score)
    # by chance 0.1; noise is the system's own, another every time: 0.57 to 0.8 were seen
    assert max(record.metrics["holdout"]["accuracy"] for record in records) > 0.3
    assert max(records[-1].epsilon) <= 8
    on_list = {field for leaf in leaves_of(tmp_path / "run") for field in leaf.fields}
    assert not {name for name in grid.fields() if not {name, f"{name.split('.')[0]}.*"} & on_list}


def plain_gradient(x: Any, step: int, order: Order) -> Any:
    return 0.0, 0 * x


UNABLE = {
    "batch normalisation": (lambda: torch_app(norm=True), "GroupNorm"),
    "an optimizer": (lambda: torch_app(optimizer=lambda params, lr: None), "optimizer"),
    "on_step": (lambda: torch_app(on_step=lambda *_: None), "on_step"),
    "numpy": (lambda: numpy_client(lambda _: NumpyTrainer(9, np.zeros(3), plain_gradient)), "row by row"),
}


@pytest.mark.parametrize("case", UNABLE)
def test_a_client_that_cannot_clip_rows_says_so_before_training(case: str) -> None:
    app, words = UNABLE[case]
    with pytest.raises(UserError, match=words):
        serve(InProcessGrid(app(), NODES), {**QUICK, "epsilon": 2.0})


@pytest.mark.parametrize("count", [3, 4])
def test_one_client_that_cannot_clip_rows_has_no_seat(count: int) -> None:
    """Another node gets it; if there is none, the run ends, and says why."""

    class Unable(InProcessGrid):
        def answer(self, message: Message) -> Message:
            answer = super().answer(message)
            if message.metadata.message_type == "query" and message.metadata.dst_node_id == 1001:
                answer.content["hello"]["open"] = "it has no GroupNorm"
            return answer

    nodes = [{"partition-id": place % 3, "client": f"site {place}"} for place in range(count)]
    asked = {**QUICK, "epsilon": 2.0, "rounds": 1, "patience": 0.05 if count == 3 else 5.0}
    if count == 3:
        with pytest.raises(UserError, match="GroupNorm"):
            serve(Unable(CLIENT, nodes), asked)
    else:
        state, _ = serve(Unable(CLIENT, nodes), asked)
        assert [client.node for client in state.clients] == [1000, 1002, 1003]


def test_noise_and_steps_are_planned_for_rows_that_are_believed() -> None:
    """A hundred times the others' are: what is claimed beyond that changes no client's part."""
    config = serve_config({**QUICK, "method": "amsfl", "epsilon": 2.0})
    ledgers = []
    for claim in (10**5, 10**15):
        budget = PrivacyBudget(config, policy_of(config, methods.make("amsfl")), RECORD_LEVEL)
        budget.open([RegisteredClient(str(n), rows, n) for n, rows in enumerate((10**3, 10**3, claim))], 650)
        ledgers.append(budget.ledger)
    assert ledgers[0].exposures == ledgers[1].exposures and (ledgers[0].limits == ledgers[1].limits).all()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "scores": ({"epsilon": 2.0, "evaluate_clients": 1}, "without noise"),
    "scores of whole clients": ({"privacy": "client", "noise": 1.0, "evaluate_clients": 1}, "without noise"),
    "strides": ({"epsilon": 2.0, "method": "fedsps"}, "as they are"),
    "nobody waits": ({"epsilon": 2.0, "round_end": "buffer:2"}, "waits for nobody"),
    "a rule over whole clients": ({"privacy": "client", "noise": 1.0, "robust": "median"}, "rule"),
    "readings of whole clients": ({"privacy": "client", "noise": 1.0, "method": "amsfl"}, "whole clients"),
    "both": ({"epsilon": 2.0, "privacy": "none"}, "leave one"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_private_is_refused(case: str) -> None:
    given, words = REFUSED[case]
    with pytest.raises(UserError, match=words):
        serve(InProcessGrid(CLIENT, NODES), {**QUICK, **given})


def test_a_site_does_not_trust_its_server(tmp_path: Path) -> None:
    """Its own epsilon: plain orders and scores are refused; so are other terms in the middle of a run."""
    nodes = [node | {"state-dir": str(tmp_path), "epsilon": 1.0} for node in NODES]
    with pytest.raises(UserError, match="keeps its rows private"):
        serve(InProcessGrid(CLIENT, nodes), QUICK)
    context = InProcessGrid(CLIENT, nodes).contexts[1000]
    with pytest.raises(UserError, match="keeps its rows private"):
        site_policy(context).check(order()._replace(terms=None), MODEL, 1)
    mine = order(batch=10, noise=2.0, epsilon=0.5)
    steps = ledger(context).spend(mine._replace(steps=1000), 100)
    site = Exposure(sampling.share(sampling.chance(10, 100)), 2.0, 1e-5)
    assert epsilon(site, steps) <= 0.5 < epsilon(site, steps + 1)
    assert ledger(context).give_back("run", 0) == steps
    for more in ({"epsilon": 9.0}, {"noise": 9.0}, {"delta": 0.5}, {"batch": 1}):
        with pytest.raises(UserError, match="settled"):
            ledger(context).spend(changed(mine, **more), 100)
    with pytest.raises(UserError, match="spent"):
        ledger(context).spend(mine, 100)
    other = changed(mine, run="other", epsilon=0.0, steps=10**5)
    further = ledger(context).spend(other, 100)  # no bound of the run's: its own holds, over both
    both = Event(site.chance, 2.0, steps), Event(site.chance, 2.0, further)
    assert poisson_gaussian(both, 1e-5) <= 1.0
    (tmp_path / "privacy-0.json").write_bytes(b"{}")
    with pytest.raises(UserError):
        ledger(context).left()
    with pytest.raises(UserError, match="lost its ledger"):
        ledger(InProcessGrid(CLIENT, NODES).contexts[1001]).spend(mine._replace(accepted=3), 100)


def test_a_failure_under_privacy_tells_nothing_of_rows(capsys: Any) -> None:
    def fails(context: Any) -> Shard:
        raise ValueError("patient Miller")

    grid = Tapped(jax_client(fails))
    with pytest.raises(UserError, match="None of 3 clients"):
        serve(grid, {**QUICK, "epsilon": 2.0, "patience": 0.1})
    assert grid.heard and all("Miller" not in message.error.reason for message in grid.heard)
    assert "Miller" in capsys.readouterr().err


@pytest.mark.parametrize("place", [0, 7])
def test_a_torch_row_that_cannot_be_read_is_not_told(place: int, capsys: Any) -> None:
    """The first row is read by the check before training, the others by steps."""
    torch = pytest.importorskip("torch")
    from torch.utils.data import DataLoader, Dataset

    class Rows(Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 20

        def __getitem__(self, item: int) -> Any:
            return torch.ones(3), int("Miller" if item == place else 1)

    grid = Tapped(torch_client(lambda: torch.nn.Linear(3, 2), lambda _: DataLoader(Rows(), batch_size=4)))
    with pytest.raises(UserError):
        serve(grid, {**QUICK, "epsilon": 2.0, "patience": 0.1})
    told = [message.error.reason if message.has_error() else str(message.content) for message in grid.heard]
    assert told and "Miller" not in "".join(told) and "Miller" in capsys.readouterr().err


def test_whole_clients_are_cut_and_the_sum_is_noised(tmp_path: Path) -> None:
    """One round by hand: what clients sent, cut to C, by their shares, over q; the rest is noise, as large
    as C max w z over q says. A round of nobody moves the model by noise alone."""
    grid = Tapped(CLIENT)
    given = {
        **QUICK,
        "privacy": "client",
        "noise": 0.5,
        "clip": 0.05,
        "rounds": 1,
        "out": str(tmp_path / "a"),
    }
    state, records = serve(grid, given, start=np.zeros(650, np.float32))
    deltas = np.array(grid.fields()["upload.delta"])
    norms = np.sqrt((deltas**2).sum(1))
    assert (norms > 0.05).all() and records[0].cohort == [0, 1, 2]
    shares = np.array([len(part) for part in PARTS]) / sum(map(len, PARTS))
    noise = state.anchor - ((shares * 0.05 / norms)[:, None] * deltas).sum(0)
    assert noise.std() == pytest.approx(0.5 * 0.05 * shares.max(), rel=0.15)
    assert records[0].epsilon == read_run(tmp_path / "a").rounds[0].epsilon
    assert records[0].epsilon[0] >= epsilon(Exposure(1.0, 0.5, 1e-5), 1)
    few = {**QUICK, "privacy": "client", "epsilon": 8.0, "clip": 0.05, "cohort": 1, "rounds": 4}
    state, records = serve(InProcessGrid(CLIENT, NODES), few, start=np.zeros(650, np.float32))
    assert len(records) == 4 and state.anchor.any()
    assert records[-1].epsilon[0] <= 8


@pytest.mark.slow
def test_a_real_federation_is_private_and_a_site_stops(tmp_path: Path) -> None:
    """SuperLink and SuperNodes, each with a budget of its own: one stops, and has little for a second run."""
    table = "step_seconds,latency,epsilon\n0.001,0,4\n0.001,0,4\n0.001,0,0.7\n"
    (tmp_path / "sites.csv").write_text(table)
    words = "--data digits --model softmax --clients 3 --partition quantity:1 --method fedavg --steps 5"
    more = "--batch 32 "
    more += "--rounds 4 --lr 0.5 --noise 3 --profile sites.csv --out run --json"

    def deployed(*extra: str) -> Any:
        command = [sys.executable, "-m", "amsfl", "deploy", *words.split(), *more.split(), *extra]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert not ended.returncode, ended.stdout + ended.stderr
        return json.loads(ended.stdout)

    summary = deployed()
    rounds = read_run(tmp_path / "run").rounds
    assert summary["metrics"]["holdout"]["accuracy"] > 0.2
    assert 0 < summary["steps"]["2"] < 20 == summary["steps"]["0"]
    assert summary["epsilon"]["2"] <= 0.7 and summary["epsilon"]["0"] <= 4
    assert 2 in rounds[0].cohort and 2 not in rounds[-1].cohort
    left = [leaf.name for leaf in leaves_of(tmp_path / "run")]
    assert "zeros" in left and "scores" not in left
    again = deployed("--force")
    assert again["steps"]["2"] < summary["steps"]["2"]
