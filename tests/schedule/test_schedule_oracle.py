"""The judge of the scheduler's tests: worth from its definition, and the best plan by trying them all."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amsfl.schedule import Problem, Resource, problem, seconds, utility, worth


def step_worth(p: Problem, i: int, s: int) -> float:
    """omega_i m_i(s) from the definition, in plain Python."""
    w, a, d = float(p.weights[i]), float(p.gain[i]), float(p.drift[i])
    if p.curve == "linear":
        return w * (a - d * s)
    return w * a * math.exp(-d * s / a) if a > 0 else 0.0


def everything(p: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """All plans there are, with U, seconds, and whether they respect every limit (to 1e-9)."""
    n = p.weights.size
    grid = np.meshgrid(*(np.arange(1, top + 1) for top in p.t_max), indexing="ij")
    plans = np.stack([g.ravel() for g in grid], axis=1)
    u = np.zeros(len(plans))
    for i in range(n):
        total = np.cumsum([step_worth(p, i, s) for s in range(p.t_max[i])])
        u += total[plans[:, i] - 1]
    each = plans * p.step_seconds + p.comm_seconds
    took = each.sum(1) if p.kind == "sum" else each.max(1)
    fits = np.ones(len(plans), bool) if p.budget is None else took <= p.budget * (1 + 1e-9)
    for r in p.resources:
        fits &= (plans * r.per_step + r.per_round).sum(1) <= r.limit * (1 + 1e-9)
    return plans, u, took, fits


def best(p: Problem) -> float:
    """The optimum: U within the budget, or U per second without one."""
    _, u, took, fits = everything(p)
    return float((u if p.budget is not None else u / took)[fits].max())


def score(p: Problem, plan) -> float:
    """What `best` measures, of a plan."""
    return plan.objective if p.budget is not None else plan.objective / plan.seconds


def certified(p: Problem, plan) -> float:
    """What the plan's bound says `best` cannot exceed."""
    return plan.bound if p.budget is not None else plan.bound / plan.seconds


def random_problem(rng: np.random.Generator, resources: int | None = None, **fixed) -> Problem:
    """A small problem; a third of the columns hold round numbers, so that ties and exact fits happen."""
    n = int(rng.integers(1, 5))

    def column(low: float, high: float) -> np.ndarray:
        round_numbers = rng.choice([0.1, 0.2, 0.3, 0.5, 1.0, 2.0], n)
        return round_numbers if rng.random() < 0.3 else rng.uniform(low, high, n)

    w, c, b, a, d = column(0, 1), column(0.05, 2), column(0, 1), column(0, 2), column(0, 1)
    if rng.random() < 0.1:
        d = np.zeros(n)
    if rng.random() < 0.1:
        a[0] = 0.0
    kind = fixed.get("kind") or str(rng.choice(["sum", "makespan"]))
    once = (c + b).sum() if kind == "sum" else (c + b).max()
    budget = fixed["budget"] if "budget" in fixed else bool(rng.random() < 0.6)
    limits = []
    for k in range(int(rng.choice([0, 0, 1, 2])) if resources is None else resources):
        per_step, per_round = column(0, 1) * (rng.random(n) < 0.9), column(0, 1)
        limits.append(
            Resource(f"r{k}", per_step, per_round, (per_step + per_round).sum() * rng.uniform(1, 3))
        )
    return problem(
        w, c, b, a, d,
        curve=fixed.get("curve") or str(rng.choice(["linear", "geometric"])),
        kind=kind,
        t_max=rng.integers(1, 7, n),
        budget=float(once * rng.uniform(1, 4)) if budget else None,
        resources=limits,
    )  # fmt: skip


def problems(**fixed) -> st.SearchStrategy[Problem]:
    """`random_problem` for hypothesis."""
    seeds = st.integers(0, 2**32 - 1)
    return seeds.map(lambda seed: random_problem(np.random.default_rng(seed), **fixed))


@given(problems(), st.integers(0, 10**6))
def test_closed_forms_are_the_sums_they_stand_for(p: Problem, pick: int) -> None:
    plans, u, took, _ = everything(p)
    k = pick % len(plans)
    assert utility(p, plans[k]) == pytest.approx(u[k], rel=1e-12, abs=1e-14)
    assert seconds(p, plans[k]) == pytest.approx(took[k], rel=1e-12)
    expected = [step_worth(p, i, int(s)) for i, s in enumerate(plans[k])]
    np.testing.assert_allclose(worth(p, plans[k]), expected, rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("curve", ["linear", "geometric"])
def test_both_curves_start_at_the_gain_and_fall_by_the_drift(curve: str) -> None:
    # a - d s and a exp(-d s/a) agree to first order at s = 0, so that one pair of readings serves both.
    p = problem([1.0], [1.0], gain=[2.0], drift=[1e-4], curve=curve)
    assert worth(p, 0)[0] == 2.0
    assert worth(p, 0)[0] - worth(p, 1)[0] == pytest.approx(1e-4, rel=1e-3)
