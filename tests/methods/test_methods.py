"""Every method: numbers by hand, the paper's pseudo-code, identities, and where each one comes to rest."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratics import OPTIONS, PAPER, PLAIN, drive, line, paper_fedavg, random_clients

import amsfl
from amsfl import protocol
from amsfl.core import Total, UserError
from amsfl.methods import METHODS, make, optimize, server_optimizer
from amsfl.methods.changes import Extrapolated

# Two clients on a line, F_i = (w - m_i)^2 / 2 with m = (0, 4), weights (1/4, 3/4), x = 2, lr = 1/2,
# steps (1, 2). Client 0: 2 -> 1, d_0 = -1. Client 1: 2 -> 3 -> 3.5, d_1 = 3/2.
TWO = line([1, 1], [0, 4], [0.25, 0.75])
ROUND = ([0, 1], [1, 2])
BY_HAND = {
    # 2 + 1/4 (-1) + 3/4 (3/2)
    "fedavg": (2.875, {}),
    "amsfl": (2.875, PLAIN),
    "amsfl-steps": (2.875, {}),
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
    # the mean of both as one change of four: 2 + 0.7 * (1/4) / 4
    "delayed-nesterov": (2.04375, {}),
    # 2 + 0.9 * 7/8, shares as they are
    "fedcompass": (2.7875, {}),
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
    x, _, _ = drive(Extrapolated(make("fedavg")), TWO, np.array([2.0]), [ROUND], lr=0.5)
    assert x == pytest.approx([2 + 0.875 * 1.9375 / 1.53125])
    capped, _, _ = drive(Extrapolated(make("fedavg"), cap=1.1), TWO, np.array([2.0]), [ROUND], lr=0.5)
    assert capped == pytest.approx([2 + 0.875 * 1.1])


def test_extrapolation_knows_no_scale_and_leaves_what_rests():
    """FedNova with equal steps mixes by w/t; its FedExP step must still be FedAvg's."""
    ours, theirs = (
        drive(Extrapolated(make(name)), TWO, np.array([2.0]), [([0, 1], [3, 3])], lr=0.1)[0]
        for name in ("fedavg", "fednova")
    )
    assert ours == pytest.approx(theirs)
    still = Total(np.zeros(2), np.zeros(0), np.float64(0))
    aggregate = Extrapolated(make("fedavg")).aggregate
    assert np.array_equal(aggregate(np.ones(2), still, np.ones(1), np.ones(1), np.zeros(0))[0], np.ones(2))


def some_rounds(seed: int, clients: int, count: int) -> list[tuple[list[int], list[int]]]:
    """Random cohorts with random steps."""
    rng = np.random.default_rng(seed)
    cohorts = [rng.choice(clients, rng.integers(1, clients + 1), replace=False) for _ in range(count)]
    return [(c.tolist(), rng.integers(1, 6, len(c)).tolist()) for c in cohorts]


@pytest.mark.parametrize("name", METHODS.table)
@settings(max_examples=8, deadline=None)
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
        ("amsfl", PLAIN | {"balance": 0.7}, [([0, 1, 2], [3, 3, 3])]),
        ("amsfl-steps", {"balance": 1.0}, [([0, 1, 2], [3, 3, 3])]),
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


def at_rest(name: str, lr: float, rounds: int = 500) -> float:
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


@pytest.mark.parametrize("optimizer", ["", "momentum:0.5"])
@pytest.mark.parametrize("name", ["scaffold", "feddyn"])
def test_control_variates_rest_on_the_weighted_optimum(name, optimizer):
    """Unequal weights and steps, at a rate that is not small; under an optimizer as well."""
    clients, method = line(H, M, W), make(name)
    method = optimize(method, server_optimizer(optimizer)) if optimizer else method
    x, server, _ = drive(method, clients, np.zeros(1), [([0, 1, 2], T)] * 1000, lr=0.1)
    assert x == pytest.approx(clients.optimum, abs=1e-8)
    assert server[:1] == pytest.approx([0.0], abs=1e-7)


@pytest.mark.parametrize("name", ["scaffold", "feddyn"])
def test_partial_cohorts_still_rest_on_the_optimum(name):
    """1/N counts all clients: with a cohort's share instead, the server state would run away."""
    clients = line(H, M, W)
    rng = np.random.default_rng(0)
    cohorts = [sorted(rng.choice(3, 2, replace=False).tolist()) for _ in range(800)]
    options = {"alpha": 0.5} if name == "feddyn" else {}
    rounds = [(cohort, [T[i] for i in cohort]) for cohort in cohorts]
    x, _, _ = drive(make(name, options), clients, np.zeros(1), rounds, lr=0.1)
    assert x == pytest.approx(clients.optimum, abs=1e-4)


@pytest.mark.parametrize("name", METHODS.table)
def test_weights_do_not_come_from_steps(name):
    """Where clients do not move, nothing moves, however many steps they did."""
    at_optimum = line([1, 1], [3, 3], [0.1, 0.9])
    x, _, _ = drive(make(name), at_optimum, np.array([3.0]), [([0, 1], [1, 50])], lr=0.5)
    assert x == pytest.approx([3.0])


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


def test_invalid_server_optimizers():
    from amsfl.simulation import CustomParts, make_config
    from amsfl.simulation.components import federation_of

    def made(method, optimizer):
        settings = {"method": method, "server_optimizer": optimizer}
        return federation_of(make_config(settings), CustomParts()).method

    for method in ("fedadam", "fedavgm", "fedyogi", "amsfl"):
        with pytest.raises(UserError, match=r"server of .* has a step of its own"):
            made(method, "adam")
    for optimizer, said in (("adam,yogi", "2 server optimizers"), ("sgd", "Unknown server optimizer 'sgd'")):
        with pytest.raises(UserError, match=said):
            made("fedavg", optimizer)
    planned = made("amsfl-steps", "yogi")
    assert planned.facts.policy == "price" and planned.init(np.zeros(3))[0].size == 6


def test_delayed_nesterov_is_nesterov_by_the_mean_of_n_changes() -> None:
    """m_1 = g, x = -(g + 0.9 m_1) / 2; m_2 = 0.9 m_1 + h, x further by -(h + 0.9 m_2) / 2."""
    method = make("delayed-nesterov", {"server_lr": 0.5, "every": 3})
    x = np.zeros(2)
    server, one = method.init(x)[0], np.ones(1)
    for changes in ([[1.0, 0.0], [2.0, 3.0], [0.0, 3.0]], [[1.0, 1.0], [2.0, -1.0], [3.0, 3.0]]):
        for change in np.array(changes):
            x, server = method.aggregate(x, Total(change, change[:0], 1.0), one, one, server)
    g, h = np.array([1.0, 2.0]), np.array([2.0, 1.0])
    np.testing.assert_allclose(x, 0.5 * (g + 0.9 * g + h + 0.9 * (0.9 * g + h)))


def test_momentum_that_waits_survives_stale_changes() -> None:
    """As in arXiv 2401.09135: momentum with every stale change fails where momentum that waits trains."""
    common = {"data": "digits", "profile": "wild", "clock": "makespan", "clients": 8, "lr": 0.1, "seconds": 6}
    common |= {"engine": "loop", "eval_every": 200, "details": "", "progress": False, "policy": "speed"}
    each = {"method": "fedbuff", "round_end": "buffer:1", "server_optimizer": "momentum:0.9"}
    each |= {"options": {"server_lr": 0.7 / 8}}
    late = amsfl.run(**common, method="delayed-nesterov", options={"every": 8})
    assert late.accuracy > amsfl.run(**common, **each).accuracy + 0.3
