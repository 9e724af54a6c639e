"""What `amsfl check` may say of methods that set their strides, correct their gradients or mix by steps."""

import numpy as np
import pytest
from claims.problems import quadratic
from claims.random_problems import random_quadratics
from claims.rows import rows_of
from claims.trace import record
from federation_small import SMALL, own_data

import amsfl
from amsfl.methods import make
from amsfl.record import MethodFacts, RoundRecord, read_run
from amsfl.theory import check_folder, check_run
from amsfl.theory.readings import accumulated, gather

SMALL_RUN = {key: SMALL[key] for key in ("engine", "model", "rounds", "batch", "lr", "precision")}
PLAIN = MethodFacts("fedavg", "FedAvg")
STRIDING = MethodFacts("amsfl", "AMSFL", strides=True, closing=True)
CORRECTING = MethodFacts("mine", "Mine", plain=False)
READ = (
    "loss",
    "grad_sq",
    "diff_sq",
    "delta_sq",
    "grad_diff",
    "grad_delta",
    "grad_dir",
    "diff_dir",
    "delta_dir",
)


@pytest.fixture
def trace():
    """Three clients of weights .5, .3, .2 that take 2, 7 and 4 equal steps."""
    rng = np.random.default_rng(2)
    p = random_quadratics(rng, 1, 3, 4)
    p = quadratic(p.data["hessians"][0], p.data["centres"][0], np.array([0.5, 0.3, 0.2]))
    return record(p, rng.normal(size=4), np.tile([2, 7, 4], (5, 1)), 0.1)


def of(results, name, form, basis="readings"):
    (found,) = [r for r in results if (r.name, r.form) == (name, form) and basis in (None, r.basis)]
    return found


def mixed(rows, method):
    """The rows as if this method had mixed the uploads."""
    return [row._replace(mix=_mix(method, row).tolist()) for row in rows]


def _mix(method, row):
    return method.arithmetic.mix(np.array(row.plan["weights"]), np.array(row.steps, float))


def shift(results):
    return -of(results, "objective kept", "printed").slack_min


def test_tilt_is_the_total_variation(trace):
    """w = (.5, .3, .2), t = (2, 7, 4): w t = (1, 2.1, .8), E = 3.9; TV = .5 - 1/3.9 = .244."""
    assert shift(check_run(rows_of(trace), PLAIN)) == pytest.approx(0.5 - 1 / 3.9)
    bare = [row._replace(mix=[]) for row in rows_of(trace)]
    (found,) = [r for r in check_run(bare, PLAIN) if r.name == "objective kept"]
    assert found.holds is None
    assert "how uploads were mixed" in found.verdict


def test_tilt_is_that_of_the_average_that_was_taken(trace):
    """FedNova mixes by w/t, so its mean steps count by w; AMSFL by w / tau^1/2, tau = t + 1 (closing).

    AMSFL's count by w tau^1/2 = (.5 1.732, .3 2.828, .2 2.236) = (.866, .849, .447) of 2.162: the first
    client has .4006 in place of .5, TV = .0994. Plain averaging of its steps would have .5 - 1.5/4.9 = .1939.
    """
    nova = check_run(mixed(rows_of(trace), make("fednova")), PLAIN)
    assert of(nova, "objective kept", "printed").holds
    ours = check_run(mixed(rows_of(trace), make("amsfl")), STRIDING)
    first, *others = (0.5 * 3**0.5, 0.3 * 8**0.5, 0.2 * 5**0.5)
    assert shift(ours) == pytest.approx(0.5 - first / (first + sum(others)))
    assert shift(ours) == pytest.approx(0.0994, abs=5e-5)
    assert "0.099" in of(ours, "objective kept", "printed").verdict


@pytest.mark.parametrize("balance", [0.0, 0.5, 1.0])
def test_tilt_is_where_the_average_comes_to_rest(balance):
    """Clients (w - 1)^2/2 and (w + 1)^2/2 that count c_0 and c_1 come to rest at w = c_0 - c_1.

    So |rest| / 2 is the total variation of c from (1/2, 1/2). With 1 and 5 steps mixed by t^-balance,
    c ~ (1, 5^(1 - balance)): |rest| is 2/3 plainly, (sqrt 5 - 1)/(sqrt 5 + 1) halfway, 0 normalised.
    """
    p = quadratic(np.ones((2, 1, 1)), np.array([[1.0], [-1.0]]), np.array([0.5, 0.5]))
    step = record(p, np.zeros(1), np.array([[1, 5]]), 1e-4)
    mix = _mix(make("amsfl", {"balance": balance, "closing": 0.0}), rows_of(step)[0])
    # one round is affine in w: w + sum_i mix_i delta_i(w)
    moved = [
        float(mix @ (record(p, np.array([w]), np.array([[1, 5]]), 1e-4).points[0, -1, :, 0] - w))
        for w in (0.0, 1.0)
    ]
    rest = moved[0] / (moved[0] - moved[1])
    rows = [rows_of(step)[0]._replace(mix=mix.tolist())]
    assert shift(check_run(rows, PLAIN)) == pytest.approx(abs(rest) / 2, abs=1e-3)
    assert abs(rest) == pytest.approx((5 ** (1 - balance) - 1) / (5 ** (1 - balance) + 1), abs=1e-3)


def amsfl_rows(rng, rounds=6):
    """AMSFL's strides on quadratics without noise, min(cap, loss/||g||^2); no cap is known at first."""
    p = random_quadratics(rng, 1, 4, 3, apart=rng.choice([0.1, 1.0, 3.0]))
    h, centre, weights = (p.data[k][0] for k in ("hessians", "centres", "weights"))
    w, cap, last, rows = rng.normal(size=3) * 10 ** rng.uniform(-1, 1), np.nan, np.zeros(3), []

    def look(i, x):
        g = h[i] @ (x - centre[i])
        return 0.5 * (x - centre[i]) @ g, g

    def move(i, x, most):
        loss, g = look(i, x)
        return x - min(most, loss / (g @ g + 1e-12)) * g

    for k in range(rounds):
        steps, sent, read = rng.integers(1, 13, 4), [], []
        for i, t in enumerate(steps):
            x, (loss, g) = w, look(i, w)
            most = loss / (g @ g) if np.isnan(cap) else cap
            for _ in range(t):
                x = move(i, x, most)
            d, dg = x - w, look(i, x)[1] - g
            read.append((loss, g @ g, dg @ dg, d @ d, g @ dg, g @ d, g @ last, dg @ last, d @ last))
            sent.append(move(i, x, most))
        columns = {name: column.tolist() for name, column in zip(READ, np.transpose(read), strict=True)}
        mix = make("amsfl").arithmetic.mix(weights, steps)
        clock, plan = {"sum": 1.0, "makespan": 1.0}, {"weights": weights.tolist()}
        told = (k, clock, clock, 1.0, {}, [0, 1, 2, 3], steps.tolist(), cap, 0.0, 0.0, columns, plan, {})
        rows.append(RoundRecord(*told, mix.tolist()))
        last = mix @ (np.array(sent) - w)
        w, fresh = w + last, float(weights @ (np.array(columns["loss"]) / columns["grad_sq"]))
        cap = fresh if np.isnan(cap) else float(np.clip(fresh, 0.7 * cap, cap / 0.7))
    return rows


def test_strides_that_differ_break_no_bound():
    """Noise-free quadratics: with lr taken as every stride's length, A4 was reported violated."""
    rng, mistaken, told = np.random.default_rng(3), 0, 0
    for _ in range(150):
        rows = amsfl_rows(rng)
        results = check_run(rows, STRIDING)
        for name in ("displacement", "gradient deviation"):
            found = of(results, name, "corrected")
            assert found.holds
            assert "cap" in found.verdict
            told += found.checked
        assert of(results, "step size", "corrected", None).holds is not False
        for name in ("drift accumulation", "drift, own gradient", "worth of steps"):
            assert {r.holds for r in results if r.name == name} == {None}
            assert all("strides differ" in r.verdict for r in results if r.name == name)
        r = gather(rows)
        pairs = r.steps * (r.steps - 1) / 2
        mistaken += bool(np.any(accumulated(r) > r.lr * r.smooth * r.bound * pairs * 1.01 + 1e-9))
    assert told == 150 * 2 * 5 * 4  # rounds without a known cap are left out, and only those
    assert mistaken > 0  # what a check by equal strides would have said


def test_a_method_that_corrects_its_gradients_is_not_judged_by_them(trace):
    results = check_run(rows_of(trace), CORRECTING)
    for name in ("displacement", "gradient deviation", "drift accumulation", "worth of steps"):
        assert {r.holds for r in results if r.name == name} == {None}
    assert of(results, "smoothness", "printed").holds  # a secant is a secant, whoever took it
    assert "may undo it" in of(results, "objective kept", "printed").verdict


def test_equal_strides_without_noise_are_never_called_violated():
    """L and G are read at the ends of the local work: what they do not cover, larger true ones may."""
    rng, untold = np.random.default_rng(0), 0
    for _ in range(300):
        p = random_quadratics(rng, 1, 4, 3)
        p = quadratic(p.data["hessians"][0], p.data["centres"][0], p.weights[0])
        lr = 10 ** rng.uniform(-2.5, 0.3) / p.smooth
        t = record(p, rng.normal(size=3), rng.integers(1, 13, (rng.integers(1, 6), 4)), lr)
        results = check_run(rows_of(t), PLAIN)
        judged = [r for r in results if r.name.startswith(("displacement", "gradient dev", "drift"))]
        assert not [r.verdict for r in judged if r.form == "corrected" and r.holds is False]
        untold += sum(r.holds is None for r in judged)
    assert 0 < untold < 30


@pytest.mark.parametrize(
    ("method", "counts"),
    [
        ("fedavg", lambda w, t: w * t),
        ("fednova", lambda w, t: w),
        ("amsfl", lambda w, t: w * (t + 1) ** 0.5),
        ("scaffold", lambda w, t: w * t),
    ],
)
def test_a_recorded_run_says_how_it_steps_and_mixes(method, counts, tmp_path):
    """From settings through the folder to the verdict; planned steps, so that they differ."""
    out = tmp_path / "run"
    amsfl.run(
        method=method, policy="price", profile="wild", readings=True, out=out, dataset=own_data(), **SMALL_RUN
    )
    results, moved = check_folder(out), []
    for row in read_run(out).rounds:
        w, t = np.array(row.plan["weights"]), np.array(row.steps)
        assert len(set(row.steps)) > 1
        counted = counts(w, t)
        moved.append(0.5 * np.abs(counted / counted.sum() - w / w.sum()).sum())
    assert shift(results) == pytest.approx(max(moved), abs=1e-9)
    assert of(results, "objective kept", "printed").holds is (method == "fednova")
    why = {"amsfl": "strides differ", "scaffold": "corrects its gradients"}.get(method)
    (drift,) = [r for r in results if (r.name, r.form) == ("drift accumulation", "corrected")]
    assert drift.holds is not False
    assert why is None or why in drift.verdict
    assert {r.holds for r in results if r.name == "displacement"} == {None if method == "scaffold" else True}
