"""The scheduler against every plan there is; the limits that it keeps, and the order that it keeps to."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amsfl.planning import Problem, Signals, policy, problem

price = policy("price")
pytestmark = pytest.mark.filterwarnings("error")


def step_worth(p: Problem, i: int, s: int) -> float:
    """w_i gain_i exp(-fading_i s) from the definition, in plain Python."""
    return float(p.weights[i] * p.gain[i]) * math.exp(-float(p.fading[i]) * s)


def everything(p: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All plans there are, what each is worth, and its seconds."""
    grid = np.meshgrid(*(np.arange(1, top + 1) for top in p.most), indexing="ij")
    plans = np.stack([each.ravel() for each in grid], axis=1)
    worth = np.zeros(len(plans))
    for i, top in enumerate(p.most):
        worth += np.cumsum([step_worth(p, i, s) for s in range(top)])[plans[:, i] - 1]
    each = plans * p.step_seconds + p.comm_seconds
    return plans, worth, each.sum(1) if p.clock == "sum" else each.max(1)


def score(p: Problem, worth: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """What the best plan has most of, of plans that keep to the budget."""
    if p.budget is None:
        return worth / seconds
    return np.where(seconds <= p.budget * (1 + 1e-9), worth, -np.inf)


def random_problem(seed: int, **fixed) -> Problem:
    """A small problem; a third of the columns hold round numbers, so that ties and exact fits happen."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))

    def column(low: float, high: float) -> np.ndarray:
        round_numbers = rng.choice([0.1, 0.2, 0.3, 0.5, 1.0, 2.0], n)
        return round_numbers if rng.random() < 0.3 else rng.uniform(low, high, n)

    w, c, b, gain, fading = column(0, 1), column(0.05, 2), column(0, 1), column(0, 2), column(0, 1)
    if rng.random() < 0.1:
        fading = np.zeros(n)
    if rng.random() < 0.1:
        gain[0] = 0.0
    clock = fixed.get("clock") or str(rng.choice(["sum", "makespan"]))
    once = (c + b).sum() if clock == "sum" else (c + b).max()
    budget = float(once * rng.uniform(1, 4)) if fixed.get("budget", rng.random() < 0.6) else None
    return problem(w, c, b, gain, fading, clock=clock, most=rng.integers(1, 7, n), budget=budget)


def problems(**fixed) -> st.SearchStrategy[Problem]:
    return st.integers(0, 2**32 - 1).map(lambda seed: random_problem(seed, **fixed))


def crowd(seed: int, n: int, **settings) -> Problem:
    """Too many clients and steps to try all plans."""
    rng = np.random.default_rng(seed)
    return problem(
        rng.dirichlet(np.ones(n)), rng.lognormal(-4, 1, n), rng.uniform(0, 0.1, n), rng.lognormal(0, 1, n),
        rng.lognormal(-2, 1, n), **settings,
    )  # fmt: skip


@given(problems(), st.integers(0, 10**6))
def test_closed_forms_are_the_sums_they_stand_for(p: Problem, pick: int) -> None:
    plans, worth, took = everything(p)
    k = pick % len(plans)
    assert p.worth(plans[k]) == pytest.approx(worth[k], rel=1e-9, abs=1e-14)
    assert p.seconds(plans[k]) == pytest.approx(took[k], rel=1e-12)
    expected = [step_worth(p, i, int(s)) for i, s in enumerate(plans[k])]
    np.testing.assert_allclose(p.step_worth(plans[k]), expected, rtol=1e-12, atol=1e-16)


@given(p=problems())
def test_no_plan_is_better(p: Problem) -> None:
    """Per second and by a deadline. Within a sum of seconds the relaxed optimum is the plan up to the first
    step that did not fit, and a piece of that step: nothing is better by more than one step."""
    plan = price(p)
    assert (plan.steps >= 1).all() and (plan.steps <= p.most).all() and p.fits(plan.steps)
    assert plan.seconds == p.seconds(plan.steps)
    _, worth, took = everything(p)
    best = score(p, worth, took).max()
    reached = score(p, np.array([p.worth(plan.steps)]), np.array([plan.seconds]))[0]
    one = float(p.step_worth(plan.steps).max()) if p.clock == "sum" and p.budget is not None else 0.0
    assert best - one <= reached * (1 + 1e-9) + 1e-12 and reached <= best * (1 + 1e-9) + 1e-15


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.floats(1, 9))
def test_steps_are_taken_in_the_order_of_their_worth_a_second(seed: int, n: int, times: float) -> None:
    """The greedy plan, counted out one by one: within a budget, and per second."""
    p = crowd(seed, n, most=60)
    once = p.seconds(np.ones(n))
    for asked in (p, p._replace(budget=once * times)):
        steps = np.ones(n, int)
        while True:
            level = p.step_worth(steps) / p.step_seconds
            fits = steps < p.most
            if asked.budget is not None:
                fits &= p.seconds(steps) + p.step_seconds <= asked.budget * (1 + 1e-9)
            i = int(np.argmax(np.where(fits, level, -1)))
            if not fits.any() or (asked.budget is None and level[i] <= p.worth(steps) / p.seconds(steps)):
                break
            steps[i] += 1
        assert price(asked).steps.tolist() == steps.tolist()


@given(p=problems(budget=True), more=st.floats(1.0, 2.0))
def test_a_larger_budget_is_never_worth_less(p: Problem, more: float) -> None:
    larger = p._replace(budget=p.budget * more)
    assert p.worth(price(larger).steps) >= p.worth(price(p).steps) - 1e-12


BETTER = st.sampled_from(["step_seconds", "weights", "gain", "fading"])


@given(p=problems(), better=BETTER, share=st.floats(0.1, 0.95))
def test_cheaper_or_more_useful_clients_never_get_fewer_steps(p: Problem, better: str, share: float) -> None:
    """A twin of the first client, all else equal, is put beside it with one column made worse."""
    index = np.array([0, *range(p.weights.size)])
    columns = ("weights", "step_seconds", "comm_seconds", "gain", "fading", "most")
    twin = {name: getattr(p, name)[index].copy() for name in columns}
    twin[better][1] *= share if better in ("weights", "gain") else 1 / share
    pair = p._replace(**twin, clients=tuple("abcdef"[: index.size]))
    if p.budget is not None:
        pair = pair._replace(budget=max(p.budget, 1.3 * pair.seconds(np.ones(index.size))))
    steps = price(pair).steps
    assert steps[0] >= steps[1]


def test_a_plan_by_hand() -> None:
    """Steps halve in worth: 8, 4, 2, 1 at 1 s and 6, 3, 1.5 at 2 s. 7 s leave 4 after the first steps: 4 and
    2 a second, and the two seconds that are left go to the next best that fits, 3/2 a second before 1."""
    half = math.log(2)
    p = problem([1.0, 1.0], [1.0, 2.0], gain=[8.0, 6.0], fading=half, budget=7.0)
    plan = price(p)
    assert plan.steps.tolist() == [3, 2] and plan.why == ("budget", "budget")
    assert p.worth(plan.steps) == pytest.approx(14 + 9) and plan.seconds == 7
    capped = price(p._replace(most=np.array([2, 9])))
    assert capped.steps.tolist() == [2, 2] and capped.why == ("cap", "budget")
    assert price(p._replace(budget=7.0 - 1e-10)).steps.tolist() == [3, 2], "rounding is no overrun"
    assert price(p._replace(budget=6.99)).steps.tolist() == [4, 1]


def test_without_a_budget_a_step_is_taken_if_it_raises_the_worth_per_second() -> None:
    """1 s a step and 1 s of communication, worth 4, 2, 1: 4/2, 6/3, 7/4 a second. A tie takes none more."""
    p = problem([1.0], [1.0], [1.0], [4.0], math.log(2))
    assert price(p).steps.tolist() == [1] and price(p).why == ("rate",)
    assert price(p._replace(comm_seconds=np.array([2.0]))).steps.tolist() == [2]  # 4/3, 6/4, 7/5
    both = problem([1.0, 1.0], [1.0, 0.5], [1.0, 1.0], [4.0, 4.0], math.log(2), clock="makespan")
    assert price(both).steps.tolist() == [1, 2]  # by 2 s: 4 + 6; by 3 s: 6 + 7.5


def test_a_budget_met_exactly_is_met() -> None:
    """3 x 0.1 is a little more than 0.3 in binary."""
    assert price(problem([1.0] * 3, 0.1, budget=0.3)).steps.tolist() == [1, 1, 1]
    for clock in ("sum", "makespan"):
        assert price(problem([1.0], 0.1, budget=0.3, clock=clock)).steps.tolist() == [3]


@pytest.mark.parametrize("clock", ["sum", "makespan"])
@pytest.mark.parametrize("budget", [None, 50.0])
def test_strange_numbers(clock: str, budget: float | None) -> None:
    """Clients of no weight and of no gain, steps that never fade, and all of it very large and very small."""
    gain, fading = [1.0, 0.0, 1.0], [0.1, 0.1, 0.0]
    p = problem([0.0, 1.0, 1.0], 1.0, 1.0, gain, fading, most=30, clock=clock, budget=budget)
    steps = price(p).steps
    assert steps[2] == 30 and (clock == "makespan" or steps[:2].tolist() == [1, 1])
    nothing = price(p._replace(gain=np.zeros(3))).steps
    assert (nothing >= 1).all() and p.fits(nothing)
    gain, fading = [1e-300, 1e300, 1e-12], [1e300, 1e-300, 1e-12]
    wild = problem([1e-300, 1.0, 1e300], [1e-9, 1.0, 1e9], 0.0, gain, fading, clock=clock)
    with np.errstate(over="ignore"):
        assert (price(wild).steps >= 1).all()


def test_alone_a_client_takes_the_most_worth_per_second_and_old_work_counts_less() -> None:
    """Worth 4, 2, 1, 1/2 at 1 s a step, and 1 s or 5 s of communication: 4/2, 6/3 (a tie), 7/4; 4/6, 6/7,
    7/8, 7.5/9. Where work that missed m moves counts 1/m, and a move takes a second: 4/36, 6/49, 7/64."""
    p = problem([1.0, 1.0], [1.0, 1.0], [1.0, 5.0], [4.0, 4.0], math.log(2), most=4)
    counts = Signals(stale=lambda age: 1.0, interval=1.0)
    assert price(p, counts).steps.tolist() == [1, 3]
    assert price(p, Signals(stale=lambda age: 1 / age, interval=1.0)).steps.tolist() == [1, 2]
    assert price(p._replace(budget=10.0), counts).steps.tolist() == [1, 2]  # 2 s are left, one for each


@pytest.mark.slow
def test_a_hundred_thousand_clients() -> None:
    p = crowd(1, 100_000)
    p = p._replace(budget=3 * p.seconds(np.ones(100_000)))
    assert p.fits(price(p).steps)
    alike = problem(np.ones(100_000), 0.01, budget=1500.0, most=9)
    assert price(alike).steps.sum() == 150_000
