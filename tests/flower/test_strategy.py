"""AMSFL as a Strategy around Flower's, with clients as its quickstart has them, on a clock of their own."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from flwr.app import ConfigRecord, Context, MetricRecord, RecordDict
from flwr.client import mod as old_mods
from flwr.clientapp import mod
from flwr.server import LegacyContext, ServerConfig
from flwr.server.workflow.default_workflows import default_init_params_workflow
from flwr.serverapp import strategy as flower
from virtual_grid import PLAIN, VirtualGrid, arrays_of, steps_of, stock_app

from amsfl.core import UserError
from amsfl.core.algorithm import NUMBERS
from amsfl.flower import AMSFL, FedDyn, InProcessGrid, RoundGrid, Scaffold
from amsfl.flower.nodes import Nodes
from amsfl.flower.strategy import MOST_METRICS, Sent, read
from amsfl.planning import policy
from amsfl.record import read_run

TARGETS = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0], [-1.0, 1.0]])  # node i pulls towards its own


def pull(node: int, x: Any, config: dict[str, Any], targets: Any = TARGETS) -> Any:
    """Gradient steps on half the squared distance to the node's own target."""
    return (1 - (1 - config["lr"]) ** config["local-steps"]) * (targets[node] - x)


def at_speeds(*speeds: float, rest: float = 0.5) -> Any:
    return lambda i, message: speeds[i] * steps_of(message) + rest * bool(steps_of(message))


def start(
    strategy: Any, app: Any = None, rounds: int = 6, seconds: Any = None, nodes: int = 4, **grid: Any
) -> Any:
    made = VirtualGrid(app or stock_app(pull), nodes, seconds or at_speeds(0.1, 0.1, 0.1, 0.1))
    rounds_of = RoundGrid(made, **{"poll": 0.01} | grid)
    made.result = strategy.start(rounds_of, arrays_of(np.zeros(2)), num_rounds=rounds)
    return made


def model(grid: Any) -> Any:
    return grid.result.arrays["x"].numpy()


# -- the algorithm -------------------------------------------------------------------------------------------


def test_with_every_part_off_it_is_fedavg_to_the_bit() -> None:
    app = stock_app(pull, rows=lambda i, x, config: 10 * (i + 1))
    ours = start(AMSFL(steps=3, lr=0.1, **PLAIN), app)
    theirs = flower.FedAvg()
    grid = InProcessGrid(app, [{"partition-id": i} for i in range(4)])
    config = ConfigRecord({"local-steps": 3, "lr": 0.1})
    wanted = theirs.start(grid, arrays_of(np.zeros(2)), num_rounds=6, train_config=config)
    assert model(ours) == pytest.approx(wanted.arrays["x"].numpy(), abs=1e-6)


def test_a_round_is_the_page() -> None:
    """Two nodes of equal rows, 1 and 4 steps: u_i = p_i t_i^-1/2 sum_j p_j t_j^1/2 = 3/4 and 3/8. With
    constant changes d = (1, 0) and (0, 1) the model moves by v = (3/4, 3/8) a round, and clients begin m v
    beyond it."""
    sent: list[Any] = []

    def change(node: int, x: Any, config: dict[str, Any]) -> Any:
        if node == 0:
            sent.append(x)
        return np.eye(2)[node]

    app = stock_app(change, **{"local-steps": lambda i, x, config: (1, 4)[i]})
    strategy = AMSFL(steps=4, judge=False)
    grid = start(strategy, app, rounds=3, nodes=2)
    v = np.array([0.75, 0.375])
    x1, a1 = v, v + 0.25 * v  # m = q/(q+3): 1/4, then 2/5
    x2 = a1 + v
    a2 = x2 + 0.4 * (x2 - x1)
    assert np.array(sent) == pytest.approx(np.array([np.zeros(2), a1, a2]), abs=1e-6)
    assert model(grid) == pytest.approx(a2 + v, abs=1e-6)  # what is delivered is x


def test_the_rate_falls_over_the_run_to_a_tenth() -> None:
    strategy = AMSFL(lr=0.5, judge=False)
    start(strategy, rounds=20)
    rates = [each["lr"] for each in strategy.log]
    assert rates[0] == 0.5 and rates[10] == pytest.approx(0.25) and rates[-1] == pytest.approx(0.05)


def test_steps_follow_speed_told_or_seen() -> None:
    """Told seconds a step, or a line through rounds' seconds: who is eight times slower gets fewer."""
    said = {"train-seconds": lambda i, x, c: (0.1, 0.1, 0.2, 0.8)[i] * c["local-steps"]}
    told = stock_app(pull, rows=3200, **said)
    for app, near in ((told, 0.01), (stock_app(pull, rows=3200), 0.3)):
        strategy = AMSFL(lr=0.05)
        start(strategy, app, rounds=8, seconds=at_speeds(0.1, 0.1, 0.2, 0.8))
        steps = [strategy.log[-1]["steps"][node] for node in (1000, 1001, 1002, 1003)]
        seconds = [strategy.nodes.each[node].step_seconds for node in (1000, 1003)]
        assert seconds == pytest.approx([0.1, 0.8], rel=near)
        assert steps[0] == steps[1] > steps[2] > steps[3] >= 1


def test_passes_over_few_rows_are_bounded() -> None:
    strategy, fast = AMSFL(lr=0.05), at_speeds(0.001, 0.001, 0.001, 0.001, rest=9.0)
    start(strategy, stock_app(pull, rows=48), rounds=4, seconds=fast)
    assert set(strategy.log[-1]["steps"].values()) == {3}  # 2 passes of 48 rows by batches of 32


def test_the_first_round_s_warm_up_is_no_speed() -> None:
    def seconds(i: int, message: Any) -> float:
        first = steps_of(message) and message.content["config"]["server-round"] == 1
        return (30.0 if first else 0.1) * steps_of(message)

    strategy = AMSFL(lr=0.05)
    start(strategy, rounds=4, seconds=seconds)
    assert strategy.nodes.each[1000].step_seconds < 0.15


def losses(values: list[float]) -> Any:
    """Held-back losses by round, a little different from node to node."""
    return lambda i, x, config: values[min(config["server-round"] - 1, len(values) - 1)] + 0.001 * i


def test_the_judge_goes_back_to_the_best_anchor() -> None:
    app = stock_app(pull, **{"held-loss": losses([1.0, 0.9, 0.8, 2.0, 2.0, 0.7])})
    strategy = AMSFL(lr=0.1, cooling=False)
    start(strategy, app, rounds=6)
    verdicts = [each["verdict"] for each in strategy.log]
    assert verdicts == ["better", "better", "better", "none", "back", "better"]
    assert strategy.log[5]["lr"] == pytest.approx(0.1 * NUMBERS.halved)
    best, again = strategy.sent["3"].anchor, strategy.sent["6"].anchor
    assert (best["x"].numpy() == again["x"].numpy()).all()


def test_arrays_that_are_not_finite_are_left_at_once() -> None:
    class Breaks(flower.FedAvg):
        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            arrays, metrics = super().aggregate_train(server_round, replies)
            return (arrays_of([np.inf, 0]) if server_round == 3 else arrays), metrics

    strategy = AMSFL(Breaks(), lr=0.1, cooling=False)
    grid = start(strategy, rounds=4)
    assert strategy.log[2]["verdict"] == "back" and np.isfinite(model(grid)).all()


def test_without_held_losses_nobody_judges() -> None:
    strategy = AMSFL(lr=0.1)
    start(strategy, rounds=3)
    assert [each.get("held_loss") for each in strategy.log] == [None] * 3


# -- what composes -------------------------------------------------------------------------------------------

FIXED, ADAPTIVE = (0.1, 1.0, 4), (0.1, 4)  # noise, norm, nodes; noise, nodes
COMPOSES: dict[str, Any] = {
    "FedAvg": lambda: AMSFL(flower.FedAvg()),
    "FedProx": lambda: AMSFL(flower.FedProx(proximal_mu=0.1)),
    "FedMedian": lambda: AMSFL(flower.FedMedian()),
    "FedTrimmedAvg": lambda: AMSFL(flower.FedTrimmedAvg(beta=0.25)),
    "Krum": lambda: AMSFL(flower.Krum(num_malicious_nodes=1)),
    "MultiKrum": lambda: AMSFL(flower.MultiKrum(num_malicious_nodes=1, num_nodes_to_select=2)),
    "Bulyan": lambda: AMSFL(flower.Bulyan(num_malicious_nodes=0)),
    "FedAvgM": lambda: AMSFL(flower.FedAvgM(server_momentum=0.9), momentum=0),
    "FedAdam": lambda: AMSFL(flower.FedAdam(), momentum=0),
    "FedYogi": lambda: AMSFL(flower.FedYogi(), momentum=0),
    "FedAdagrad": lambda: AMSFL(flower.FedAdagrad()),
    "Scaffold": lambda: Scaffold(AMSFL()),
    "FedDyn": lambda: FedDyn(AMSFL(momentum=0)),
}
PRIVATE = {
    f"DifferentialPrivacy{name}Clipping": (getattr(flower, f"DifferentialPrivacy{name}Clipping"), numbers)
    for side in ("ServerSide", "ClientSide")
    for name, numbers in ((f"{side}Fixed", FIXED), (f"{side}Adaptive", ADAPTIVE))
}
MODS = {"fixedclipping_mod": "ClientSideFixed", "adaptiveclipping_mod": "ClientSideAdaptive"}
for name, (kind, numbers) in PRIVATE.items():
    COMPOSES[name] = lambda kind=kind, numbers=numbers: AMSFL(kind(flower.FedAvg(), *numbers))
    COMPOSES[f"{name} around"] = lambda kind=kind, numbers=numbers: kind(AMSFL(momentum=0), *numbers)
for name in mod.__all__:
    inside = PRIVATE.get(f"DifferentialPrivacy{MODS.get(name)}Clipping")
    COMPOSES[name] = lambda inside=inside: AMSFL(inside and inside[0](flower.FedAvg(), *inside[1]))


@pytest.mark.parametrize("name", COMPOSES)
def test_what_composes(name: str) -> None:
    strategy = COMPOSES[name]()
    told = {"train-seconds": 0.1, "fading": 0.2, "held-loss": 0.5, "output-spread": 1.0, "loss": 0.3}
    made = getattr(mod, name, None)
    mods = [] if made is None else [made(0.5, 1.0, 50.0, 1e-5) if name == "LocalDpMod" else made]
    if "Adaptive" in name:
        told["norm_bit"] = 1.0
    grid = start(strategy, stock_app(pull, mods=mods, **told), rounds=4)
    assert np.isfinite(model(grid)).all() and np.abs(model(grid)).max() > 0.01
    metrics = grid.result.train_metrics_clientapp.get(3) or {}
    assert not {"train-seconds", "fading", "held-loss", "output-spread"} & set(metrics)
    ours = strategy if isinstance(strategy, AMSFL) else strategy.strategy
    assert len(ours.log) == 4 and not any(each["refused"] for each in ours.log)


REFUSED = {
    "QFedAvg": (lambda: AMSFL(flower.QFedAvg(client_learning_rate=0.1)), "QFedAvg"),
    "FedXgbBagging": (lambda: AMSFL(flower.FedXgbBagging()), "FedXgbBagging"),
    "FedXgbCyclic": (lambda: AMSFL(flower.FedXgbCyclic()), "FedXgbCyclic"),
    "two momenta": (lambda: AMSFL(flower.FedAvgM(server_momentum=0.9)), "momentum=0"),
    "FedAdam's": (lambda: AMSFL(flower.FedAdam()), "momentum=0"),
    "itself": (lambda: AMSFL(AMSFL()), "AMSFL is inside"),
    "settings of another": (lambda: AMSFL(flower.FedAvg(), fraction_train=0.5), "fraction_train"),
    "no local steps": (lambda: Scaffold(flower.FedAvg()), "AMSFL"),
    "two round ends": (lambda: RoundGrid(None, buffer=2, quorum=3), "buffer"),
}


def test_every_strategy_and_mod_of_flower_s_is_tried() -> None:
    assert {*flower.__all__, *mod.__all__} - {*COMPOSES, *REFUSED} == {"Result", "Strategy"}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_compose_says_so_at_construction(name: str) -> None:
    make, word = REFUSED[name]
    with pytest.raises(UserError, match=word):
        make()


@pytest.mark.parametrize("name", ["secagg_mod", "secaggplus_mod"])
def test_secure_aggregation_is_of_the_old_workflows_and_says_so(name: str) -> None:
    """Clients then answer to no Strategy of the message API, Flower's included."""
    app = stock_app(pull, mods=[getattr(old_mods, name)])
    with pytest.raises(UserError, match="old workflows"):
        start(AMSFL(), app)
    assert not start(flower.FedAvg(), app, rounds=2).result.arrays
    context, grid = Context(1, 1, {}, RecordDict(), {}), VirtualGrid(app, 4, at_speeds(1, 1, 1, 1))
    held = LegacyContext(context, ServerConfig(num_rounds=1), AMSFL())
    with pytest.raises(UserError, match="old workflows"):
        default_init_params_workflow(grid, held)


def test_where_changes_are_private_nobody_looks_at_single_ones() -> None:
    inside = flower.DifferentialPrivacyServerSideFixedClipping(flower.FedAvg(), 0.1, 1.0, 4)
    strategy = AMSFL(inside)
    start(strategy, stock_app(pull, **{"held-loss": 1.0}))
    assert not strategy.read and np.isnan(strategy.nodes.known.estimates.gain).all()
    assert all("held_loss" not in each for each in strategy.log)


def test_scaffold_and_feddyn_come_to_rest_where_fedavg_does_not() -> None:
    """Nodes of unequal curvature: SCAFFOLD and FedDyn rest on the optimum sum_i h_i (x - b_i) = 0."""
    curves = np.array([0.2, 1.0, 2.0, 0.5])
    best = (curves[:, None] * TARGETS).sum(0) / curves.sum()

    def change(node: int, x: Any, config: dict[str, Any]) -> Any:
        extra = np.frombuffer(config.get("correction", np.zeros(2, "<f4").tobytes()), "<f4")
        y = x.astype(float)
        for _ in range(config["local-steps"]):
            way = curves[node] * (y - TARGETS[node]) + extra + config.get("proximal-mu", 0.0) * (y - x)
            y = y - config["lr"] * way
        return y - x

    def rest(wrap: Any, rounds: int = 70) -> float:
        strategy = wrap(AMSFL(steps=10, lr=0.1, **PLAIN))
        found = model(start(strategy, stock_app(change), rounds=rounds, poll=1.0))
        return float(np.abs(found - best).max())

    assert rest(lambda plain: plain, 30) > 0.05
    assert rest(Scaffold) < 1e-3
    assert rest(lambda plain: FedDyn(plain, 0.3)) < 1e-3


# -- replies -------------------------------------------------------------------------------------------------


def spoiled(spoil: Any) -> Any:
    """A grid whose node 0 sends what `spoil` makes of its reply."""
    grid = VirtualGrid(stock_app(pull), 4, at_speeds(0.1, 0.1, 0.1, 0.1))
    honest = grid.answer

    def answer(message: Any) -> Any:
        reply = honest(message)
        if message.metadata.dst_node_id == 1000 and steps_of(message):
            spoil(reply)
        return reply

    grid.answer = answer  # type: ignore[method-assign]
    strategy = AMSFL(lr=0.1)
    grid.result = strategy.start(RoundGrid(grid, poll=0.01), arrays_of(np.zeros(2)), num_rounds=3)
    return grid, strategy


def put(**metrics: Any) -> Any:
    named = {key.replace("_", "-"): value for key, value in metrics.items()}
    return lambda reply: reply.content["metrics"].update(named)


def record(name: str, part: Any) -> Any:
    return lambda reply: reply.content.__setitem__(name, part)


WRONG = {
    "not finite": (record("arrays", arrays_of([np.nan, 0])), "not finite"),
    "another shape": (record("arrays", arrays_of(np.zeros(3))), "sent as"),
    "huge": (record("arrays", arrays_of([1e9, 0])), "norm"),
    "no rows": (put(num_examples=0), "num-examples"),
    "endless rows": (put(num_examples=float("inf")), "num-examples"),
    "more steps than asked": (put(local_steps=10**6), "steps"),
    "two metric records": (record("more", MetricRecord({"a": 1.0})), "one MetricRecord"),
    "no round's": (lambda r: setattr(r.metadata, "group_id", "99"), "no round"),
}


CLAIMS = {
    "rows": (put(num_examples=10**18), "rows count as"),
    "no seconds": (put(train_seconds=0.0), "train-seconds"),
    "more seconds than there were": (put(train_seconds=1e9), "train-seconds"),
    "a reading": (put(fading=1e30), "fading"),
    "a loss": (put(held_loss=float("nan")), "held-loss"),
}


@pytest.mark.parametrize("kind", [*WRONG, *CLAIMS])
def test_a_false_reply_is_refused_and_a_claim_that_cannot_be_is_noted(kind: str) -> None:
    """A refused reply leaves the round to the others; of others rows count a hundredfold at most."""
    spoil, word = (WRONG | CLAIMS)[kind]
    grid, strategy = spoiled(spoil)
    for each in strategy.log:
        if kind in WRONG:
            assert word in each["refused"][1000] and each["nodes"] == [1001, 1002, 1003]
        else:
            assert any(word in note and "1000" in note for note in each["notes"])
    assert max(strategy.log[-1]["mix"]) <= 100 / 103 + 1e-9 and np.isfinite(model(grid)).all()


@pytest.mark.parametrize("count", [MOST_METRICS + 1, 100_000, 1_000_000])
def test_metrics_beyond_a_bound_are_counted_and_not_read(count: int) -> None:
    """A reply of 100,000 made a round of 24.5 s. Whatever is asked of these but their length raises."""
    many = type("Many", (), {"__len__": lambda self: count})()
    content = SimpleNamespace(array_records={"": None}, metric_records={"": many})
    reply: Any = SimpleNamespace(content=content, metadata=SimpleNamespace(src_node_id=7))
    assert f"{count} metrics" in read(reply, Sent(1, arrays_of([0]), {7: 1}, 0.1, 0.0), "num-examples", 1.0)


def test_metrics_that_not_all_have_are_left_out() -> None:
    grid, strategy = spoiled(put(own=1.0))
    assert not any(each["refused"] for each in strategy.log)
    assert "own" not in grid.result.train_metrics_clientapp.get(3, {})


@pytest.mark.parametrize("since", [0, 3])
def test_sites_that_come_back_after_an_outage_are_not_locked_out(since: int) -> None:
    """Two of four nodes are away until round 17; the others are at rest by then, and the first change of
    those who come back, or come for the first time, is a hundred times the usual, and honest."""
    targets = np.array([[1.0, 0], [1.02, 0], [3, 1], [-1, 1]])
    some = {"min_available_nodes": 2, "min_train_nodes": 2, "fraction_evaluate": 0.0}
    strategy = AMSFL(steps=5, lr=0.3, **PLAIN, **some)
    app = stock_app(lambda node, x, config: pull(node, x, config, targets))
    grid = VirtualGrid(app, 4, at_speeds(0.1, 0.1, 0.1, 0.1))
    grid.gone = set() if since else {2, 3}

    def outage(record: Any) -> bool:
        grid.gone = {2, 3} if since <= record.round < 17 else set()
        return False

    strategy.stop = outage
    grid.result = strategy.start(RoundGrid(grid, poll=0.01), arrays_of(np.zeros(2)), num_rounds=24)
    back = [each for each in strategy.log[17:] if {1002, 1003} <= each["steps"].keys()]
    assert len(back) >= 5 and not any(each["refused"] for each in back)
    assert np.abs(model(grid) - targets.mean(0)).max() < 0.05


def test_a_size_that_was_refused_moves_the_bound() -> None:
    """Usual is 1, and then 50 comes round after round: refused while ten times 1, 2, 4 are below it."""
    nodes = Nodes(policy("price"), 32, limit=10.0)
    sizes = [1.0] * 6 + [50.0] * 6
    refused = [bool(nodes.oversized({"reply": (7, size)}, number)) for number, size in enumerate(sizes)]
    assert refused == [False] * 6 + [True] * 3 + [False] * 3


def test_one_liar_that_grows_does_not_move_the_bound() -> None:
    def grows(node: int, x: Any, config: dict[str, Any]) -> Any:
        return np.array([20.0 * 3 ** config["server-round"], 0]) if node == 0 else pull(node, x, config)

    strategy = AMSFL(steps=5, lr=0.1)
    grid = start(strategy, stock_app(grows), rounds=12)
    assert all(1000 in each["refused"] for each in strategy.log) and np.abs(model(grid)).max() < 5


def test_clients_that_raise_are_left_out_and_all_raising_ends_the_run() -> None:
    def broken(node: int, x: Any, config: dict[str, Any]) -> Any:
        if node == 0 or config["lr"] > 1:
            raise RuntimeError("no disk")
        return pull(node, x, config)

    strategy = AMSFL(lr=0.1)
    start(strategy, stock_app(broken), rounds=2)
    assert "no disk" in strategy.log[0]["refused"][1000] and len(strategy.log[0]["nodes"]) == 3
    with pytest.raises(UserError, match="no disk"):
        start(AMSFL(lr=2.0), stock_app(broken), rounds=9)


# -- runs ----------------------------------------------------------------------------------------------------


def test_seconds_end_a_run() -> None:
    strategy = AMSFL(lr=0.1, seconds=3.0, steps=5)
    start(strategy, rounds=1000)
    assert 3 <= strategy.elapsed < 5 and strategy.log[-1]["lr"] < 0.05


@pytest.mark.parametrize("after, around", [(1, None), (4, None), (4, FedDyn)])
def test_a_killed_server_goes_on_as_if_it_had_never_stopped(after: int, around: Any, tmp_path: Path) -> None:
    def made(**more: Any) -> Any:
        return around(AMSFL(lr=0.1, **more)) if around else AMSFL(lr=0.1, **more)

    app = stock_app(pull, rows=400, **{"held-loss": losses([1.0, 0.9, 2.0, 2.0, 2.0]), "loss": 0.5})
    seconds = at_speeds(0.1, 0.2, 0.4, 0.1)
    whole = made()
    wanted = start(whole, app, rounds=8, seconds=seconds)

    def kill(record: Any) -> bool:
        if record.round == after + 1:
            raise SystemExit
        return False

    with pytest.raises(SystemExit):
        start(made(out=tmp_path / "run", stop=kill), app, rounds=8, seconds=seconds)
    grid = start(made(out=tmp_path / "run", resume=True), app, rounds=8, seconds=seconds)
    assert (model(grid) == model(wanted)).all()
    record = read_run(tmp_path / "run")
    assert [each.steps for each in record.rounds] == [each["done"] for each in whole.log]
    with pytest.raises(UserError, match="already holds"):
        start(AMSFL(out=tmp_path / "run"), app, rounds=1)
    start(AMSFL(out=tmp_path / "run", force=True), app, rounds=1)
    assert len(read_run(tmp_path / "run").rounds) == 1
