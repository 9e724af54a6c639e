"""The paper's claims on problems with known constants: printed and corrected, with slack."""

from claims import allocation, assumptions, recursion, residual
from claims.claim import Claim

CLAIMS: tuple[Claim, ...] = (*assumptions.CLAIMS, *recursion.CLAIMS, *residual.CLAIMS, *allocation.CLAIMS)
