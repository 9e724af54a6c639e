"""Every method: numbers by hand, the paper's pseudo-code, identities, and where each one comes to rest."""

import numpy as np
import pytest
from amsfl.methods.server_step import SCALARS
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratics import OPTIONS, PAPER, PLAIN, drive, line, paper_fedavg, paper_fednova, random_clients

from amsfl import protocol
from amsfl.core import Total, UserError, Verdict
from amsfl.methods import METHODS, Variant, extrapolate, make, optimize, server_optimizer

# Two clients on a line, F_i = (w - m_i)^2 / 2 with m = (0, 4), weights (1/4, 3/4), x = 2, lr = 1/2,
# steps (1, 2). Client 0: 2 -> 1, d_0 = -1. Client 1: 2 -> 3 -> 3.5, d_1 = 3/2.
TWO = line([1, 1], [0, 4], [0.25, 0.75])
ROUND = ([0, 1], [1, 2])
BY_HAND = {
    # 2 + 1/4 (-1) + 3/4 (3/2)
    "fedavg": (2.875, {}),
    "amsfl": (2.875, PLAIN),
    "amsfl-steps": (2.875, {"closing": 0.0, "balance": 0.0}),
    "amsfl-paper": (2.875, {}),
    "fedcsda": (2.875, {}),
    # v = D = 7/8
    "fedavgm": (2.875, {}),
    # m = 0.1 D; v = 0.99e-6 + 0.01 D^2
    "fedadam": (2 + 0.03 * 0.0875 / ((0.99e-6 + 0.01 * 0.765625) ** 0.5 + 1e-3), {}),
    # v = 1e-6 < D^2, so v grows by 0.01 D^2
    "fedyogi": (2 + 0.03 * 0.0875 / ((1e-6 + 0.01 * 0.765625) ** 0.5 + 1e-3), {}),
    # 2 + 0.6 * 7/8
    "fedasync": (2.525, {"rho": 0.0}),
    # each counts the same: 2 + (-1 + 3/2) / 2
    "fedbuff": (2.25, {}),
    # 2 + 0.9 * 7/8, shares as they are
    "fedcompass": (2.7875, {}),
    "fedsps": (2.875, {}),
    "delta-sgd": (2.875, {}),
    # mu = 1: client 1's second step has gradient (3-4) + (3-2) = 0, so d_1 = 1: 2 - 1/4 + 3/4
    "fedprox": (2.5, {"mu": 1.0}),
    # tau_eff = 1/4 + 3/4 * 2 = 7/4; mean steps -1 and 3/4: 2 + 7/4 (1/4 (-1) + 3/4 (3/4))
    "fednova": (2.546875, {}),
    # control variates are zero in round one
    "scaffold": (2.875, {}),
    # alpha = 1: d = (-1, 1) as FedProx; h = -(-1/4 + 3/4) = -1/2; x+ = 2.5 + 1/2
    "feddyn": (3.0, {"alpha": 1.0}),
}


@pytest.mark.parametrize("name", METHODS.table)
def test_one_round_by_hand(name):
    expected, options = BY_HAND[name]
    x, _, _ = drive(make(name, options), TWO, np.array([2.0]), [ROUND], lr=0.5)
    assert x == pytest.approx([expected], abs=1e-14)


def test_scaffold_second_round_by_hand():
    """c_0 = (2-1)/(1*0.5) = 2, c_1 = (2-3.5)/(2*0.5) = -1.5, c = 1/4*2 - 3/4*1.5 = -0.625.

    From 2.875: client 0 steps along 2.875 - 2 - 0.625 = 0.25 to 2.75; client 1 along
    -1.125 + 1.5 - 0.625 = -0.25 to 3, then -1 + 1.5 - 0.625 = -0.125 to 3.0625.
    x = 2.875 + 1/4 (-0.125) + 3/4 (0.1875) = 2.984375.
    """
    x, control, states = drive(make("scaffold"), TWO, np.array([2.0]), [ROUND], lr=0.5)
    assert control == pytest.approx([-0.625]) and states[0] == pytest.approx([2.0])
    assert states[1] == pytest.approx([-1.5])
    x, _, _ = drive(make("scaffold"), TWO, np.array([2.0]), [ROUND, ROUND], lr=0.5)
    assert x == pytest.approx([2.984375])


def test_fedcsda_teacher_by_hand():
    """Starts as the first model, then 0.9 * 2 + 0.1 * 2.875."""
    _, teacher, _ = drive(make("fedcsda"), TWO, np.array([2.0]), [ROUND], lr=0.5)
    assert teacher == pytest.approx([2.0875])


def test_extrapolation_by_hand():
    """sum w d^2 = 1/4 + 3/4 * 9/4 = 1.9375; mean d = 0.875; s = 1.9375 / (2 * 0.765625) = 1.26531."""
    x, _, _ = drive(extrapolate(make("fedavg")), TWO, np.array([2.0]), [ROUND], lr=0.5)
    assert x == pytest.approx([2 + 0.875 * 1.9375 / 1.53125])
    capped, _, _ = drive(extrapolate(make("fedavg"), cap=1.1), TWO, np.array([2.0]), [ROUND], lr=0.5)
    assert capped == pytest.approx([2 + 0.875 * 1.1])


def test_amsfl_server_by_hand():
    """d = (-1, 3/2), tau = steps + 1 = (2, 3), w = (1/4, 3/4), half normalised:

    E = (sqrt 2 + 3 sqrt 3) / 4;  u = (E / (4 sqrt 2), 3 E / (4 sqrt 3));  D = u . d;
    s = 1/2 u . d^2 / D^2, at most 2, and m = 1/4 in the first round: x+ = 2 + s D is scored, and the
    next anchor is a quarter further.
    """
    even = (2**0.5 + 3 * 3**0.5) / 4
    u, d = np.array([even / (4 * 2**0.5), 3 * even / (4 * 3**0.5)]), np.array([-1, 1.5])
    s = np.clip(0.5 * (u @ d**2) / (u @ d) ** 2, 1, 2)
    moved = s * (u @ d)
    method = make("amsfl", {"polyak": 0.0})
    anchor, state, _ = drive(method, TWO, np.array([2.0]), [ROUND], lr=0.5)
    assert method.arithmetic.model(anchor, state) == pytest.approx([2 + moved])
    assert anchor == pytest.approx([2 + 1.25 * moved])


STEP_ALONE = {"momentum": 0.0, "averaging": 0.0}


def after(method, deltas, x, slopes=()):
    """Anchor, scored model and server step after rounds whose mean delta (and slopes) is given."""
    anchor, server = np.array(x, float), method.arithmetic.init(np.array(x, float))[0]
    for delta, (begin, end, ways) in zip(deltas, slopes or [(0.0, 0.0, 0.0)] * len(deltas), strict=True):
        delta = np.array(delta, float)
        extra = anchor[:0] if method.arithmetic.second is None else delta
        total = Total(delta, extra, delta @ delta, begin, end, ways)
        anchor, server = method.arithmetic.aggregate(anchor, total, np.ones(1), np.ones(1), server)
    return anchor, method.arithmetic.model(anchor, server), server[-SCALARS]


def test_the_servers_step_follows_the_two_slopes():
    """A = 2 and E = 1: the way should have been 2 times as long: sqrt(2/0.7), 1.4 at most. A <= E: as far as
    allowed. A <= 0: shorter, but never below 1. Nobody says anything: as it was. The second time by the
    mean of old and new slopes."""
    method, none = make("amsfl", STEP_ALONE), (0.0, 0.0, 0.0)
    for slopes, expected in [
        ([none, (2.0, 1.0, 1.0)], 1.4),
        ([none, (2.0, 0.5, 1.0)], (4 / 3 / 0.7) ** 0.5),
        ([none, (1.0, 1.5, 1.0)], 1.4),
        ([none, (-1.0, 0.5, 1.0)], 1.0),
        ([none, none], 1.0),
        ([none, (2.0, 0.0, 1.0), (0.0, 0.0, 1.0)], (1 / 0.7) ** 0.5 * (1 / 0.7) ** 0.5),
    ]:
        _, _, s = after(method, [[1.0]] * len(slopes), [0.0], slopes)
        assert s == pytest.approx(expected)


def test_a_round_that_is_not_finite_leaves_the_server_where_it_is():
    method = make("amsfl")
    anchor, mean, s = after(method, [[np.nan]], [3.0])
    assert (anchor, mean, s) == ([3.0], [3.0], 1.0)


def test_verdicts_by_hand():
    """Better: this round's anchor is the best. Back: all of it is at the best one. Restart: at the first."""
    method = make("amsfl")
    anchor, server = np.zeros(1), method.arithmetic.init(np.zeros(1))[0]
    revise = method.arithmetic.revise
    for _ in range(2):
        total = Total(np.ones(1), anchor[:0], 1.0)
        anchor, server = method.arithmetic.aggregate(anchor, total, np.ones(1), np.ones(1), server)
    second = 1.25  # after the first round: 1, and a quarter of its way ahead
    kept, better = revise(anchor, server, Verdict.BETTER)
    assert kept == anchor and better[2] == second
    assert revise(anchor, better, Verdict.BACK)[0] == second
    back, state = revise(anchor, server, Verdict.BACK)
    assert back == 0 and method.arithmetic.model(back, state) == 0
    again, state = revise(anchor, better, Verdict.RESTART)
    assert again == 0 and state[5] == 1 and state[10] == 1


def test_momentum_and_the_mean_by_hand():
    """s = 1. Rounds of D = 1 from 0: m = 1/4, 2/5, or 1/4 for a limit of 1/4.

    x = 1, a = 1 + 1/4; x = 9/4, a = 9/4 + 2/5 * 5/4. The mean with p = 20: 1, then 1 + 20/21 * 5/4.
    """
    bare = {"search": 0.0}
    anchor, mean, _ = after(make("amsfl", bare), [[1.0]] * 2, [0.0])
    assert anchor == pytest.approx([2.25 + 0.5]) and mean == pytest.approx([1 + 25 / 21])
    anchor, mean, _ = after(make("amsfl", bare | {"momentum": 0.25, "averaging": 0.0}), [[1.0]] * 2, [0.0])
    assert anchor == pytest.approx([2.25 + 0.3125]) and mean == pytest.approx([2.25])


def test_the_server_does_not_care_about_the_scale_of_the_model():
    """All deltas a hundred times as long: the same steps, a hundred times as far."""
    rng = np.random.default_rng(1)
    deltas = rng.normal(size=(12, 3))
    small, large = (after(make("amsfl"), scale * deltas, np.zeros(3)) for scale in (1.0, 100.0))
    assert small[2] == pytest.approx(large[2]) and 100 * small[0] == pytest.approx(large[0])


def local(method, grad, x, lr, steps):
    """Lengths of a client's local steps, by the protocol's own lines."""
    carry, lengths = protocol.begin(method, protocol.LocalState(x, x[:0], x[:0], lr)), []
    for _ in range(steps):
        before, g = carry.x, grad(carry.x)
        carry = protocol.local_step(method, carry, 0.0, g)
        lengths.append(float(np.linalg.norm(before - carry.x) / np.linalg.norm(g)))
    return lengths


def test_delta_sgd_by_hand():
    """F = h x^2 / 2: ||dy|| / ||dg|| = 1/h, so gamma / 2h = 1/h bounds a step, or growth does.

    h = 1/2, lr = 0.1: sqrt(1.1) 0.1, then with growth sqrt(1.1) that times sqrt(1 + 0.1 sqrt(1.1)).
    h = 20, lr = 0.1: the second step is 1/20, its growth 1/2, which a Newton step ends.
    """
    method, x = make("delta-sgd"), np.array([3.0])
    second = 1.1**0.5 * 0.1
    third = (1 + 0.1 * 1.1**0.5) ** 0.5 * second
    assert local(method, lambda w: 0.5 * w, x, 0.1, 3) == pytest.approx([0.1, second, third])
    assert local(method, lambda w: 20 * w, x, 0.1, 2) == pytest.approx([0.1, 0.05])
    flat = local(method, lambda w: np.ones(1), x, 0.1, 2)
    assert flat == pytest.approx([0.1, second]), "a gradient that does not change bounds nothing"
    assert (
        make("delta-sgd", {"adam": 0.03}).arithmetic.aggregate is not make("delta-sgd").arithmetic.aggregate
    )


def test_fedsps_stride_is_the_papers():
    """(F - 0) / (c ||g||^2) with c = 1/2; the bound gamma_b is the run's lr."""
    assert make("fedsps").arithmetic.stride(0.5, 2.0) == pytest.approx(0.5)
    assert make("fedsps", {"c": 1.0}).arithmetic.stride(0.5, 2.0) == pytest.approx(0.25)


def test_amsfl_balance_of_one_is_fednova():
    """Without its other parts; the closing step would count, so it is off."""
    rounds = [([0, 1, 2], [1, 4, 2]), ([0, 2], [3, 1])]
    clients, x = random_clients(3, 3, 7), np.ones(3)
    ours, _, _ = drive(make("amsfl", PLAIN | {"balance": 1.0}), clients, x, rounds, lr=0.1)
    np.testing.assert_allclose(ours, drive(make("fednova"), clients, x, rounds, lr=0.1)[0], rtol=1e-12)


def test_amsfl_stride_is_the_polyak_length_capped():
    """loss / ||g||^2 = 0.5 / 2: for a quadratic with minimum 0 that is half of Newton's step."""
    stride = make("amsfl").arithmetic.stride
    assert stride(0.5, 2.0) == pytest.approx(0.25)
    assert stride(0.0, 0.0) == 0.0
    assert stride(-3.0, 2.0) == 0.0, "a loss below zero says nothing about a length"
    assert make("amsfl", {"polyak": 0.0}).arithmetic.stride is None


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("polyak", [1.0, 2.0])
def test_a_cut_step_never_goes_away_from_a_point_of_no_loss(polyak, seed):
    """|<a, x - x*>| is the tight case: beyond twice the length x is further away."""
    rng = np.random.default_rng(seed)
    row = rng.normal(size=6) * 10.0 ** rng.uniform(-3, 3)
    solution, x = rng.normal(size=6), 10.0 ** rng.uniform(-2, 2) * rng.normal(size=6)
    miss = row @ (x - solution)
    grad = np.sign(miss) * row
    stride = make("amsfl", {"polyak": polyak}).arithmetic.stride
    after = x - stride(abs(miss), grad @ grad) * grad
    assert np.linalg.norm(after - solution) <= np.linalg.norm(x - solution) * (1 + 1e-9)


def test_extrapolation_does_not_depend_on_the_scale_of_the_mix():
    """FedNova with equal steps mixes by w/t; its FedExP step must still be FedAvg's."""
    rounds = [([0, 1], [3, 3])]
    a = drive(extrapolate(make("fedavg")), TWO, np.array([2.0]), rounds, lr=0.1)[0]
    b = drive(extrapolate(make("fednova")), TWO, np.array([2.0]), rounds, lr=0.1)[0]
    assert a == pytest.approx(b)


def test_extrapolation_of_no_movement_is_no_movement():
    method = extrapolate(make("fedavg"))
    still = Total(np.zeros(2), np.zeros(0), np.float64(0))
    x, _ = method.arithmetic.aggregate(np.ones(2), still, np.array([1.0]), np.array([1.0]), np.zeros(0))
    assert np.array_equal(x, np.ones(2))


def some_rounds(seed: int, clients: int, count: int) -> list[tuple[list[int], list[int]]]:
    """Random cohorts with random steps."""
    rng = np.random.default_rng(seed)
    cohorts = [rng.choice(clients, rng.integers(1, clients + 1), replace=False) for _ in range(count)]
    return [(c.tolist(), rng.integers(1, 6, len(c)).tolist()) for c in cohorts]


@pytest.mark.parametrize("name", METHODS.table)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**16), d=st.integers(1, 4))
def test_against_the_papers_pseudo_code(name, seed, d):
    """Unequal weights, unequal steps, partial cohorts, several rounds."""
    clients = random_clients(4, d, seed)
    rounds, x = some_rounds(seed, 4, 5), np.ones(d)
    ours, _, _ = drive(make(name, OPTIONS.get(name)), clients, x, rounds, lr=0.05)
    theirs = PAPER[name](clients, x, rounds, 0.05)
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "options", "rounds"),
    [
        ("fedprox", {"mu": 0.0}, [([0, 1, 2], [1, 4, 2]), ([0, 2], [3, 1])]),
        ("fednova", {}, [([0, 1, 2], [3, 3, 3]), ([0, 2], [5, 5])]),
        ("scaffold", {}, [([0, 1, 2], [1, 4, 2])]),
        ("amsfl", PLAIN, [([0, 1, 2], [1, 4, 2]), ([0, 2], [3, 1])]),
        ("amsfl", PLAIN | {"balance": 1.0}, [([0, 1, 2], [3, 3, 3])]),
        ("fedcsda", {}, [([0, 1, 2], [1, 4, 2])]),
    ],
)
def test_is_fedavg_where_theory_says_so(name, options, rounds):
    clients, x = random_clients(3, 3, 7), np.ones(3)
    ours, _, _ = drive(make(name, options), clients, x, rounds, lr=0.1)
    np.testing.assert_allclose(ours, paper_fedavg(clients, x, rounds, 0.1), rtol=1e-12)


def test_feddyn_round_one_is_fedprox_twice_as_far():
    """g_i = 0, so locally mu = alpha; h = -alpha * mean delta, so the server adds the mean twice."""
    clients, x, rounds = random_clients(3, 3, 7), np.ones(3), [([0, 1, 2], [1, 4, 2])]
    ours, _, _ = drive(make("feddyn", {"alpha": 0.3}), clients, x, rounds, lr=0.1)
    prox = paper_fedavg(clients, x, rounds, 0.1, mu=0.3)
    np.testing.assert_allclose(ours - x, 2 * (prox - x), rtol=1e-12)


H, M, W, T = [1.0, 3.0, 0.5], [-2.0, 1.0, 5.0], [0.3, 0.4, 0.3], [8, 1, 3]


def at_rest(name: str, lr: float, rounds: int = 4000) -> float:
    clients = line(H, M, W)
    return float(drive(make(name), clients, np.zeros(1), [([0, 1, 2], T)] * rounds, lr)[0][0])


def rest_point(pull: np.ndarray) -> float:
    return float((pull * M).sum() / pull.sum())


def test_where_fedavg_and_fednova_rest():
    """y_i - m_i = (1 - lr h_i)^t (x - m_i), so FedAvg rests where sum w_i a_i (m_i - x) = 0 with
    a_i = 1 - (1 - lr h_i)^t_i, and FedNova where a_i / t_i stands for a_i. As lr -> 0, a_i -> lr t_i h_i:
    FedAvg goes to the minimum of the step-weighted objective, FedNova to the true one.
    """
    h, w, t = np.array(H), np.array(W), np.array(T, float)
    truth = rest_point(w * h)
    gaps = []
    for lr in (0.02, 0.01):
        moved = 1 - (1 - lr * h) ** t
        assert at_rest("fedavg", lr) == pytest.approx(rest_point(w * moved), abs=1e-9)
        assert at_rest("fednova", lr) == pytest.approx(rest_point(w * moved / t), abs=1e-9)
        gaps.append((abs(at_rest("fedavg", lr) - truth), abs(at_rest("fednova", lr) - truth)))
    biased = abs(rest_point(w * h * t) - truth)
    assert biased > 0.5  # the objective inconsistency of unequal steps
    assert gaps[1][0] == pytest.approx(biased, rel=0.15)  # FedAvg's gap stays as lr falls
    assert gaps[1][1] < 0.1 * gaps[1][0]
    assert gaps[1][1] == pytest.approx(gaps[0][1] / 2, rel=0.1)  # FedNova's goes to 0 with lr


@pytest.mark.parametrize("name", ["scaffold", "feddyn"])
def test_control_variates_rest_on_the_weighted_optimum(name):
    """Unequal weights AND unequal steps, at a learning rate that is not small."""
    clients = line(H, M, W)
    rounds = [([0, 1, 2], T)] * 3000
    x, server, _ = drive(make(name), clients, np.zeros(1), rounds, lr=0.1)
    assert x == pytest.approx(clients.optimum, abs=1e-8)
    assert server == pytest.approx([0.0], abs=1e-7)


@pytest.mark.parametrize("name", ["scaffold", "feddyn"])
def test_partial_cohorts_still_rest_on_the_optimum(name):
    """1/N counts all clients: with a cohort's share instead, the server state would run away."""
    clients = line(H, M, W)
    rng = np.random.default_rng(0)
    cohorts = [sorted(rng.choice(3, 2, replace=False).tolist()) for _ in range(6000)]
    rounds = [(cohort, [T[i] for i in cohort]) for cohort in cohorts]
    options = {"alpha": 0.5} if name == "feddyn" else {}
    x, _, _ = drive(make(name, options), clients, np.zeros(1), rounds, lr=0.1)
    assert x == pytest.approx(clients.optimum, abs=1e-4)


@pytest.mark.parametrize("name", METHODS.table)
def test_weights_do_not_come_from_steps(name):
    """Where clients do not move, nothing moves, however many steps they did."""
    at_optimum = line([1, 1], [3, 3], [0.1, 0.9])
    x, _, _ = drive(make(name), at_optimum, np.array([3.0]), [([0, 1], [1, 50])], lr=0.5)
    assert x == pytest.approx([3.0])


@pytest.mark.parametrize("name", METHODS.table)
def test_functions_run_on_torch_tensors(name):
    """The same functions, three frameworks (jax's are tested with the engines)."""
    torch = pytest.importorskip("torch")
    method = make(name, OPTIONS.get(name))
    rng = np.random.default_rng(3)
    x, y, g = rng.normal(size=(3, 6))

    def once(wrap):
        a, b, grad = wrap(x), wrap(y), wrap(g)
        server, client = method.arithmetic.init(a)
        corrected = method.arithmetic.correct(grad, b, a, server, client)
        sent, client = method.arithmetic.report(b, a, 3.0, 0.1, server, client)
        weights, steps = wrap(np.array([0.2, 0.3])), wrap(np.array([3.0, 1.0]))
        total = Total(*(method.arithmetic.mix(weights, steps)[0] * part for part in sent))
        return [corrected, *sent, client, *method.arithmetic.aggregate(a, total, weights, steps, server)]

    for ours, theirs in zip(once(lambda v: v), once(torch.tensor), strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=0, atol=1e-14)


def test_unknown_names_raise_user_errors():
    with pytest.raises(UserError, match="did you mean 'fedavg'"):
        make("fedavgg")
    with pytest.raises(UserError, match="'fedprox' has no setting 'nu'"):
        make("fedprox", {"nu": 1.0})
    with pytest.raises(UserError, match="it has none"):
        make("fedavg", {"mu": 1.0})


def test_costs_are_declared():
    """Two vectors each way for SCAFFOLD's control variates, one gradient more for AMSFL's reading."""
    costs = {name: make(name) for name in METHODS.table}
    assert costs["scaffold"].cost[:2] == (2, 2)
    assert costs["amsfl"].cost.extra_gradients == 1 and costs["amsfl"].facts.readings
    assert costs["fedcsda"].cost.vectors_down == 2
    assert "reading of the name" in costs["fedcsda"].facts.note
    assert all(method.facts.title for method in costs.values())


@pytest.mark.parametrize("spelled, name", [("adam", "fedadam"), ("yogi", "fedyogi"), ("momentum", "fedavgm")])
def test_a_server_optimizer_over_fedavg_is_the_method_of_that_name(spelled, name):
    clients = random_clients(3, 4, 0)
    rounds = [([0, 1, 2], [1, 3, 2]), ([0, 2], [2, 1])] * 3
    x = np.ones(4)
    composed, plain = optimize(make("fedavg"), server_optimizer(spelled)), make(name)
    found, wanted = (drive(method, clients, x, rounds, lr=0.1)[0] for method in (composed, plain))
    np.testing.assert_array_equal(found, wanted)


def test_adam_over_fednova_takes_its_step_for_a_gradient():
    """Algorithm 2 of arXiv 2003.00295, its pseudo-gradient the move that FedNova's pseudo-code makes."""
    clients, rate = random_clients(3, 4, 0), 0.2
    rounds = [([0, 1, 2], [1, 3, 2]), ([0, 2], [2, 1])] * 3
    x = start = np.ones(4)
    m, v = 0 * x, 0 * x + 1e-6
    for each in rounds:
        delta = paper_fednova(clients, x, [each], 0.1) - x
        m, v = 0.8 * m + 0.2 * delta, 0.99 * v + 0.01 * delta**2
        x = x + rate * m / (np.sqrt(v) + 1e-3)
    method = optimize(make("fednova"), server_optimizer("adam:0.2/0.8"))
    found = drive(method, clients, start, rounds, lr=0.1)[0]
    np.testing.assert_allclose(found, x, rtol=1e-10)
    assert (method.name, method.title) == ("fednova+fedadam", "FedNova + FedAdam")


def test_adam_over_scaffold_keeps_both_states():
    """SCAFFOLD's pseudo-code, its mean move given to Algorithm 2 of arXiv 2003.00295; c goes on as ever."""
    clients, lr, rate = random_clients(3, 4, 0), 0.1, 0.2
    rounds = [([0, 1, 2], [1, 3, 2]), ([0, 2], [2, 1])] * 3
    x = start = np.ones(4)
    m, v, c, own = 0 * x, 0 * x + 1e-6, 0 * x, [0 * x for _ in range(3)]
    for cohort, steps in rounds:
        share, delta, fresh = clients.weights[cohort] / clients.weights[cohort].sum(), 0 * x, list(own)
        for part, i, count in zip(share, cohort, steps, strict=True):
            y = x
            for _ in range(count):
                y = y - lr * (clients.grad(i, y) - own[i] + c)
            fresh[i], delta = own[i] - c + (x - y) / (count * lr), delta + part * (y - x)
        c = c + sum(clients.weights[i] * (fresh[i] - own[i]) for i in cohort)
        own, m, v = fresh, 0.9 * m + 0.1 * delta, 0.99 * v + 0.01 * delta**2
        x = x + rate * m / (np.sqrt(v) + 1e-3)
    method = optimize(make("scaffold"), server_optimizer("adam:0.2"))
    found, state, states = drive(method, clients, start, rounds, lr)
    np.testing.assert_allclose(found, x, rtol=1e-10)
    np.testing.assert_allclose(state, np.concatenate([c, m, v]), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(states, own, rtol=1e-10, atol=1e-15)
    np.testing.assert_array_equal(protocol.sent_state(method, state, found), state[:4])


@pytest.mark.parametrize("spelled", ["momentum:0.5", "adam:0.01/0.5/0.9"])
@pytest.mark.parametrize("name", ["scaffold", "feddyn"])
def test_control_variates_under_an_optimizer_still_rest_on_the_optimum(name, spelled):
    """Where D = 0 and the states stay, c is the mean gradient and h is 0: the weighted optimum, by both."""
    clients = random_clients(3, 2, 1)
    method = optimize(make(name), server_optimizer(spelled))
    rounds = [([0, 1, 2], [2, 3, 1])] * 1500
    found, plain = (drive(each, clients, np.ones(2), rounds, lr=0.1)[0] for each in (method, make("fedavg")))
    np.testing.assert_allclose(found, clients.optimum, atol=2e-3)
    assert np.linalg.norm(plain - clients.optimum) > 0.02


def test_an_optimizer_takes_the_place_of_amsfls_own_server():
    """The mean delta of AMSFL's clients, and Adam's step along it: no search, no second momentum, no mean."""
    method, plain = optimize(make("amsfl"), server_optimizer("adam")), make("fedadam")
    assert method.arithmetic.stride is not None and method.arithmetic.closing
    assert method.facts.own_rate and method.facts.policy == "price"
    x, delta = np.arange(3.0), np.array([0.5, -1.0, 0.25])
    state, wanted = method.arithmetic.init(x)[0], plain.arithmetic.init(x)[0]
    for _ in range(3):
        total = Total(delta, delta[:0], 1.0)
        (x, state), (y, wanted) = (
            each.arithmetic.aggregate(x, total, np.ones(1), np.ones(1), held)
            for each, held in ((method, state), (plain, wanted))
        )
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(method.arithmetic.model(x, state), x)


def test_invalid_server_optimizers():
    from amsfl.simulation import CustomParts, make_config
    from amsfl.simulation.components import method_of

    for name in ("fedadam", "fedavgm", "fedyogi"):
        with pytest.raises(UserError, match="server optimizer"):
            method_of(make_config({"method": name, "server_optimizer": "adam"}), CustomParts())
    with pytest.raises(UserError, match="2 server optimizers"):
        method_of(make_config({"method": "fedavg", "server_optimizer": "adam,yogi"}), CustomParts())
    with pytest.raises(UserError, match="Unknown server optimizer 'sgd'"):
        method_of(make_config({"method": "fedavg", "server_optimizer": "sgd"}), CustomParts())
    planned = method_of(make_config({"method": "amsfl-steps", "server_optimizer": "yogi"}), CustomParts())
    adapted = planned.adapted(Variant(client_optimizer=True))
    assert adapted.name == planned.name and not adapted.arithmetic.closing
    assert adapted.arithmetic.init(np.zeros(3))[0].size == 6  # still the optimizer's state
    from amsfl.privacy import record_level

    config = make_config({"method": "amsfl", "server_optimizer": "yogi"})
    private = method_of(config, CustomParts(), record_level())
    assert private.private_rows.clip == 1.0


def test_a_server_optimizer_in_both_engines():
    import amsfl

    common = {"data": "digits", "model": "softmax", "clients": 3, "rounds": 2, "steps": 2, "batch": 16}
    common |= {"method": "scaffold", "server_optimizer": "yogi:0.1", "policy": "fixed"}
    jax, loop = (amsfl.run(**common, engine=engine) for engine in ("jax", "loop"))
    np.testing.assert_allclose(jax.params, loop.params, rtol=2e-4, atol=2e-6)
