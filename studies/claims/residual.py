"""Theorem 3.2: the linearised recursion and the error that remains, as printed and as corrected."""

import numpy as np

from claims.assumptions import contraction
from claims.claim import Sides, claim
from claims.problems import Array, average, norm, total
from claims.recursion import bias, drifted, residual, squares, work
from claims.trace import Trace, errors, local_steps, mean_steps, reach

THETAS = (0.1, 0.5, 0.9)  # Theorem 3.2 says "for any theta in (0, 1)"


def _linear(trace: Trace, corrected: bool) -> tuple[Array, Array]:
    """theta' and Delta_k of A.2.3; corrected, rho is halved to make room for the bias term."""
    full = 2 * trace.lr * trace.problem.convex * mean_steps(trace)
    rho = full / 4 if corrected else full / 2
    extra = trace.lr**2 * norm(bias(trace)) ** 2 / rho if corrected else 0.0
    floor = trace.lr**2 * (2 * norm(work(trace)) ** 2 + (2 + 1 / rho) * norm(drifted(trace)) ** 2) + extra
    return np.minimum(full / 2, 1.0), floor


@claim(
    "printed", "linearised", "A.2.3", "|e+|^2 <= (1 - theta')|e|^2 + Delta_k", strong=True, corrected=False
)
@claim(
    "corrected",
    "linearised",
    "A.2.3",
    "|e+|^2 <= (1 - theta')|e|^2 + Delta_k + eta^2 |bias|^2 / rho",
    strong=True,
    corrected=True,
)
def _linearised(trace: Trace, corrected: bool) -> Sides:
    now, after = squares(trace)
    theta, floor = _linear(trace, corrected)
    return Sides(after, (1 - theta) * now + floor, reach(trace)[:-1] ** 2)


@claim(
    "printed",
    "linearised, any theta",
    "Thm 3.2",
    "|e+|^2 <= (1 - theta)|e|^2 + (1 + 1/theta) Delta_k for every theta in (0, 1)",
)
def _any_theta(trace: Trace) -> Sides:
    now, after = squares(trace)
    floor = residual(trace)
    return Sides(
        after, np.min([(1 - t) * now + (1 + 1 / t) * floor for t in THETAS], axis=0), reach(trace)[:-1] ** 2
    )


def _settled(trace: Trace, theta: Array, limit: Array) -> Sides:
    """limsup on a finite run: the last error, less what is left of the first one."""
    square = norm(errors(trace)) ** 2
    left = np.prod(1 - theta, axis=0) * square[0]
    return Sides((square[-1] - left)[None], limit[None], reach(trace)[-1][None] ** 2)


@claim("printed", "residual bound", "Thm 3.2", "limsup |e|^2 <= (1 + 1/theta) Delta_k", strong=True)
def _printed_limit(trace: Trace) -> Sides:
    theta = np.clip(2 * trace.lr * trace.problem.convex * mean_steps(trace), 0, 0.99)
    limit = np.max((1 + 1 / theta) * residual(trace), axis=0)
    return _settled(trace, theta, limit)


@claim(
    "printed",
    "residual bound",
    "A.2, last line",
    "limsup |e|^2 <= Delta_k / theta'",
    strong=True,
    corrected=False,
)
@claim(
    "corrected",
    "residual bound",
    "Thm 3.2",
    "limsup |e|^2 <= (Delta_k + eta^2 |bias|^2 / rho) / theta'",
    strong=True,
    corrected=True,
)
def _limit(trace: Trace, corrected: bool) -> Sides:
    theta, floor = _linear(trace, corrected)
    return _settled(trace, theta, np.max(floor / theta, axis=0))


@claim("corrected", "residual bound, sharp", "Thm 3.2", "|e+| <= sum w q^t |e| + |round(w*) - w*|")
def _contracts(trace: Trace) -> Sides:
    """The round is an average of contractions, so it contracts; it moves w* by the floor."""
    q = total(trace.problem.weights * contraction(trace)[..., None] ** trace.steps)
    star, longest = trace.problem.optimum, trace.points.shape[1] - 1
    moved = np.stack(
        [
            average(trace.problem.weights, local_steps(trace.problem, star, row, trace.lr, longest)[-1])
            for row in trace.steps
        ]
    )
    size = norm(errors(trace))
    return Sides(size[1:], q * size[:-1] + norm(moved - star), reach(trace)[:-1])
