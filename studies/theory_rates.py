"""How often the paper's claims fail on random problems: `python studies/theory_rates.py [cases] [seed]`."""

import sys
from collections.abc import Callable

import numpy as np
from claims import CLAIMS, recursion
from claims.assumptions import ball_grad_bound
from claims.claim import Sides, evaluate, violations
from claims.problems import Array, FederatedProblem
from claims.random_problems import random_logistic, random_quadratics, random_trace
from claims.trace import Trace, grad_bound

KINDS: dict[str, Callable[[np.random.Generator, int], FederatedProblem]] = {
    "quadratic": random_quadratics,
    "logistic": random_logistic,
}


def printed_recursion_rate(trace: Trace, bound: Array) -> float:
    """Share of rounds that break Theorem 3.1 as printed when G is `bound`."""
    claim = next(c for c in CLAIMS if c.where == "Thm 3.1" and c.form == "printed")
    lhs, rhs, size = claim.sides(trace)
    wider = recursion.residual(trace) * ((bound / grad_bound(trace)) ** 2 - 1)
    return float(violations(Sides(lhs, rhs + wider, size))[0].mean())


def main(cases: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    print(f"% of comparisons violated, {cases} random problems a column, seed {seed}\n")
    runs = [(kind, equal) for kind in KINDS for equal in (True, False)]
    results = [evaluate(CLAIMS, random_trace(rng, KINDS[kind](rng, cases), equal)) for kind, equal in runs]
    heads = "".join(f"{kind[:4]}/{'equal' if equal else 'unequal':<9}" for kind, equal in runs)
    print(f"{'':56}{heads}")
    for row in zip(*results, strict=True):
        shares = "".join(f"{100 * r.violated:<14.2f}" for r in row)
        print(f"{row[0].name:24}{row[0].where:20}{row[0].form:12}{shares}")
    print(
        "\nTheorem 3.1 as printed on quadratics: % of rounds violated, "
        "G = largest gradient met / G over a ball no step can leave"
    )
    for reach in (0.003, 0.01, 0.03, 0.1, 0.3, 1.0):
        cells = []
        for equal in (True, False):
            trace = random_trace(rng, random_quadratics(rng, cases), equal, reach=reach)
            pair = [printed_recursion_rate(trace, g) for g in (grad_bound(trace), ball_grad_bound(trace))]
            cells.append(f"{'equal' if equal else 'unequal'} {100 * pair[0]:.2f} / {100 * pair[1]:.2f}")
        print(f"  eta L = {reach:<6} {'   '.join(cells)}")
    print("\nresidual bounds after 300 rounds, eta L = 0.1, unequal steps, quadratics: % of runs violated")
    few = min(cases, 300)  # 300 rounds kept whole are a gigabyte
    trace = random_trace(rng, random_quadratics(rng, few), False, rounds=300, reach=0.1)
    for r in evaluate([c for c in CLAIMS if c.name == "residual bound"], trace):
        print(f"  {r.where:20}{r.form:12}{100 * r.violated:.2f} of {few}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3000, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
