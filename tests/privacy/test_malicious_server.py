"""A malicious server against one honest site: nothing leaves that policy and ledger do not cover."""

import json
import math
import stat
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'amsfl[flower]'")

from flwr.app import ConfigRecord, Context, Message, RecordDict

from amsfl import methods, sampling
from amsfl.core import RowPrivacy, UserError
from amsfl.flower import messages
from amsfl.flower.client import client_state, privacy_ledger
from amsfl.flower.client.app import client_app
from amsfl.flower.client.local_round import Trainer
from amsfl.flower.client.privacy_ledger import SiteLedger
from amsfl.flower.client.site_policy import SitePolicy, read_policy, site_policy
from amsfl.flower.in_process import InProcessGrid
from amsfl.flower.messages import GlobalModel, Order
from amsfl.privacy import Event, Exposure, Terms, epsilon, poisson_gaussian, safe_sum
from amsfl.privacy.accounting import poisson_gaussian as epsilon_of

ROWS, SIZE = 40, 3
X = np.random.default_rng(0).normal(size=(ROWS, SIZE)).astype(np.float32)
TERMS = Terms("record", 1.0, 2.0, 1.0, 1e-5)
ORDER = Order("run", 0, -1, 0, 2, 60.0, 0.1, True, 8, 0, "fedavg", {}, "", False, terms=TERMS)
ZERO = np.zeros(SIZE, np.float32)
REPORTED = {"steps", "rows", "lost_state", "step_seconds", "compute_seconds", "taken"}


class Rows(Trainer):
    """A numpy site whose gradient of a row is x + the row; it counts how often rows are read."""

    rows, reads = ROWS, 0

    def start(self, seed):
        return ZERO, {}

    def begin(self, order, model, method):
        pass

    def from_numpy(self, vector):
        return vector

    def to_numpy(self, vector):
        return np.asarray(vector, np.float32)

    def gradient(self, x, step):
        Rows.reads += 1
        return 1.0, x + X[0]

    probe = gradient

    def check_rows(self):
        pass

    def row_sum(self, x, places, present, private):
        Rows.reads += 1
        with np.errstate(all="ignore"):
            each = (x + X[places]).astype(np.float32)
            factors = safe_sum.row_factors(private, safe_sum.norms(each), present)
            return safe_sum.weighted_sum(factors, each)

    def buffers(self):
        return {"secret": X[0]}

    def evaluate(self, x):
        Rows.reads += 1
        return {"loss": float(X.sum())}


APP = client_app(lambda context: Rows())


def site(folder: Path | None, run: int = 7, **node: Any) -> Context:
    InProcessGrid(APP, [{}])  # Flower's messages ask which task is speaking
    kept = {"state-dir": str(folder)} if folder else {}
    return Context(run, 1000, {"partition-id": 0, **kept, **node}, RecordDict(), {})


def send(context: Context, order: Order, anchor: Any = ZERO, kind: str = "train") -> RecordDict:
    model = GlobalModel(anchor, anchor[:0], anchor[:0], {"counter": np.ones(1)})
    return APP(Message(messages.pack_order(order, model), 1000, kind), context).content


def hello(context: Context, **ask: Any) -> dict[str, Any]:
    question = {"model": False, "seed": 0, "probe": True, "batch": 8, **ask}
    content = RecordDict({"ask": ConfigRecord(question)})
    return messages.scalars(APP(Message(content, 1000, "query"), context).content, "hello")


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in (folder / "orders-0.jsonl").read_text().splitlines()]


def counted(context: Context) -> int:
    return sum(entry.steps for entry in ledger(context).read().values())


def ledger(context: Context) -> Any:
    return SiteLedger(context, site_policy(context))


def cost(context: Context) -> float:
    return ledger(context).spent(ledger(context).read())


NUMBERS = st.one_of(
    st.sampled_from([0, -1, 1, 1e-38, 1e-45, 1e300, -0.0, math.nan, math.inf, -math.inf, 2**31, 2**63, True]),
    st.floats(allow_nan=True),
    st.integers(-(2**70), 2**70),
)
NAMES = st.sampled_from(
    [
        "",
        "none",
        "client",
        "record",
        "fedsps",
        "fedcsda",
        "amsfl",
        "scaffold",
        "os:system",
        "../x",
        "q8",
        "é" * 200,
    ]
)
FIELDS = st.sampled_from([*(f for f in Order._fields if f not in ("options", "terms")), *Terms._fields])


def mutated(order: Order, field: str, value: Any) -> Order:
    if field in Terms._fields:
        return order._replace(terms=order.terms._replace(**{field: value}))
    return order._replace(**{field: value})


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(FIELDS, st.one_of(NUMBERS, NAMES)), min_size=1, max_size=3), NUMBERS)
@example([("clip", 1e-30)], 0.0)
@example([("clip", math.nan)], 0.0)
@example([("epsilon", 0.0)], 0.0)
@example([("noise", 1e-3), ("epsilon", 0.0)], 1e30)
@example([("own_optimizer", True)], 0.0)
def test_mutated_orders_are_refused_or_covered(changes, anchor):
    """Whatever the fields say: a reply means that the ledger covers it within the site's epsilon, that it is
    finite, and that it holds a delta and listed numbers alone; a refusal means that nothing leaves."""
    with tempfile.TemporaryDirectory() as folder:
        context = site(Path(folder), epsilon=3.0)
        order = ORDER
        for field, value in changes:
            order = mutated(order, field, value)
        with np.errstate(all="ignore"):
            start = np.full(
                SIZE, np.float32(float(anchor)) if abs(float(anchor)) < 1e308 else np.inf, np.float32
            )
        try:
            content = send(context, order, start)
        except Exception:  # Flower's records refuse some values, the site the others; no reply either way
            assert cost(context) <= 3.0
            return
        upload, report = messages.arrays(content, "upload"), messages.scalars(content, "report")
        assert counted(context) == report["steps"] > 0 and cost(context) <= 3.0
        terms = order.terms
        assert 1e-4 <= terms.clip <= 1e4 and terms.noise >= 0.05 and 0 < terms.delta <= 1e-3
        assert all(np.isfinite(part).all() for part in upload.values())
        extra = {key for key in report if key not in REPORTED and report[key] != 0}
        assert not extra and "metrics" not in content
        np.testing.assert_array_equal(messages.arrays(content, "buffers")["counter"], [1.0])


@pytest.mark.parametrize("kind", ["train", "evaluate"])
def test_nothing_raw_leaves_a_private_site(tmp_path, kind):
    """Orders without terms, before and after a private one, under any run's name; no row is even read."""
    context, reads = site(tmp_path, epsilon=3.0), Rows.reads
    for run in ("run", "other"):
        with pytest.raises(UserError, match="private"):
            send(context, ORDER._replace(terms=None, run=run), kind=kind)
    assert Rows.reads == reads
    trusting = site(tmp_path / "trusting")
    send(trusting, ORDER)
    for run in ("run", "other"):
        with pytest.raises(UserError, match="private"):
            send(trusting, ORDER._replace(terms=None, run=run), kind=kind)


def test_two_orders_at_once_are_both_counted(tmp_path):
    """Eight threads spend from one epsilon: together no more than it allows, and no entry is lost."""
    context, start, got = site(tmp_path, epsilon=1.0), threading.Barrier(8), []
    order = ORDER._replace(steps=30, terms=TERMS._replace(epsilon=0.0))

    def spend(number: int) -> None:
        start.wait()
        try:
            got.append(ledger(context).spend(order._replace(run=f"run-{number % 4}"), ROWS))
        except UserError:
            got.append(0)

    threads = [threading.Thread(target=spend, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted(context) == sum(got) > 0 and cost(context) <= 1.0


def test_a_killed_order_stays_counted(tmp_path, monkeypatch):
    """The process dies in its first step: its steps are in the ledger, and stay there."""
    context, order = site(tmp_path), ORDER._replace(terms=TERMS._replace(epsilon=0.0))

    def dies(self, *_):
        raise SystemExit

    monkeypatch.setattr(Rows, "row_sum", dies)
    with pytest.raises(SystemExit):
        send(context, order)
    monkeypatch.undo()
    assert counted(context) == 2
    reply = messages.scalars(send(site(tmp_path), order), "report")
    assert reply["taken"] == 4


def test_replays_are_other_noise_and_are_counted(tmp_path):
    context, order = site(tmp_path), ORDER._replace(steps=1)
    one, two = (messages.arrays(send(context, order), "upload")["delta"] for _ in range(2))
    assert not np.allclose(one, two)
    with pytest.raises(UserError, match="spent"):
        for _ in range(100):
            send(context, order)
    exposure = Exposure(sampling.share(sampling.chance(8, ROWS)), 2.0, 1e-5)
    steps = counted(context)
    assert epsilon(exposure, steps) <= 1.0 < epsilon(exposure, steps + 1)


def test_a_tiny_clip_cuts_all_the_same():
    """Gradients of 1e-25, whose squares are 0 in float32, against a clip of 1e-30: not one is longer."""
    private = RowPrivacy(1e-30)
    rows = np.full((5, 4), 1e-25, np.float32)
    lengths = safe_sum.norms(rows)
    np.testing.assert_allclose(lengths, 2e-25, rtol=1e-5)
    factors = safe_sum.row_factors(private, lengths, np.ones(5, bool))
    assert (factors * lengths <= 1e-30 * 1.001).all() and (factors < 1e-4).all()
    assert safe_sum.norms(np.array([[3e38, 3e38], [np.nan, 1.0], [0.0, 0.0]], np.float32)).tolist()[1:] == [
        math.inf,
        0.0,
    ]


@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_a_server_cannot_read_a_row_by_clip_and_saturated_weights(framework):
    """Weights by which every row's gradient is about 1e-26: sums stay within rows times the clip of 1e-30."""
    private = RowPrivacy(1e-30)
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(6, 5)).astype(np.float32), np.zeros(6, int)
    weight, bias = np.zeros((3, 5), np.float32), np.array([60.0, 0, 0], np.float32)
    if framework == "jax":
        import jax.numpy as jnp

        from amsfl.engines import losses, private_gradients
        from amsfl.engines.dense import Layer, swap_layout

        layers = swap_layout([Layer(jnp.asarray(weight.T), jnp.asarray(bias))])
        total = private_gradients.sum_of_layers(losses.cross_entropy, private)(layers, x, y, np.ones(6, bool))
        flat = np.concatenate([np.ravel(total[0].weight), np.ravel(total[0].bias)])
    else:
        torch = pytest.importorskip("torch")
        from amsfl.flower.client import torch_rows

        module = torch.nn.Linear(5, 3)
        with torch.no_grad():
            module.weight.copy_(torch.from_numpy(weight))
            module.bias.copy_(torch.from_numpy(bias))

        def loss(batch):
            return torch.nn.functional.cross_entropy(module(batch[0]), batch[1])

        def draw(places):
            return [torch.from_numpy(x[places]), torch.from_numpy(y[places])]

        flat = torch_rows.private_sum(module, loss, draw, np.arange(6), np.ones(6, bool), private).numpy()
    assert np.isfinite(flat).all() and safe_sum.norms(flat.astype(float)[None])[0] <= 6e-30 * 1.001


def test_a_row_that_is_no_number_poisons_no_sum():
    """A convolution whose weights make one bright row overflow: the sum is that of the other rows."""
    import jax

    from amsfl.engines import losses, models, private_gradients

    model, private = models.make("cnn:2", 16, 3), RowPrivacy(1.0)
    summed = private_gradients.sum_of_any(model.apply, losses.cross_entropy, private)
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(4, 16)), np.array([0, 1, 2, 0])
    x[2] = 1e308
    params = jax.tree.map(lambda leaf: np.asarray(leaf, float), model.init(jax.random.key(0)))
    with_row, without = (summed(params, x, y, np.array([True, True, there, True])) for there in (True, False))
    for one, other in zip(jax.tree.leaves(with_row), jax.tree.leaves(without), strict=True):
        assert np.isfinite(one).all()
        np.testing.assert_allclose(one, other, atol=1e-6)


OUTSIDE = {
    "methods = ['amsfl']": {},
    "transmits = ['topk']": {"transmit": "q8"},
    "mechanisms = ['none']": {},
    "runs = ['8']": {},
    "most_steps = 1": {},
    "most_rows = 4": {},
    "least_noise = 2.5": {},
    "clip = [2.0, 3.0]": {},
    "epsilon_run = 0.5": {},
    "most_megabytes = 0.000001": {},
}


@pytest.mark.parametrize("line", OUTSIDE)
def test_the_site_policy_refuses_what_lies_outside(tmp_path, line):
    """Each line by itself; with and without privacy the log has the order and why it was refused."""
    (tmp_path / "site.toml").write_text(line)
    context, order = site(tmp_path), ORDER._replace(**OUTSIDE[line])
    with pytest.raises(UserError, match="policy"):
        send(context, order)
    (entry,) = lines(tmp_path)
    assert "policy" in entry["refused"] and "sent" not in entry and entry["order"]["terms"]["clip"] == 1.0
    assert stat.S_IMODE((tmp_path / "orders-0.jsonl").stat().st_mode) == 0o600


def test_the_log_is_appended_and_the_policy_is_read_with_care(tmp_path):
    (tmp_path / "site.toml").write_text("mechanisms = ['none']\nmost_steps = 5\nscores = false\n")
    context = site(tmp_path)
    content = send(context, ORDER._replace(terms=None))
    with pytest.raises(UserError, match="private"):
        send(context, ORDER._replace(terms=None), kind="evaluate")
    trained, scored = lines(tmp_path)
    sent = messages.arrays(content, "upload")["delta"].nbytes
    assert trained["what"] == "train" and scored["what"] == "evaluate" and trained["sent"]["bytes"] == sent
    assert read_policy(tmp_path / "site.toml") == SitePolicy(
        mechanisms=("none",), most_steps=5.0, scores=False
    )
    (tmp_path / "site.toml").write_text("most_rows = inf\n")
    assert hello(context)["rows"] == ROWS
    for wrong in (
        "most_step = 1",
        "clip = 1.0",
        "methods = 'amsfl'",
        "epsilon = 'much'",
        "scores = 1",
        "x =",
    ):
        (tmp_path / "site.toml").write_text(wrong)
        with pytest.raises(UserError, match=r"site\.toml"):
            site_policy(context)


def test_seconds_do_not_tell_the_minibatch(tmp_path, monkeypatch):
    """Minibatches of any size are looked at in as many rows; reported seconds are marks a fifth apart."""
    from amsfl.flower.client import private_steps

    looked = []
    summed = Rows.row_sum

    def row_sum(self, x, places, present, private):
        looked.append((len(places), int(present.sum())))
        return summed(self, x, places, present, private)

    monkeypatch.setattr(Rows, "row_sum", row_sum)
    report = messages.scalars(
        send(site(tmp_path), ORDER._replace(steps=30, terms=TERMS._replace(epsilon=0.0))), "report"
    )
    sizes, present = zip(*looked, strict=True)
    assert len({*sizes}) == 1 and len({*present}) > 3
    for name in ("step_seconds", "compute_seconds"):
        octave = 4 * math.log2(report[name])
        assert octave == pytest.approx(round(octave), abs=1e-6)
    marks = {private_steps.coarse(each) for each in np.linspace(0.5, 0.99, 200)}
    assert len(marks) == 5 and all(private_steps.coarse(each) >= each for each in np.geomspace(1e-3, 99, 50))


WRONG = [
    ("run", 5),
    ("run", "../x"),
    ("run", "x" * 400),
    ("method", 7),
    ("steps", 0.5),
    ("steps", True),
    ("steps", 0),
    ("lr", 0.0),
    ("lr", math.nan),
    ("readings", 1),
    ("accepted", 1.0),
    ("accepted", -2),
    ("held_back", 2.0),
    ("options", {"mu": math.inf}),
    ("mechanism", 1),
    ("clip", "1"),
]


@pytest.mark.parametrize(("field", "value"), WRONG)
def test_a_field_of_the_wrong_kind_is_refused_before_anything_is_spent(tmp_path, field, value):
    context, reads = site(tmp_path, epsilon=3.0), Rows.reads
    with pytest.raises(UserError):
        send(context, mutated(ORDER, field, value))
    assert Rows.reads == reads and not counted(context)
    assert lines(tmp_path)[0]["refused"] and {path.name for path in tmp_path.iterdir()} == {"orders-0.jsonl"}


@pytest.mark.parametrize("more", [{}, {"own_optimizer": True}, {"lr_known": False}])
def test_a_private_order_looks_at_rows_by_private_steps_alone(tmp_path, monkeypatch, more):
    """AMSFL whose judge was asked for: rows that it would hold back have losses, too."""
    looked = []
    for name in ("gradient", "probe", "held_back", "training_metrics", "evaluate"):
        monkeypatch.setattr(Rows, name, lambda self, *_, name=name: looked.append(name), raising=False)
    options = {**dict(methods.make("amsfl").facts.private_options), "judge": 1.0}
    order = ORDER._replace(method="amsfl", options=options, held_back=0.5, readings=True, **more)
    report = messages.scalars(send(site(tmp_path, epsilon=3.0), order), "report")
    assert not looked and {key for key, value in report.items() if value} <= REPORTED


def test_next_to_no_noise_is_refused_by_its_first_step(tmp_path, monkeypatch):
    """100,000 steps of noise 0.05 after one of 1e6: on the finer one's grid that took all memory."""
    context, counted_events = site(tmp_path, epsilon=3.0), []
    gentle, loud = (TERMS._replace(epsilon=0.0, noise=noise) for noise in (1e6, 0.05))
    send(context, ORDER._replace(terms=gentle))

    def account(events, delta):
        counted_events.append(events)
        return poisson_gaussian(events, delta)

    monkeypatch.setattr(privacy_ledger, "poisson_gaussian", account)
    with pytest.raises(UserError, match="spent"):
        send(context, ORDER._replace(run="loud", steps=100_000, terms=loud))
    assert {events[0].steps for events in counted_events} == {1} and counted(context) == 2
    assert epsilon_of((Event(0.01, 1e6, 1), Event(1.0, 0.05, 1)), 1e-5) == pytest.approx(284.4, rel=0.01)


def test_a_number_for_a_runs_name_wipes_no_ledger(tmp_path):
    """JSON writes 5 and "5" as one key and reads the last one: the steps of "5" would be forgotten."""
    context, order = site(tmp_path, epsilon=3.0), ORDER._replace(run="5")
    send(context, order)
    with pytest.raises(UserError, match="run"):
        send(context, order._replace(run=5))
    with pytest.raises(UserError, match="text"):
        ledger(context).spend(order._replace(run=5), ROWS)
    with pytest.raises(UserError, match="forget"):
        ledger(context)._write({})
    assert counted(context) == 2
    assert ledger(context).give_back("5", 2) == counted(context) == 2  # it spent none itself


def test_epsilon_run_is_of_a_flower_run_whatever_the_server_calls_it(tmp_path):
    (tmp_path / "site.toml").write_text("epsilon_run = 1.0\n")
    context, order = site(tmp_path), ORDER._replace(steps=200)
    send(context, order)
    exposure = Exposure(sampling.share(sampling.chance(8, ROWS)), 2.0, 1e-5)
    assert epsilon(exposure, counted(context)) <= 1.0
    for run in ("run", "b", "c"):
        with pytest.raises(UserError, match="spent"):
            send(context, order._replace(run=run))
    send(site(tmp_path, run=8), order._replace(run="b"))  # another Flower run is another one
    (tmp_path / "site.toml").write_text("epsilon_run = 0\n")
    with pytest.raises(UserError, match="epsilon_run"):
        send(site(tmp_path, run=9), ORDER._replace(terms=TERMS._replace(epsilon=0.0)))


def test_a_resumed_run_counts_on_in_another_flower_run(tmp_path):
    """The server's name is the same: what its order allows goes by the steps of both."""
    send(site(tmp_path), ORDER)
    report = messages.scalars(send(site(tmp_path, run=8), ORDER._replace(accepted=0, round=1)), "report")
    exposure = Exposure(sampling.share(sampling.chance(8, ROWS)), 2.0, 1e-5)
    assert report["taken"] == 3 and epsilon(exposure, 3) <= 1.0 < epsilon(exposure, 4)
    with pytest.raises(UserError, match="settled"):
        send(site(tmp_path, run=9), mutated(ORDER, "noise", 9.0))
    with pytest.raises(UserError, match="lost its ledger"):
        send(site(tmp_path, run=9), ORDER._replace(accepted=0, run="other"))


@pytest.mark.parametrize("kind", ["train", "evaluate"])
def test_without_a_folder_a_flower_run_stays_private_under_any_name(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    context = site(None)
    send(context, ORDER)
    reads = Rows.reads
    for gone in (False, True):
        for path in tmp_path.rglob("privacy-*.json") if gone else ():
            path.unlink()  # Flower's context remembers, too
        with pytest.raises(UserError, match="private"):
            send(context, ORDER._replace(terms=None, run="other"), kind=kind)
    assert Rows.reads == reads


def test_a_hello_gives_no_more_than_an_order(tmp_path):
    """Runs are checked, seconds under privacy are measured once, and after a private step never as they are;
    the log has every question."""
    asked = {"privacy": "record", "clip": 1.0}
    context = site(tmp_path)
    reads = Rows.reads
    first = hello(context, **asked)["step_seconds"]
    assert Rows.reads > reads
    reads = Rows.reads
    assert {hello(context, **asked)["step_seconds"] for _ in range(5)} == {first} and Rows.reads == reads
    assert "step_seconds" in hello(context)
    send(context, ORDER)
    reads = Rows.reads
    assert "step_seconds" not in hello(context) and Rows.reads == reads
    assert lines(tmp_path)[0]["ask"]["clip"] == 1.0 and lines(tmp_path)[0]["sent"]["step_seconds"] == first
    (tmp_path / "site.toml").write_text("runs = ['8']\nmechanisms = ['other']\n")
    for run, words in ((7, "Flower run"), (8, "mechanism")):
        with pytest.raises(UserError, match=words):
            hello(site(tmp_path, run=run), **asked)
    with pytest.raises(UserError, match="seed"):
        hello(site(tmp_path, run=8), seed="0")
    assert len(lines(tmp_path)) == 12 and Rows.reads == reads


def test_what_cannot_be_unpacked_is_a_short_line_of_the_log(tmp_path):
    context, model = site(tmp_path), GlobalModel(ZERO, ZERO[:0], ZERO[:0], {})
    unknown, long = (messages.pack_order(ORDER, model) for _ in range(2))
    unknown["order"]["privacy.extra"] = 1.0
    long["order"]["method"] = "x" * 3_000_000
    for content in (unknown, long, RecordDict()):
        with pytest.raises((ValueError, KeyError)):
            APP(Message(content, 1000, "train"), context)
    assert len(lines(tmp_path)) == 3 and (tmp_path / "orders-0.jsonl").stat().st_size < 3_000


def test_a_flower_run_fills_no_disk_with_state_files(tmp_path):
    context = site(tmp_path)
    for number in range(client_state.KEPT + 3):
        model = GlobalModel(ZERO, ZERO, ZERO[:0], {})
        order = ORDER._replace(run=f"run-{number}", method="scaffold", client=number)
        APP(Message(messages.pack_order(order, model), 1000, "train"), context)
    held = {path.name for path in tmp_path.glob("*.safetensors")}
    assert held == {f"run-{number}-{number}.safetensors" for number in range(3, client_state.KEPT + 3)}


@pytest.mark.parametrize("part", ["check_rows", "row_sum", "rows", "to_numpy"])
def test_no_error_under_privacy_tells_of_rows(tmp_path, monkeypatch, capsys, part):
    def fails(self, *_):
        raise ValueError("patient Miller")

    monkeypatch.setattr(Rows, part, property(fails) if part == "rows" else fails)
    context, told = site(tmp_path), []
    for ask in (lambda: hello(context, privacy="record", clip=1.0), lambda: send(context, ORDER)):
        try:
            told.append(str(ask()))
        except Exception as error:
            told.append(str(error))
    assert "Miller" not in "".join(told) and "log" in told[1] and "Miller" in capsys.readouterr().err
