"""The parts: records on the wire, measured costs, the norm check, certificates, PyTorch clients."""

import re
import ssl
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from amsfl.drift import take_reading
from flwr.app import Context, RecordDict

from amsfl import methods, protocol
from amsfl.core import Reading, UserError
from amsfl.flower import messages, serve
from amsfl.flower.client import client_state
from amsfl.flower.client.app import method_of
from amsfl.flower.deploy import certificates
from amsfl.flower.deploy.recipe import DeploySettings, forget_clients, recall, remember
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.server import clients, costs, reply_checks
from amsfl.flower.server.app import merged

ROOT = Path(__file__).parents[2]
ORDER = messages.Order("run", 3, 2, 1, 7, 60.0, 0.05, True, 16, 11, "fedprox", {"mu": 0.25}, "", True)


def bits(count: int) -> Any:
    return np.random.default_rng(count).normal(size=count).astype(np.float32)


def test_orders_and_replies_survive_the_wire() -> None:
    buffers = {"bn.mean": bits(4), "bn.count": np.array(3, np.int64)}
    model = messages.GlobalModel(bits(9), bits(9)[:0], bits(9), buffers)
    content = messages.pack_order(ORDER, model)
    order, arrived = messages.unpack_order(content)
    assert order == ORDER and method_of(order, ()).name == "fedprox"
    for mine, theirs in zip(model[:3], arrived[:3], strict=True):
        np.testing.assert_array_equal(mine, theirs)
    count = arrived.buffers["bn.count"]
    assert count == 3 and count.dtype == np.int64 and count.shape == ()
    parts = {"delta": bits(9), "extra": bits(9)[:0]}
    reply = messages.Reply("run", 3, 1, parts, buffers, Reading(*range(14)), 7, 100, 0.25, 2.5, False)
    back = messages.unpack_reply(messages.pack_reply(reply))
    assert back.reading == reply.reading and back[6:] == reply[6:]
    assert set(back.parts) == {"delta"} and "server" not in content["model"]  # nothing empty travels
    upload = protocol.decode(None, parts | back.parts)
    assert upload.delta_sq == pytest.approx(float(bits(9) @ bits(9)), rel=1e-6)


def test_every_message_has_its_own_records() -> None:
    """Flower does not copy: with one shared RecordDict every client would get the last one's steps."""
    model = messages.GlobalModel(bits(3), bits(3)[:0], bits(3)[:0], {})
    first, second = messages.pack_orders([ORDER._replace(steps=steps) for steps in (1, 2)], model)
    assert first is not second and first["order"] is not second["order"]
    assert messages.unpack_order(first)[0].steps == 1
    assert first["model"] is second["model"]  # a hundred clients, one copy of the model


def test_without_a_direction_nothing_lies_along_it() -> None:
    """Servers send the last global step only where a planner asks for readings."""
    taken = take_reading(0.5, *map(np.array, ([3.0, 4.0], [1.0, 4.0], [-1.0, 0.0])), np.zeros(0))
    assert taken == Reading(0.5, 25, 4, 1, -6, -3, 0, 0, 0, 0.5, 1, 0, 0, 0)


@given(
    st.floats(0.001, 0.5),
    st.floats(0.1, 20),
    st.lists(st.floats(0, 3), min_size=5, max_size=5),
    st.integers(1, 50),
)
def test_costs_take_out_luck_and_one_bad_round(
    step: float, own: float, waits: list[float], steps: int
) -> None:
    """Two clients that differ only in `own` seconds; every reply waits a while, one measurement is mad."""
    measured = costs.start(3)
    for wait in waits:
        for who, rest in ((0, own), (1, 2 * own)):
            elapsed = steps * step + rest + wait + 0.1
            measured = costs.observe(measured, who, costs.ReplyTimes(steps, step, elapsed), poll=0.2)
    odd = costs.ReplyTimes(steps, 1000 * step, 1000 * (step * steps + own))
    measured = costs.observe(measured, 0, odd, poll=0.2)
    found = costs.costs(measured)
    np.testing.assert_allclose(found.step_seconds[:2], step)
    # the same waits for both: what is left of the difference is the clients' own
    recent = waits[1:], waits
    low = [min(each) for each in recent]
    difference = found.comm_seconds[1] - found.comm_seconds[0]
    assert difference == pytest.approx(own + low[1] - low[0], abs=1e-6)
    assert found.step_seconds[2] == pytest.approx(step)  # never measured: the others' median


def test_costs_before_anything_was_measured_are_usable() -> None:
    found = costs.costs(costs.start(2))
    assert (found.step_seconds > 0).all() and (found.comm_seconds > 0).all()


def test_the_bound_is_a_multiple_of_the_usual() -> None:
    assert reply_checks.size(2 * bits(8), 0.1, 4) == pytest.approx(reply_checks.size(bits(8), 0.1, 1))
    assert reply_checks.too_large(9.9, 1.0, 10) is None
    assert "more than 10 times the usual 1" in str(reply_checks.too_large(10.1, 1.0, 10))
    assert reply_checks.size(bits(8), None, 4) == pytest.approx(np.linalg.norm(bits(8)) / 2)


def test_seats_are_in_order_of_numbers_and_kept_by_name() -> None:
    hello = {node: messages.Hello(name, 10, bits(0), {}) for node, name in ((7, "10"), (5, "2"), (6, "0"))}
    seats = clients.registered_clients(hello)
    assert [seat.name for seat in seats] == ["0", "2", "10"]
    assert clients.index_of(seats, "10") == 2 and clients.index_of(seats, "3") is None
    assert clients.draw(seats, {5, 6}, None, 0, 0).tolist() == [0, 1]
    for number in range(20):  # somebody away is replaced, so that two always work
        assert len(clients.draw(seats, {5, 6}, 2, 0, number)) == 2


@pytest.mark.parametrize("keep", ["context", "file"])
def test_client_state_settles_on_what_the_server_accepted(keep: str, tmp_path: Path) -> None:
    config = {"state-dir": str(tmp_path)} if keep == "file" else {}

    def context() -> Context:
        return Context(1, 1, dict(config), RecordDict(), {})

    fresh, first, second = np.zeros(3, np.float32), np.ones(3, np.float32), np.full(3, 2, np.float32)
    here = context()
    order = ORDER._replace(accepted=-1, round=0)
    assert (
        client_state.settle(client_state.load(here, order), order, fresh)[1] is False
    )  # nothing was promised yet
    client_state.save(here, order, fresh, first)
    taken = ORDER._replace(accepted=0, round=1)
    here = context() if keep == "file" else here  # a new Flower run: only the file is left
    mine, lost = client_state.settle(client_state.load(here, taken), taken, fresh)
    assert not lost and (mine == first).all()
    client_state.save(here, taken, mine, second)
    refused = ORDER._replace(accepted=0, round=2)  # the server never took round 1
    mine, lost = client_state.settle(client_state.load(here, refused), refused, fresh)
    assert not lost and (mine == first).all()
    elsewhere = ORDER._replace(accepted=0, round=2, run="another")
    mine, lost = client_state.settle(client_state.load(here, elsewhere), elsewhere, fresh)
    assert lost and (mine == fresh).all()


def test_client_states_of_servers_that_take_turns_in_a_flower_run_are_kept(tmp_path: Path) -> None:
    here = Context(1, 1, {"state-dir": str(tmp_path)}, RecordDict(), {})
    state = {"one": np.ones(3, np.float32), "two": np.full(3, 2, np.float32)}
    for run, after in state.items():
        client_state.save(here, ORDER._replace(run=run, accepted=-1, round=0), after[:0], after)
    for run, after in state.items():
        next_order = ORDER._replace(run=run, accepted=0, round=1)
        mine, lost = client_state.settle(client_state.load(here, next_order), next_order, after * 0)
        assert not lost and (mine == after).all()


def test_run_config_wins_and_strange_keys_are_left_alone() -> None:
    found = merged({"method": "fedavg", "clients": 4}, {"method": "fedprox", "options.mu": 0.5, "my-key": 1})
    assert found["method"] == "fedprox" and found["options"] == {"mu": 0.5} and found["clients"] == 4
    assert "my_key" not in found


def test_resume_needs_a_folder() -> None:
    with pytest.raises(UserError, match="out=FOLDER"):
        serve(None, {"resume": True})  # type: ignore[arg-type]


def test_certificates_are_good_for_their_hosts(tmp_path: Path) -> None:
    keys = certificates.make(tmp_path / "keys", 2, ["superlink.example.org", "10.0.0.7"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys.certificate, keys.key)
    assert ssl.create_default_context(cafile=str(keys.ca)).cert_store_stats()["x509_ca"] == 1
    assert keys.key.stat().st_mode & 0o077 == 0
    for node in keys.nodes:
        assert node.stat().st_mode & 0o077 == 0
        assert node.with_suffix(".pub").read_text().startswith("ecdsa-sha2-nistp384 ")


# -- PyTorch -------------------------------------------------------------------------------------------


def torch_block(path: Path) -> str | None:
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    return next((block for block in blocks if "torch_client(" in block), None)


@pytest.mark.parametrize("page", ["docs/flower.md", "README.md"])
def test_the_pages_pytorch_client_is_short_and_learns(page: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'amsfl[torch]'")
    torch.set_num_threads(1)
    block = torch_block(ROOT / page)
    if block is None:
        assert page == "README.md", "docs/flower.md must show a PyTorch client"
        pytest.skip("the README shows none")
    assert len([line for line in block.splitlines() if line.strip()]) <= 15
    names: dict[str, Any] = {}
    exec(compile(block, page, "exec"), names)
    grid = InProcessGrid(names["app"], [{"partition-id": place} for place in range(3)])
    settings = {"method": "amsfl", "clients": 3, "rounds": 4, "poll": 0.001, "patience": 20.0}
    settings |= {"policy": "fixed", "steps": 20}  # a plan would go by how fast this machine is
    state, records = serve(grid, settings)
    first, last = (np.mean(record.readings["loss"]) for record in (records[0], records[-1]))
    assert state.status == "finished" and last < 0.7 * first


def torch_app(norm: bool) -> Any:
    import torch

    from amsfl.flower import torch_client

    torch.set_num_threads(1)
    x, y = torch.from_numpy(bits(120).reshape(30, 4)), torch.arange(30) % 3

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(4) if norm else torch.nn.Identity()
            self.drop = torch.nn.Dropout(0.5 if norm else 0.0)
            self.frozen = torch.nn.Linear(4, 4)
            self.frozen.requires_grad_(False)
            self.head = torch.nn.Linear(4, 3)

        def forward(self, rows: Any) -> Any:
            return self.head(self.drop(self.frozen(self.norm(rows))))

    def loader(context: Any) -> Any:
        part = slice(10 * context.node_config["partition-id"], 10 * context.node_config["partition-id"] + 10)
        rows = torch.utils.data.TensorDataset(x[part], y[part])
        return torch.utils.data.DataLoader(rows, batch_size=10, shuffle=True)

    return torch_client(Net, loader, test_loader=loader), Net, x, y


def test_batchnorm_buffers_travel_and_frozen_tensors_stay() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'amsfl[torch]'")
    app, Net, x, _ = torch_app(norm=True)
    grid = InProcessGrid(app, [{"partition-id": place} for place in range(3)])
    settings = {"method": "amsfl", "clients": 3, "rounds": 2, "poll": 0.001, "held_back": 0.0}
    state, records = serve(grid, {**settings, "evaluate_clients": 1, "patience": 20.0})
    trained = sum(p.numel() for p in Net().parameters() if p.requires_grad)
    assert state.anchor.size == trained == 4 + 4 + 4 * 3 + 3
    steps = [max(record.steps) for record in records]
    # the count of batches is the steps of whoever took most; the reading's extra one is not in it
    assert int(state.buffers["norm.num_batches_tracked"]) == sum(steps)
    means = torch.stack([x[10 * place : 10 * place + 10].mean(0) for place in range(3)])
    if len({tuple(record.steps) for record in records}) == 1 and len(set(records[0].steps)) == 1:
        kept = 0.9 ** sum(steps)  # running mean after n equal batches: (1 - 0.9^n) of their mean
        np.testing.assert_allclose(state.buffers["norm.running_mean"], (1 - kept) * means.mean(0), atol=1e-5)
    assert records[-1].metrics["clients"]["rows"] == 30


@pytest.mark.parametrize("name", [name for name in methods.METHODS.table if name != "fedcsda"])
def test_torch_and_numpy_clients_agree_for_every_method(name: str) -> None:
    """Full-batch softmax regression, once through autograd and once by hand."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'amsfl[torch]'")
    from amsfl.flower import NumpyTrainer, numpy_client

    app, Net, x, y = torch_app(norm=False)
    torch.manual_seed(0)
    net = Net()
    features = net.frozen(x).detach().numpy()

    def make(context: Any) -> NumpyTrainer:
        part = slice(10 * context.node_config["partition-id"], 10 * context.node_config["partition-id"] + 10)
        a, labels = features[part], y[part].numpy()

        def gradient(flat: Any, step: int, order: Any) -> Any:
            z = a @ flat[:12].reshape(3, 4).T + flat[12:]
            p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
            loss = -np.log(p[np.arange(10), labels]).mean()
            p[np.arange(10), labels] -= 1
            return loss, np.concatenate([(p.T @ a / 10).ravel(), p.mean(0)])

        return NumpyTrainer(10, np.zeros(15, np.float32), gradient)

    from amsfl import drift
    from amsfl.planning.planner import Decision, Planner, PlannerMemory

    nothing = PlannerMemory(drift.Rate(), drift.start(0))

    steps = np.array([[3, 1, 2], [1, 4, 2]])

    def planner(weights: Any) -> Planner:
        def decide(memory: Any, number: int, cohort: Any, prices: Any) -> Decision:
            return Decision(steps[number][cohort], 0.2, 1.0, {})

        return Planner(lambda: nothing, decide, lambda memory, *_: memory)

    nodes = [{"partition-id": place} for place in range(3)]
    settings = {"method": name, "clients": 3, "rounds": 2, "poll": 0.001, "patience": 20.0}
    settings |= {"held_back": 0.0}  # only the torch client would
    start = np.zeros(15, np.float32)
    apps = (app, numpy_client(make))
    ends = [serve(InProcessGrid(each, nodes), settings, None, start, planner)[0] for each in apps]
    np.testing.assert_allclose(ends[0].anchor, ends[1].anchor, rtol=2e-4, atol=2e-6)


def test_a_resumed_deployment_is_the_one_that_began(tmp_path: Path) -> None:
    """Only how long it runs may change; the rest comes from the folder."""
    begun = DeploySettings({"clients": 3, "data": "digits", "rounds": 4}, [1.0, 2.0, 4.0], 0.1, True)
    # a start that replaced another run, and what clients kept of it, does not do so again
    remember(tmp_path / "run", begun._replace(settings={**begun.settings, "force": True}))
    asked = DeploySettings({"clients": 5, "rounds": 9, "target": None, "resume": True}, [], 0.0, False)
    found = recall(tmp_path / "run", asked)
    settings = {"clients": 3, "data": "digits", "rounds": 9, "resume": True}
    assert found == begun._replace(settings=settings)
    with pytest.raises(UserError, match="no deployment to go on with"):
        recall(tmp_path / "nothing", asked)


@pytest.mark.parametrize("deployed, policy", [(True, []), (False, []), (True, ["site.toml"])])
def test_a_deployment_that_is_replaced_takes_its_clients_state_along(
    deployed: bool, policy: list[str], tmp_path: Path
) -> None:
    """Not where no deployment was, nor where somebody has a policy for the sites; other files stay."""
    if deployed:
        remember(tmp_path, DeploySettings({"clients": 1}, [], 0.0, False))
    (tmp_path / "clients").mkdir()
    names = ["privacy-0.json", "privacy-0.lock", "run-0.safetensors", "orders-0.jsonl", "mine.csv"]
    for name in names + policy:
        (tmp_path / "clients" / name).write_text("")
    forget_clients(tmp_path)
    left = {path.name for path in (tmp_path / "clients").iterdir()}
    assert left == ({"mine.csv"} if deployed and not policy else {*names, *policy})
