"""What a site tells a server, and what not: its policy, its ledger, private rows, and a server that lies."""

import json
import math
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")
pytest.importorskip("dp_accounting", reason="dp-accounting is not installed: pip install 'amsfl[privacy]'")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from virtual_grid import arrays_of, stock_app

from amsfl import data, sampling
from amsfl.core import RowPrivacy, UserError
from amsfl.flower import (
    GradientTrainer,
    InProcessGrid,
    Shard,
    client_app,
    jax_client,
    serve,
    site_policy_mod,
    torch_client,
)
from amsfl.flower.client import FIELDS
from amsfl.flower.jax_trainer import NAME, JaxTrainer, program
from amsfl.flower.site_policy import SiteLedger, SitePolicy, read_policy
from amsfl.flower.site_policy import gradient as private_gradient
from amsfl.flower.trainer import Trainer
from amsfl.privacy import Exposure, epsilon, private_step
from amsfl.record import read_run, read_sealed

ROWS, SIZE = 40, 3
X = np.random.default_rng(0).normal(size=(ROWS, SIZE)).astype(np.float32)
ORDER: dict[str, Any] = {"local-steps": 2, "lr": 0.1, "server-round": 1, "batch-size": 8, "run": "run"}
TERMS = {"privacy": "record", "clip": 1.0, "noise": 2.0, "epsilon": 1.0, "delta": 1e-5}
TOLD = {"num-examples", "local-steps", "train-seconds", "epsilon"}  # all that leaves beside private arrays


class Rows(GradientTrainer):
    """A numpy site whose gradient of a row is x + the row; it counts how often rows are read."""

    rows, reads = ROWS, 0

    def load(self, arrays: Any, task: Any) -> None:
        super().load(arrays, task)
        if self.x.shape != (SIZE,):
            raise UserError(f"The model has {self.x.size} numbers, and {SIZE} are trained.")

    def gradient(self, x: Any, step: int) -> Any:
        Rows.reads += 1
        return 1.0, x + X[0]

    def check_rows(self) -> None:
        pass

    def row_sum(self, x: Any, places: Any, present: Any, private: Any) -> Any:
        Rows.reads += 1
        with np.errstate(all="ignore"):
            each = (x + X[places]).astype(np.float32)
            factors = private_step.row_factors(private, private_step.norms(each), present)
            return private_step.weighted_sum(factors, each)

    def evaluate(self) -> Any:
        Rows.reads += 1
        return {"loss": float(X.sum()), "num-examples": 1.0}


APP = client_app(lambda context: Rows())


def site(folder: Path | None, run: int = 7, **node: Any) -> Context:
    InProcessGrid(APP, [{}])  # Flower's messages ask which task is speaking
    kept = {"state-dir": str(folder)} if folder else {}
    return Context(run, 1000, {"partition-id": 0, **kept, **node}, RecordDict(), {})


def send(
    context: Context, fields: dict[str, Any], arrays: Any = None, kind: str = "train", app: Any = APP
) -> Any:
    content = RecordDict({"arrays": arrays or arrays_of(np.zeros(SIZE)), "config": ConfigRecord(fields)})
    return app(Message(content, 1000, kind), context).content


def counted(context: Context) -> int:
    return sum(entry.steps for entry in SiteLedger(context).read().values())


# -- policy --------------------------------------------------------------------------------------------------

OUTSIDE = {
    "steps": ({"local-steps": 11}, "most_steps = 10"),
    "rows": ({"batch-size": 100}, "most_rows = 64"),
    "clip": ({**TERMS, "clip": 50.0}, "clip = [0.1, 10.0]"),
    "noise": ({**TERMS, "noise": 0.1}, "least_noise = 0.5"),
    "delta": ({**TERMS, "delta": 0.5}, ""),
    "mechanism": ({}, "mechanisms = ['record']"),
    "epsilon of a run": ({**TERMS, "epsilon": 3.0}, "epsilon_run = 2.0"),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_an_order_outside_of_the_policy_is_refused_before_any_row_is_read(case: str, tmp_path: Path) -> None:
    fields, line = OUTSIDE[case]
    (tmp_path / "site.toml").write_text(line)
    context, Rows.reads = site(tmp_path), 0
    with pytest.raises(UserError, match=r"policy|private"):
        send(context, ORDER | fields)
    assert Rows.reads == 0 and counted(context) == 0


def test_a_site_stops_its_steps_by_itself_and_bounds_what_it_sends(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("most_seconds = 1e-9")
    assert send(site(tmp_path), ORDER | {"local-steps": 50})["metrics"]["local-steps"] == 1
    (tmp_path / "site.toml").write_text("most_megabytes = 1e-6")
    with pytest.raises(UserError, match="MB"):
        send(site(tmp_path), ORDER)


def test_any_client_app_is_held_to_a_policy_by_a_mod(tmp_path: Path) -> None:
    app, held = stock_app(lambda node, x, config: np.ones(SIZE)), ClientApp(mods=[site_policy_mod])
    held.train()(app._registered_funcs["train.default"])
    held.evaluate()(app._registered_funcs["evaluate.default"])
    (tmp_path / "site.toml").write_text("most_steps = 10\nscores = false")
    assert send(site(tmp_path), ORDER, app=held)["arrays"]["x"].numpy() == pytest.approx(np.ones(SIZE))
    with pytest.raises(UserError, match="local-steps"):
        send(site(tmp_path), ORDER | {"local-steps": 11}, app=held)
    with pytest.raises(UserError, match="scores"):
        send(site(tmp_path), {}, kind="evaluate", app=held)
    (tmp_path / "site.toml").write_text("mechanisms = ['record']")
    with pytest.raises(UserError, match="private"):  # it would not keep rows private, whatever the order says
        send(site(tmp_path), ORDER | TERMS, app=held)
    log = [json.loads(line) for line in (tmp_path / "orders-0.jsonl").read_text().splitlines()]
    assert [("refused" in line) for line in log] == [False, True, True, True]
    assert log[0]["order"]["local-steps"] == 2
    assert stat.S_IMODE((tmp_path / "orders-0.jsonl").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "line", ["most_stps = 3", "most_steps = -1", "clip = 3", "mechanisms = 'record'", "scores = 1", "x ="]
)
def test_a_policy_with_a_mistake_is_told(line: str, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(line)
    with pytest.raises(UserError):
        read_policy(tmp_path / "site.toml")
    assert SitePolicy().private is False


# -- the ledger ----------------------------------------------------------------------------------------------


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in (ORDER | TERMS).items() if key != name}


MALFORMED = {
    "a model of another size": (ORDER | TERMS, arrays_of(np.zeros(SIZE + 1))),
    "a model that is not finite": (ORDER | TERMS, arrays_of([np.nan, 0, 0])),
    "a correction of another size": (ORDER | TERMS | {"correction": b"\0" * 8}, None),
    "no steps": (without("local-steps"), None),
    "no clip": (without("clip"), None),
    "a mechanism that is not here": (ORDER | TERMS | {"privacy": "mine"}, None),
    "a batch of text": (ORDER | TERMS | {"batch-size": "8"}, None),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_order_costs_no_epsilon(case: str, tmp_path: Path) -> None:
    context, (fields, arrays) = site(tmp_path, epsilon=8.0), MALFORMED[case]
    for _ in range(3):
        with pytest.raises(UserError):
            send(context, fields, arrays)
    assert counted(context) == 0


def test_steps_are_counted_by_what_they_tell_over_runs_and_restarts(tmp_path: Path) -> None:
    chance = sampling.share(sampling.chance(8, ROWS))
    more = ORDER | TERMS | {"epsilon": 9.0}
    first = send(site(tmp_path), more)["metrics"]
    wanted = epsilon(Exposure(chance, 2.0, 1e-5), 2)
    assert {*first} == TOLD and first["epsilon"] == pytest.approx(wanted, rel=1e-6)
    send(site(tmp_path), more | {"server-round": 2})
    send(site(tmp_path, run=8), more | {"run": "other"})
    held = read_sealed(tmp_path / "privacy-0.json", "")
    assert {key: entry["steps"] for key, entry in held.items()} == {"7:run": 4, "8:other": 2}
    assert stat.S_IMODE((tmp_path / "privacy-0.json").stat().st_mode) == 0o600


def test_a_run_may_cost_no_more_than_its_epsilon_nor_a_site_more_than_its_own(tmp_path: Path) -> None:
    for own in ({}, {"epsilon": 0.9}):
        context, taken = site(tmp_path / str(len(own)), **own), 0
        with pytest.raises(UserError, match="privacy is spent"):
            for number in range(1, 300):
                taken += send(context, ORDER | TERMS | {"server-round": number})["metrics"]["local-steps"]
        step = Exposure(sampling.share(sampling.chance(8, ROWS)), 2.0, 1e-5)
        assert epsilon(step, taken) <= own.get("epsilon", 1.0) < epsilon(step, taken + 1)
        assert counted(context) == taken


def test_a_site_finds_the_noise_with_which_epsilon_lasts(tmp_path: Path) -> None:
    fields = ORDER | TERMS | {"noise": 0.0, "privacy-steps": 30, "local-steps": 10}
    context = site(tmp_path)
    for number in (1, 2, 3):
        assert send(context, fields | {"server-round": number})["metrics"]["local-steps"] == 10
    (entry,) = SiteLedger(context).read().values()
    assert entry.noise > 0.3 and epsilon(Exposure(entry.chance, entry.noise, 1e-5), 30) <= 1.0
    with pytest.raises(UserError, match="privacy-steps"):
        send(site(tmp_path / "other"), ORDER | TERMS | {"noise": 0.0})


def test_terms_of_a_run_do_not_change_and_a_lost_ledger_is_no_empty_one(tmp_path: Path) -> None:
    context = site(tmp_path)
    send(context, ORDER | TERMS)
    for other in ({"noise": 1.0}, {"epsilon": 2.0}, {"delta": 1e-6}, {"batch-size": 16}):
        with pytest.raises(UserError, match="settled by its first order"):
            send(context, ORDER | TERMS | other)
    with pytest.raises(UserError, match="lost its ledger"):
        send(site(tmp_path / "new"), ORDER | TERMS | {"privacy-begun": True})
    (tmp_path / "privacy-0.json").write_text("{}")
    with pytest.raises(Exception, match="nobody knows any more"):
        send(context, ORDER | TERMS)


def test_after_private_steps_nothing_raw_leaves(tmp_path: Path) -> None:
    context = site(tmp_path)
    send(context, ORDER | TERMS)
    for fields, kind in ((ORDER | {"run": "x"}, "train"), ({}, "evaluate")):
        with pytest.raises(UserError, match="private"):
            send(context, fields, kind=kind)


def test_a_failure_under_privacy_tells_nothing_of_rows(tmp_path: Path, capsys: Any) -> None:
    class Leaks(Rows):
        def row_sum(self, *given: Any) -> Any:
            raise ValueError(f"row {X[0]}")

    with pytest.raises(UserError) as told:
        send(site(tmp_path), ORDER | TERMS, app=client_app(lambda context: Leaks()))
    assert "row" in capsys.readouterr().err and str(X[0][0])[:5] not in str(told.value)


ODD = [0, -1, 1, 1e-38, 1e300, -0.0, math.nan, math.inf, 2**31, 2**62, True, b"", "none", "../x", ""]
NAMES = st.sampled_from([*FIELDS, "correction"])
NUMBERS = st.one_of(st.sampled_from(ODD), st.floats(allow_nan=True), st.integers(-(2**62), 2**62))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(fields=st.dictionaries(NAMES, NUMBERS, min_size=1, max_size=3), number=NUMBERS)
def test_whatever_a_server_orders_nothing_leaves_that_is_not_counted(
    fields: dict[str, Any], number: Any, tmp_path_factory: Any
) -> None:
    """A site with an epsilon of 1: what it replied was private, finite, listed and within its epsilon."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "site.toml").write_text("mechanisms = ['record']\nepsilon = 1.0\nmost_seconds = 2")
    context = site(folder)
    fits = isinstance(number, int | float) and abs(number) < 1e38
    anchor = np.full(SIZE, number if fits else 0, np.float32)
    for _ in range(2):
        try:
            reply = send(context, ORDER | TERMS | fields, arrays_of(anchor))
        except UserError:
            continue
        assert {*reply["metrics"]} == TOLD and counted(context) >= reply["metrics"]["local-steps"]
    assert SiteLedger(context).spent(SiteLedger(context).read()) <= 1.0


# -- private steps -------------------------------------------------------------------------------------------

DIGITS = data.load("digits")
PARTS = data.partition("quantity:1", DIGITS.y, 3, 0)
NODES = [{"partition-id": place} for place in range(3)]
PRIVATE = RowPrivacy(0.1)


def shard(context: Any) -> Shard:
    rows = PARTS[int(context.node_config["partition-id"])]
    return Shard(DIGITS.x[rows], DIGITS.y[rows], 10, "softmax")


def torch_app(**more: Any) -> Any:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'amsfl[torch]'")
    from torch.utils.data import DataLoader, TensorDataset

    def loader(context: Any) -> Any:
        rows = PARTS[int(context.node_config["partition-id"])]
        parts = torch.from_numpy(DIGITS.x[rows]), torch.from_numpy(DIGITS.y[rows].astype(np.int64))
        return DataLoader(TensorDataset(*parts), batch_size=16)

    return torch_client(more.pop("model", lambda: torch.nn.Linear(64, 10)), loader, **more)


def made(app: Any, monkeypatch: pytest.MonkeyPatch, arrays: Any) -> Any:
    """The trainer of a torch app's site 1 with that model, caught where it is asked about its rows."""
    from amsfl.flower.torch_trainer import TorchTrainer

    caught: list[Any] = []
    monkeypatch.setattr(TorchTrainer, "check_rows", lambda trainer: caught.append(trainer))
    grid = InProcessGrid(app, [{"partition-id": 1}])
    fields = ConfigRecord(ORDER | TERMS | {"batch-size": 2000, "noise": 100.0, "epsilon": 0.0})
    grid.send_and_receive([Message(RecordDict({"arrays": arrays, "config": fields}), 1000, "train")])
    return caught[0]


def test_clients_cut_every_row_as_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows are in (the batch is larger) and there is no noise. Softmax regression: a row's gradient is (p
    - e_y) a', cut to a norm of 0.1; jax and torch give the mean of the cut ones."""
    rows, x = PARTS[1], np.linspace(-0.1, 0.1, 650, dtype=np.float32)
    weight, bias = x[:640].reshape(10, 64).astype(float), x[640:].astype(float)
    logits = DIGITS.x[rows] @ weight.T + bias
    p = np.exp(logits - logits.max(1, keepdims=True))
    d = p / p.sum(1, keepdims=True) - np.eye(10)[DIGITS.y[rows]]
    each = np.concatenate([(d[:, :, None] * DIGITS.x[rows][:, None, :]).reshape(len(rows), -1), d], axis=1)
    norms = np.sqrt((each**2).sum(1))
    want = (each * np.minimum(1, 0.1 / norms)[:, None]).sum(0) / len(rows)
    assert (norms > 0.1).any()
    ours = JaxTrainer(shard(site(None, **{"partition-id": 1})))
    ours.program, ours.batch = program("softmax", 64, 10), 2000
    np.testing.assert_allclose(private_gradient(ours, PRIVATE, 0.0, 2000, x), want, atol=1e-6)
    by_name = {"weight": Array(weight.astype(np.float32)), "bias": Array(bias.astype(np.float32))}
    theirs = made(torch_app(), monkeypatch, ArrayRecord(by_name))
    np.testing.assert_allclose(private_gradient(theirs, PRIVATE, 0.0, 2000, x), want, atol=1e-6)


def test_noise_is_as_large_as_ordered_and_nobodys_seed() -> None:
    ours = JaxTrainer(shard(site(None, **{"partition-id": 1})))
    ours.program, ours.batch, x = program("softmax", 64, 10), 2000, np.zeros(650, np.float32)
    still = private_gradient(ours, PRIVATE, 0.0, 2000, x)
    moved = np.concatenate([private_gradient(ours, PRIVATE, 3.0, 2000, x) - still for _ in range(8)])
    moved *= ours.rows / (3.0 * 0.1)
    assert moved.std() == pytest.approx(1, abs=0.05) and abs(moved.mean()) < 0.07
    assert len({*moved.tolist()}) > 5000
    drawn = np.concatenate([private_step.chosen(int(sampling.chance(10, 100)), 100) for _ in range(2000)])
    assert np.bincount(drawn, minlength=100).mean() == pytest.approx(200, abs=5)


class NoRows(Rows):
    check_rows = Trainer.check_rows


def normed() -> Any:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'amsfl[torch]'")
    return torch.nn.Sequential(torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 10))


CANNOT = {
    "an optimizer": (lambda: torch_app(optimizer=lambda parameters, lr: None), None, "optimizer"),
    "BatchNorm": (lambda: torch_app(model=normed), normed, "GroupNorm"),
    "no rows of its own": (lambda: client_app(lambda context: NoRows()), "ours", "row by row"),
}


def test_a_model_of_another_size_costs_no_epsilon_whatever_trains(tmp_path: Path) -> None:
    """Fourteen of them took a site's 8.0 to 0.008."""
    context, wrong = site(tmp_path), {NAME: Array(np.zeros(651, np.float32))}
    wrong |= {"weight": Array(np.zeros((10, 65), np.float32)), "bias": Array(np.zeros(10, np.float32))}
    for app, names in ((jax_client(shard), [NAME]), (torch_app(), ["weight", "bias"])):
        with pytest.raises(UserError, match="this client's"):
            send(context, ORDER | TERMS, ArrayRecord({name: wrong[name] for name in names}), app=app)
    assert counted(context) == 0


@pytest.mark.parametrize("case", CANNOT)
def test_a_client_that_cannot_clip_rows_says_so_and_spends_nothing(case: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'amsfl[torch]'")
    from amsfl.flower import torch_arrays

    make, model, word = CANNOT[case]
    module = model() if callable(model) else torch.nn.Linear(64, 10)
    arrays = arrays_of(np.zeros(SIZE)) if model == "ours" else torch_arrays(module)
    context = site(tmp_path)
    with pytest.raises(UserError, match=word):
        send(context, ORDER | TERMS, arrays, app=make())
    assert counted(context) == 0


def test_a_private_federation_counts_stops_a_site_and_goes_on_where_it_was(tmp_path: Path) -> None:
    """Epsilon on record is dp-accounting's for the steps that were run; a site with less sits out."""
    nodes = [node | {"state-dir": str(tmp_path / "sites")} for node in NODES]
    nodes[2] |= {"epsilon": 0.8}
    given = {"clients": 3, "batch": 32, "lr": 0.5, "method": "fedavg", "steps": 4, "rounds": 4}
    given |= {"epsilon": 4.0, "noise": 3.0, "out": str(tmp_path / "run")}
    grid, start = InProcessGrid(jax_client(shard), nodes), np.zeros(650, np.float32)
    result = serve(grid, given, start, watch=lambda record: None)
    found = read_run(tmp_path / "run")
    assert len(found.rounds[0].cohort) == 3 and len(found.rounds) == 4
    assert np.isfinite(result.arrays[NAME].numpy()).all() and found.summary is not None
    sites = {key: read_sealed(tmp_path / "sites" / f"privacy-{key}.json", "") for key in range(3)}
    for place, node in enumerate((1000, 1001, 1002)):
        (entry,) = sites[place].values()
        assert entry["steps"] == found.summary.steps[str(node)]
        site_ = Exposure(sampling.share(sampling.chance(32, len(PARTS[place]))), 3.0, 1e-5)
        assert found.summary.epsilon[str(node)] >= epsilon(site_, entry["steps"]) * 0.999
    longer = {"rounds": 6, "out": given["out"], "resume": True}
    serve(grid, longer, start, watch=lambda record: None)
    after = read_sealed(tmp_path / "sites" / "privacy-0.json", "")
    assert sum(entry["steps"] for entry in after.values()) == 24
