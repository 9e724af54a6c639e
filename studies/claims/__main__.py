"""How often the paper's claims fail on random problems: `python studies/claims [cases] [seed]`."""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from claims import CLAIMS
from claims.claim import evaluate
from claims.random_problems import random_logistic, random_quadratics, random_trace

cases, seed = int(sys.argv[1]) if len(sys.argv) > 1 else 3000, int(sys.argv[2]) if len(sys.argv) > 2 else 0
rng = np.random.default_rng(seed)
print(f"% of comparisons violated, {cases} random problems a column, seed {seed}\n")
print(f"{'':56}quadratic, equal  unequal   logistic, equal  unequal")
makers = (random_quadratics, random_logistic)
runs = [random_trace(rng, maker(rng, cases), equal) for maker in makers for equal in (True, False)]
for row in zip(*(evaluate(CLAIMS, run) for run in runs), strict=True):
    shares = "".join(f"{100 * result.violated:<14.2f}" for result in row)
    print(f"{row[0].claim.name:24}{row[0].claim.where:20}{row[0].claim.form:12}{shares}")
print("\nresidual bounds after 300 rounds, eta L = 0.1, unequal steps, quadratics: % of runs violated")
few = min(cases, 300)  # 300 rounds kept whole are a gigabyte
trace = random_trace(rng, random_quadratics(rng, few), False, rounds=300, reach=0.1)
for result in evaluate([claim for claim in CLAIMS if claim.name == "residual bound"], trace):
    print(f"  {result.claim.where:20}{result.claim.form:12}{100 * result.violated:.2f} of {few}")
