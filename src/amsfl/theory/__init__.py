"""The paper's claims as functions of a run: printed and corrected, with slack."""

from amsfl.theory.allocation import printed_allocation, quadratic_allocation
from amsfl.theory.check import CLAIMS, check_run
from amsfl.theory.claim import Claim, ClaimResult, Sides, evaluate, table
from amsfl.theory.problems import (
    FederatedProblem,
    build,
    logistic,
    quadratic,
    tanh,
)
from amsfl.theory.random_problems import random_logistic, random_quadratics
from amsfl.theory.store import check_folder, read_trace, rows_of, write_trace
from amsfl.theory.trace import Trace, record

__all__ = [
    "CLAIMS",
    "Claim",
    "ClaimResult",
    "FederatedProblem",
    "Sides",
    "Trace",
    "build",
    "check_folder",
    "check_run",
    "evaluate",
    "logistic",
    "printed_allocation",
    "quadratic",
    "quadratic_allocation",
    "random_logistic",
    "random_quadratics",
    "read_trace",
    "record",
    "rows_of",
    "table",
    "tanh",
    "write_trace",
]
